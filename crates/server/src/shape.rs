//! The bytes of answers: events and JSON bodies as vLLM (chat, completions) and SGLang (`/generate`) send them.
//!
//! Each token is one ASCII letter, so a byte tokenizer counts what was served. The parts of an event that do not
//! change within an answer are rendered once.

mod whole;

use crate::ask::Ask;
use crate::fault::{Cuts, Faults, Lines, UsageRule};
use crate::meta::{MetaLabels, Seen};
use serde_json::json;
use std::borrow::Cow;

/// Whose bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /generate`; whether frames carry only what is new.
    Generate { incremental: bool },
}

/// Whose habits an answer follows where the servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// What both have in common.
    #[default]
    Plain,
    /// vLLM 0.32.
    Vllm,
    /// SGLang 0.5.
    Sglang,
}

/// Where usage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a chunk with a choice.
    Chunk,
    /// In a chunk of its own at the end.
    Last,
    /// In an answer that is no stream.
    Whole,
}

/// What an answer says about itself besides its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    /// Number of the request.
    pub(crate) n: u64,
    /// Unix time in seconds.
    pub(crate) created: u64,
    /// Model name.
    pub(crate) model: String,
    pub(crate) dialect: Dialect,
}

/// Writes the events of one answer, in order.
#[derive(Debug)]
pub(crate) struct Voice {
    shape: Shape,
    lines: Lines,
    /// Up to and including the opening of the choice's text.
    before_text: String,
    id: String,
    /// `,"object":...,"created":...,"model":...` as JSON.
    frame: String,
    /// Usage on every chunk.
    usage_everywhere: bool,
    /// Usage on the last chunk with a choice.
    usage_on_last: bool,
    /// A usage chunk of its own.
    usage_chunk: bool,
    empty_finish: bool,
    done: bool,
    prompt_tokens: u64,
    wrong_usage: i32,
    finish: &'static str,
    /// Multi-byte tokens, so that a character can be cut.
    wide: bool,
    /// Tokens said so far.
    said: u32,
    /// Text said so far, for cumulative frames.
    text: String,
    dialect: Dialect,
    /// vLLM: the ids of a chunk's tokens are in it.
    token_ids: bool,
    /// vLLM: the ids of the prompt as JSON, or `null`; they come with the first event.
    pub(crate) prompt_ids: String,
    /// What the engine has said about the request so far.
    pub(crate) seen: Seen,
    /// A fault: from the first token on, the server's wall clock is off by so much, ns.
    clock_step: i64,
}

