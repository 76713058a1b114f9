//! Streams and timelines to work on.

use goodput_core::outcome::Outcome;
use goodput_core::plan::{Plan, Protocol};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{End, ReplyConfig};

/// Output tokens of a generated answer.
pub(crate) const TOKENS: usize = 128;

/// The recorded files, by protocol.
const RECORDED: [(Protocol, &str); 7] = [
    (Protocol::OpenaiChat, include_str!("../../../testdata/recorded/vllm_chat_stream.txt")),
    (Protocol::OpenaiChat, include_str!("../../../testdata/recorded/sglang_chat_stream.txt")),
    (Protocol::OpenaiChat, include_str!("../../../testdata/recorded/llamacpp_chat_stream.txt")),
    (Protocol::OpenaiCompletions, include_str!("../../../testdata/recorded/vllm_completions_stream.txt")),
    (Protocol::OpenaiCompletions, include_str!("../../../testdata/recorded/sglang_completions_stream.txt")),
    (Protocol::OpenaiCompletions, include_str!("../../../testdata/recorded/llamacpp_completions_stream.txt")),
    (Protocol::Sglang, include_str!("../../../testdata/recorded/sglang_generate_stream.txt")),
];

/// The body of one answer, event by event.
pub(crate) struct Answer {
    pub(crate) protocol: Protocol,
    pub(crate) events: Vec<Vec<u8>>,
}

impl Answer {
    /// The answer as HTTP/1.1 carries it, one chunk of the framing an event: what a server that writes each event by
    /// itself sends, write by write.
    pub(crate) fn writes(&self) -> Vec<Vec<u8>> {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 06:16:38 GMT\r\nserver: uvicorn\r\n\
            content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
        let framed = |event: &Vec<u8>| [format!("{:x}\r\n", event.len()).as_bytes(), event, b"\r\n"].concat();
        let mut writes: Vec<Vec<u8>> = self.events.iter().map(framed).collect();
        writes[0].splice(..0, HEAD.iter().copied());
        writes.push(b"0\r\n\r\n".to_vec());
        writes
    }

    /// What the answer is read with.
    pub(crate) fn config(&self) -> ReplyConfig {
        ReplyConfig::new(self.protocol)
    }
}

/// Every recorded stream that is a sequence of events, errors left out.
pub(crate) fn recorded() -> Vec<Answer> {
    let bodies = |(protocol, file): (Protocol, &'static str)| {
        file.split("### response:\n").skip(1).filter_map(move |section| {
            let (head, rest) = section.split_once("\r\n\r\n")?;
            let body = rest.split("### POST").next()?;
            let streams = head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream");
            streams.then(|| Answer { protocol, events: vec![body.trim_end_matches('#').as_bytes().to_vec()] })
        })
    };
    RECORDED.into_iter().flat_map(bodies).collect()
}