impl Voice {
    /// A voice for the answer to `ask`. `at_limit` tells whether the token limit ends it.
    pub(crate) fn new(shape: Shape, labels: &Labels, ask: &Ask, faults: &Faults, at_limit: bool) -> Self {
        let native = matches!(shape, Shape::Generate { .. });
        let model = serde_json::Value::from(labels.model.as_str());
        let dialect = labels.dialect;
        let (prefix, object, text) = match (shape, dialect) {
            (Shape::Chat, Dialect::Sglang) => {
                ("", "chat.completion.chunk", r#""delta":{"reasoning_content":null,"content":""#)
            }
            (Shape::Chat, _) => ("chatcmpl-", "chat.completion.chunk", r#""delta":{"content":""#),
            (Shape::Completions, Dialect::Sglang) => ("", "text_completion", r#""text":""#),
            (Shape::Completions, _) => ("cmpl-", "text_completion", r#""text":""#),
            (Shape::Generate { .. }, _) => ("", "", ""),
        };
        let id = format!("{prefix}{:016x}", labels.n);
        let frame = format!(r#","object":"{object}","created":{},"model":{model}"#, labels.created);
        let before_text = if native {
            r#"{"text":""#.to_owned()
        } else {
            format!(r#"{{"id":"{id}"{frame},"choices":[{{"index":0,{text}"#)
        };
        let asked = faults.usage == UsageRule::Asked && ask.include_usage() && !native;
        Self {
            shape,
            lines: faults.lines,
            before_text,
            id,
            frame,
            usage_everywhere: faults.usage == UsageRule::Everywhere || (asked && ask.continuous_usage()),
            usage_on_last: faults.usage == UsageRule::OnLast,
            usage_chunk: asked,
            empty_finish: faults.empty_finish || (shape == Shape::Chat && dialect == Dialect::Sglang),
            done: !faults.no_done,
            prompt_tokens: ask.prompt_tokens(),
            wrong_usage: faults.wrong_usage,
            finish: if at_limit { "length" } else { "stop" },
            wide: faults.cuts == Cuts::InsideUtf8,
            said: 0,
            text: String::new(),
            dialect,
            token_ids: dialect == Dialect::Vllm && ask.return_token_ids(),
            prompt_ids: "null".to_owned(),
            seen: Seen::default(),
            clock_step: faults.clock_step,
        }
    }

    /// Appends the chunk that names the role and carries no token. Nothing for protocols without one.
    pub(crate) fn role(&mut self, out: &mut Vec<u8>) {
        if self.shape != Shape::Chat {
            return;
        }
        let usage = if self.usage_on(false) { self.usage(Place::Chunk) } else { String::new() };
        let (id, frame) = (&self.id, &self.frame);
        let (thoughts, choice_end, end) = match self.dialect {
            Dialect::Plain => ("", "", String::new()),
            Dialect::Vllm => {
                ("", "", format!(r#","prompt_token_ids":{},"prompt_text":null"#, self.prompt_ids))
            }
            Dialect::Sglang => (r#""reasoning_content":null,"#, r#","matched_stop":null"#, String::new()),
        };
        let json = format!(
            r#"{{"id":"{id}"{frame},"choices":[{{"index":0,"delta":{{{thoughts}"role":"assistant","content":""}},"logprobs":null,"finish_reason":null{choice_end}}}]{usage}{end}}}"#
        );
        self.event(out, json.as_bytes());
    }

    /// Appends the event that carries the next `count` tokens; `last` closes the answer unless the finish reason has
    /// a chunk of its own.
    pub(crate) fn tokens(&mut self, out: &mut Vec<u8>, count: u32, last: bool) {
        let mut json = Vec::with_capacity(self.before_text.len() + 256);
        if let Shape::Generate { incremental } = self.shape {
            let first = self.said == 0;
            if incremental {
                self.text.clear();
            }
            for _ in 0..count {
                self.said += 1;
                self.text.push(letter(self.said, self.wide));
            }
            self.native_frame(&mut json, first, last);
        } else {
            json.extend_from_slice(self.before_text.as_bytes());
            for _ in 0..count {
                self.said += 1;
                json.extend_from_slice(letter(self.said, self.wide).encode_utf8(&mut [0; 4]).as_bytes());
            }
            json.push(b'"');
            self.close_choice(&mut json, last && !self.empty_finish, last, count);
        }
        self.event(out, &json);
        if last && self.empty_finish && !matches!(self.shape, Shape::Generate { .. }) {
            self.finish_chunk(out);
        }
    }

    /// Everything behind the text of an OpenAI chunk of `count` tokens.
    fn close_choice(&self, json: &mut Vec<u8>, finish: bool, last: bool, count: u32) {
        if self.shape == Shape::Chat {
            json.push(b'}');
        }
        json.extend_from_slice(br#","logprobs":null,"finish_reason":"#);
        if finish {
            json.push(b'"');
            json.extend_from_slice(self.finish.as_bytes());
            json.push(b'"');
        } else {
            json.extend_from_slice(b"null");
        }
        self.close_fields(json, finish, count);
        json.extend_from_slice(b"}]");
        let on_last = self.usage_on_last && last && (finish || !self.empty_finish);
        if self.usage_on(count > 0) || on_last {
            json.extend_from_slice(self.usage(Place::Chunk).as_bytes());
        } else if self.dialect == Dialect::Sglang && self.shape == Shape::Completions {
            json.extend_from_slice(br#","usage":null"#);
        }
        if finish && !self.usage_chunk {
            json.extend_from_slice(self.fingerprint().as_bytes());
        }
        json.push(b'}');
    }

    /// What stands in a choice behind its finish reason.
    fn close_fields(&self, json: &mut Vec<u8>, finish: bool, count: u32) {
        const STOP: &[u8] = br#","stop_reason":null"#;
        match self.dialect {
            Dialect::Plain if finish => json.extend_from_slice(STOP),
            Dialect::Plain => {}
            Dialect::Sglang => json.extend_from_slice(br#","matched_stop":null"#),
            Dialect::Vllm => {
                let completions = self.shape == Shape::Completions;
                if finish || completions {
                    json.extend_from_slice(STOP);
                }
                if completions {
                    let prompt = if self.said == count { self.prompt_ids.as_str() } else { "null" };
                    json.extend_from_slice(br#","prompt_token_ids":"#);
                    json.extend_from_slice(prompt.as_bytes());
                }
                json.extend_from_slice(br#","token_ids":"#);
                json.extend_from_slice(self.ids(count).as_bytes());
            }
        }
    }

    /// Whether a chunk, with tokens or without, carries usage. SGLang's chat has none on chunks without.
    fn usage_on(&self, tokens: bool) -> bool {
        self.usage_everywhere && (tokens || self.dialect != Dialect::Sglang)
    }

    /// The ids of the last `count` tokens, if they are wanted.
    fn ids(&self, count: u32) -> Cow<'static, str> {
        if !self.token_ids {
            return "null".into();
        }
        let said = (self.said - count + 1)..=self.said;
        let ids: Vec<String> = said.map(|i| u32::from(letter(i, self.wide)).to_string()).collect();
        format!("[{}]", ids.join(",")).into()
    }

    /// vLLM's mark of its build on the last event with JSON; here it says that the engine is simulated.
    fn fingerprint(&self) -> &'static str {
        match self.dialect {
            Dialect::Vllm => {
                concat!(r#","system_fingerprint":"goodput-sim-"#, env!("CARGO_PKG_VERSION"), "\"")
            }
            Dialect::Plain | Dialect::Sglang => "",
        }
    }

    fn finish_chunk(&self, out: &mut Vec<u8>) {
        let (id, frame) = (&self.id, &self.frame);
        let nothing = match (self.shape, self.dialect) {
            (Shape::Chat, Dialect::Sglang) => r#""delta":{"reasoning_content":null"#,
            (Shape::Chat, _) => r#""delta":{"#,
            _ => r#""text":"""#,
        };
        let mut json = format!(r#"{{"id":"{id}"{frame},"choices":[{{"index":0,{nothing}"#).into_bytes();
        self.close_choice(&mut json, true, true, 0);
        self.event(out, &json);
    }

    fn native_frame(&self, json: &mut Vec<u8>, first: bool, last: bool) {
        let finish = if last {
            format!(r#"{{"type":"{}","length":{}}}"#, self.finish, self.said)
        } else {
            "null".to_owned()
        };
        json.extend_from_slice(self.before_text.as_bytes());
        json.extend_from_slice(self.text.as_bytes());
        json.extend_from_slice(br#"","output_ids":["#);
        for (i, byte) in self.text.bytes().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            json.extend_from_slice(format!("{comma}{byte}").as_bytes());
        }
        let (id, prompt, completion) = (&self.id, self.prompt_tokens, self.claimed());
        if self.dialect == Dialect::Sglang {
            let meta = self.seen.meta_info(&MetaLabels {
                id,
                finish: &finish,
                prompt_tokens: prompt,
                completion_tokens: completion,
                first,
                last,
                clock_step: self.clock_step,
            });
            json.extend_from_slice(format!(r#"],"meta_info":{meta}}}"#).as_bytes());
            return;
        }
        json.extend_from_slice(
            format!(
                r#"],"meta_info":{{"id":"{id}","finish_reason":{finish},"prompt_tokens":{prompt},"completion_tokens":{completion},"cached_tokens":0}}}}"#
            )
            .as_bytes(),
        );
    }

    /// Appends what follows the last token: the usage chunk and `[DONE]`.
    pub(crate) fn ending(&self, out: &mut Vec<u8>) {
        if self.usage_chunk {
            let (id, frame, usage) = (&self.id, &self.frame, self.usage(Place::Last));
            let end = self.fingerprint();
            self.event(out, format!(r#"{{"id":"{id}"{frame},"choices":[]{usage}{end}}}"#).as_bytes());
        }
        if self.done {
            self.event(out, b"[DONE]");
        }
    }

    /// Appends an error object inside the stream and `[DONE]`.
    pub(crate) fn error(&self, out: &mut Vec<u8>, (code, kind, message): (u16, &str, &str)) {
        self.event(out, &error_body(code, kind, message));
        if self.done {
            self.event(out, b"[DONE]");
        }
    }

    fn claimed(&self) -> i64 {
        (i64::from(self.said) + i64::from(self.wrong_usage)).max(0)
    }

    /// `,"usage":{...}`.
    fn usage(&self, place: Place) -> String {
        let (prompt, completion) = (self.prompt_tokens, self.claimed());
        let total = i128::from(prompt) + i128::from(completion);
        let details = self.usage_details(place);
        format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion}{details}}}"#
        )
    }

    /// What usage says besides the three counts. Whether a field that is null is there depends on the place.
    fn usage_details(&self, place: Place) -> String {
        let cached = match self.seen.cached_tokens {
            0 => "null".to_owned(),
            tokens => format!(r#"{{"cached_tokens":{tokens}}}"#),
        };
        let known =
            if cached == "null" { String::new() } else { format!(r#","prompt_tokens_details":{cached}"#) };
        let spare = r#","completion_tokens_details":null"#;
        match (self.dialect, place, self.shape) {
            (Dialect::Plain, ..) => String::new(),
            (Dialect::Vllm, Place::Chunk, Shape::Chat) => spare.to_owned(),
            (Dialect::Vllm, Place::Chunk | Place::Last, _) => known,
            (Dialect::Vllm, Place::Whole, _) => format!(r#","prompt_tokens_details":{cached}{spare}"#),
            (Dialect::Sglang, Place::Last, Shape::Completions) => format!(r#"{known},"reasoning_tokens":0"#),
            (Dialect::Sglang, ..) => {
                format!(r#","prompt_tokens_details":{cached},"reasoning_tokens":0{spare}"#)
            }
        }
    }

    /// Appends SGLang's frame of a request that its scheduler turned away, and `[DONE]`.
    pub(crate) fn abort(&self, out: &mut Vec<u8>, (code, message): (u16, &str)) {
        let (id, prompt) = (&self.id, self.prompt_tokens);
        let reason = json!({"type": "abort", "message": message, "status_code": code});
        let frame = format!(
            r#"{{"text":"","output_ids":[],"meta_info":{{"id":"{id}","finish_reason":{reason},"prompt_tokens":{prompt},"weight_version":"default","completion_tokens":0,"cached_tokens":0}}}}"#
        );
        self.event(out, frame.as_bytes());
        if self.done {
            self.event(out, b"[DONE]");
        }
    }

    fn event(&self, out: &mut Vec<u8>, data: &[u8]) {
        let end: &[u8] = if self.lines.crlf { b"\r\n" } else { b"\n" };
        if self.lines.comments {
            out.extend_from_slice(b": ping");
            out.extend_from_slice(end);
            out.extend_from_slice(end);
        }
        if self.lines.event_lines {
            out.extend_from_slice(b"event: message");
            out.extend_from_slice(end);
        }
        out.extend_from_slice(if self.lines.no_space { b"data:" } else { b"data: " });
        out.extend_from_slice(data);
        out.extend_from_slice(end);
        out.extend_from_slice(end);
    }
}

/// Token `i` of an answer, counted from 1.
fn letter(i: u32, wide: bool) -> char {
    if wide { 'é' } else { char::from(b'a' + ((i - 1) % 26) as u8) }
}

/// An error object as vLLM sends it.
pub(crate) fn error_body(code: u16, kind: &str, message: &str) -> Vec<u8> {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::parse_rules;
    use goodput_core::rng::Seed;
    use serde_json::Value;

    fn voice(shape: Shape, body: &str, faults: &str) -> Voice {
        let labels = Labels { n: 7, created: 9, model: "m\"x".to_owned(), dialect: Dialect::Plain };
        let faults = Faults::draw(&parse_rules(faults).unwrap(), Seed(0), 7);
        Voice::new(shape, &labels, &Ask::read(body.as_bytes()).unwrap(), &faults, true)
    }

    fn stream(shape: Shape, body: &str, faults: &str) -> String {
        let mut voice = voice(shape, body, faults);
        let mut out = Vec::new();
        voice.role(&mut out);
        voice.tokens(&mut out, 1, false);
        voice.tokens(&mut out, 2, true);
        voice.ending(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn events(stream: &str) -> Vec<Value> {
        let lines = stream.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.filter(|data| data.trim() != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    #[test]
    fn chat_is_role_then_tokens_then_usage() {
        let asked = r#"{"messages":[{"content":"hello"}],"stream_options":{"include_usage":true}}"#;
        let text = stream(Shape::Chat, asked, "");
        assert!(text.ends_with("data: [DONE]\n\n"));
        let events = events(&text);
        assert_eq!(events.len(), 4);
        assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        assert_eq!(events[1]["choices"][0]["delta"], json!({"content": "a"}));
        assert_eq!(events[1]["choices"][0]["finish_reason"], Value::Null);
        assert_eq!(events[2]["choices"][0]["delta"], json!({"content": "bc"}));
        assert_eq!(events[2]["choices"][0]["finish_reason"], "length");
        assert_eq!(events[3]["choices"], json!([]));
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8});
        assert_eq!(events[3]["usage"], usage);
        for event in &events {
            assert_eq!(event["id"], "chatcmpl-0000000000000007");
            assert_eq!(event["object"], "chat.completion.chunk");
            assert_eq!(event["model"], "m\"x");
        }
    }

    #[test]
    fn continuous_usage_counts_up() {
        let asked =
            r#"{"prompt":"hi","stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
        let events = events(&stream(Shape::Completions, asked, ""));
        let counts: Vec<_> = events.iter().map(|e| e["usage"]["completion_tokens"].as_u64()).collect();
        assert_eq!(counts, [Some(1), Some(3), Some(3)]);
        assert_eq!(events[1]["choices"][0]["text"], "bc");
    }

    #[test]
    fn native_frames_cumulate_unless_incremental() {
        for (incremental, texts, ids) in
            [(false, ["a", "abc"], json!([97, 98, 99])), (true, ["a", "bc"], json!([98, 99]))]
        {
            let events = events(&stream(Shape::Generate { incremental }, r#"{"text":"hi"}"#, ""));
            assert_eq!(events.len(), 2);
            assert_eq!([&events[0]["text"], &events[1]["text"]], texts);
            assert_eq!(events[1]["output_ids"], ids);
            assert_eq!(events[0]["meta_info"]["finish_reason"], Value::Null);
            assert_eq!(events[1]["meta_info"]["finish_reason"], json!({"type": "length", "length": 3}));
            assert_eq!(events[1]["meta_info"]["completion_tokens"], 3);
        }
    }

    #[test]
    fn faults_change_the_lines() {
        let text = stream(Shape::Completions, "{}", "crlf,comments,event_lines,no_space,no_done");
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(&lines[..3], [": ping", "", "event: message"]);
        assert!(lines[3].starts_with("data:{"));
        assert!(!text.contains("[DONE]") && !text.replace("\r\n", "").contains('\n'));
    }

    #[test]
    fn faults_move_the_usage() {
        let asked = r#"{"stream_options":{"include_usage":true}}"#;
        for (fault, wanted) in [
            ("", vec![None, None, None, Some(3)]),
            ("no_usage", vec![None, None, None]),
            ("usage_on_last", vec![None, None, Some(3)]),
            ("usage_on_last,empty_finish", vec![None, None, None, Some(3)]),
            ("usage_everywhere", vec![Some(0), Some(1), Some(3)]),
            ("wrong_usage=-2", vec![None, None, None, Some(1)]),
        ] {
            let events = events(&stream(Shape::Chat, asked, fault));
            let counts: Vec<_> = events.iter().map(|e| e["usage"]["completion_tokens"].as_u64()).collect();
            assert_eq!(counts, wanted, "{fault}");
        }
    }

    #[test]
    fn the_finish_reason_can_come_alone() {
        for (shape, delta) in [
            (
                Shape::Chat,
                json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": "length", "stop_reason": null}),
            ),
            (
                Shape::Completions,
                json!({"index": 0, "text": "", "logprobs": null, "finish_reason": "length", "stop_reason": null}),
            ),
        ] {
            let events = events(&stream(shape, "{}", "empty_finish"));
            assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], Value::Null);
            assert_eq!(events[events.len() - 1]["choices"][0], delta);
        }
    }

    #[test]
    fn whole_answers_have_every_token() {
        let body: Value =
            serde_json::from_slice(&voice(Shape::Chat, r#"{"messages":[]}"#, "").whole(28)).unwrap();
        assert_eq!(body["object"], "chat.completion");
        assert_eq!(body["choices"][0]["message"]["content"], "abcdefghijklmnopqrstuvwxyzab");
        assert_eq!(body["usage"]["completion_tokens"], 28);
        let native = Shape::Generate { incremental: true };
        let body: Value = serde_json::from_slice(&voice(native, "{}", "").whole(2)).unwrap();
        assert_eq!((&body["text"], &body["output_ids"]), (&json!("ab"), &json!([97, 98])));
        let body: Value = serde_json::from_slice(&error_body(400, "BadRequest", "no")).unwrap();
        assert_eq!(body["error"]["code"], 400);
    }
}