/// Chat answers as vLLM streams them, [`TOKENS`] tokens each, one an event, then usage and the end mark.
pub(crate) fn chat(answers: usize) -> Vec<Answer> {
    let words = Seed(1).stream("micro/words");
    let one = |answer: usize| {
        let mut draw = words.at(answer as u64);
        let id = format!("chatcmpl-{:032x}", u128::from(draw.bits()) << 64 | u128::from(draw.bits()));
        let head = format!(
            r#"data: {{"id":"{id}","object":"chat.completion.chunk","created":1796019398,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":["#
        );
        let event = |choice: &str, usage: &str| format!("{head}{choice}]{usage}}}\n\n").into_bytes();
        let mut events = vec![event(
            r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
            "",
        )];
        for token in 1..=TOKENS {
            let word = &format!("{:012x}", draw.bits())[..2 + draw.below(6) as usize];
            let finish = if token == TOKENS { r#""length""# } else { "null" };
            let choice = format!(
                r#"{{"index":0,"delta":{{"content":" {word}"}},"logprobs":null,"finish_reason":{finish},"token_ids":null}}"#
            );
            events.push(event(&choice, ""));
        }
        let usage = format!(
            r#","usage":{{"prompt_tokens":512,"total_tokens":{},"completion_tokens":{TOKENS}}}"#,
            512 + TOKENS
        );
        events.push(event("", &usage));
        events.push(b"data: [DONE]\n\n".to_vec());
        Answer { protocol: Protocol::OpenaiChat, events }
    };
    (0..answers).map(one).collect()
}

/// Answers of SGLang's native endpoint, whose text grows with every event.
pub(crate) fn sglang(answers: usize) -> Vec<Answer> {
    let words = Seed(1).stream("micro/words");
    let one = |answer: usize| {
        let mut draw = words.at(answer as u64);
        let (mut text, mut ids) = (String::new(), Vec::new());
        let mut events = Vec::new();
        for token in 1..=TOKENS {
            text.push_str(&format!(" {:012x}", draw.bits())[..3 + draw.below(6) as usize]);
            ids.push((draw.bits() % 128_256).to_string());
            let finish = if token == TOKENS { r#"{"type":"length","length":128}"# } else { "null" };
            events.push(
                format!(
                    "data: {{\"text\":\"{text}\",\"output_ids\":[{}],\"meta_info\":{{\"id\":\"3c471ef930bd4912b634b2829acf3b9e\",\"finish_reason\":{finish},\"prompt_tokens\":512,\"weight_version\":\"default\",\"completion_tokens\":{token},\"cached_tokens\":1}}}}\n\n",
                    ids.join(",")
                )
                .into_bytes(),
            );
        }
        events.push(b"data: [DONE]\n\n".to_vec());
        Answer { protocol: Protocol::Sglang, events }
    };
    (0..answers).map(one).collect()
}

/// Requests of a closed loop of 64 slots, read off generated chat answers whose tokens come 10 ms apart, give or take.
pub(crate) fn timelines(requests: usize) -> Vec<Timeline> {
    const SLOTS: usize = 64;
    let gaps = Seed(1).stream("micro/gaps");
    let mut free = [Nanos::from_millis(1); SLOTS];
    let one = |(index, answer): (usize, Answer)| {
        let mut draw = gaps.at(index as u64);
        let mut after = |mean: f64| Nanos::from_secs_f64(mean * (0.9 + 0.2 * draw.unit()));
        let released = free[index % SLOTS];
        let mut timeline = Timeline::released(index as u64, Phase::Measured, None, released);
        let sent = released.saturating_add(after(20e-6));
        timeline.instants.sent = Some(sent);
        timeline.instants.sent_all = Some(sent);
        (timeline.planned_input, timeline.max_tokens, timeline.ignore_eos) =
            (Some(512), Some(TOKENS as u32), true);
        let mut at = sent.saturating_add(after(50e-3));
        let mut exchange = Exchange::new(answer.config());
        for write in answer.writes() {
            exchange.push(Stamp::exact(at), &write);
            at = at.saturating_add(after(10e-3));
        }
        exchange.finish(End::Complete).apply_to(&mut timeline);
        timeline.instants.closed = Some(at);
        free[index % SLOTS] = at;
        assert_eq!(timeline.outcome, Outcome::Ok, "generated answers are sound");
        timeline
    };
    chat(requests).into_iter().enumerate().map(one).collect()
}

/// The plan of a Poisson load of this many requests; with `concurrency`, of a closed loop.
pub(crate) fn plan(requests: usize, concurrency: Option<u32>) -> Plan {
    let load = match concurrency {
        Some(slots) => format!("concurrency = {slots}"),
        None => r#"arrivals = { law = { kind = "poisson" }, rate = { kind = "steady", rate = 100.0 } }"#
            .to_owned(),
    };
    let text = format!(
        r#"
        version = "1.0"
        seed = 7
        [target]
        urls = ["http://127.0.0.1:8000"]
        protocol = "openai-chat"
        model = "m"
        http = "1"
        verify_tls = true
        [load]
        {load}
        [stop]
        requests = {requests}
        [warmup]
        kind = "none"
        [timeouts]
        [workload]
        data = {{ kind = "random" }}
        prefix_tokens = 0
        tokenizer = {{ kind = "bytes" }}
        [request]
        max_tokens = {TOKENS}
        ignore_eos = true
        stream = true
        continuous_usage = false
        "#
    );
    Plan::from_toml(&text).expect("the plan above is one")
}
