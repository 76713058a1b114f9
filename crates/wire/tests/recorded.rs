//! Streams recorded from real servers (`testdata/recorded`) decode to what the servers themselves counted.
//!
//! The files hold the response head and the body without HTTP chunks, so the bodies go straight to the reader,
//! once at once and once in pieces of seven bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_core::outcome::Outcome;
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, ChunkKind};
use goodput_core::tokens::TokenSource;
use goodput_wire::Stamp;
use goodput_wire::reply::{End, Reply, ReplyConfig, ReplyReader};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// One recorded request with its answer.
struct Recorded {
    config: ReplyConfig,
    status: u16,
    content_type: String,
    body: String,
}

fn recorded(file: &str) -> Vec<Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recorded").join(file);
    let text = fs::read_to_string(path).unwrap();
    text.split("### POST ").skip(1).map(parse).collect()
}

fn parse(section: &str) -> Recorded {
    let (path, rest) = section.split_once("\n### body: ").unwrap();
    let (request, rest) = rest.split_once("\n### response:\n").unwrap();
    let (head, body) = rest.split_once("\r\n\r\n").unwrap();
    let request: Value = serde_json::from_str(request).unwrap();
    let protocol = *Protocol::ALL.iter().find(|p| path.split(',').next() == Some(p.path())).unwrap();
    let params = request.get("sampling_params").unwrap_or(&request);
    let number = |key: &str| params[key].as_u64().map(|n| u32::try_from(n).unwrap());
    let prompts = request["prompt"].as_array().map_or(1, |p| u32::try_from(p.len()).unwrap());
    let header = |name: &str| {
        let line = head.lines().find(|l| l.to_ascii_lowercase().starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    Recorded {
        config: ReplyConfig {
            stream: request["stream"].as_bool().unwrap_or(false),
            max_tokens: number("max_tokens")
                .or_else(|| number("max_completion_tokens"))
                .or_else(|| number("max_new_tokens")),
            ignore_eos: params["ignore_eos"].as_bool().unwrap_or(false),
            choices: number("n").unwrap_or(1) * prompts,
            ..ReplyConfig::new(protocol)
        },
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        content_type: header("content-type:"),
        body: body.to_owned(),
    }
}

impl Recorded {
    fn read(&self, size: usize) -> Reply {
        let mut reader = ReplyReader::new(self.config);
        reader.head(Nanos(0), self.status, Some(&self.content_type));
        for piece in self.body.as_bytes().chunks(size) {
            reader.body(Stamp::of_read(Nanos(1)), piece);
        }
        reader.finish(End::Complete)
    }
}

/// The answer in one line: outcome, tokens with their source, chunks by kind and tokens, finish reason, text.
fn line(reply: &Reply) -> String {
    let output = reply.output.map_or("-".to_owned(), |o| format!("{} {}", o.count, o.source.name()));
    let mut runs: Vec<(String, u32)> = Vec::new();
    for c in &reply.chunks {
        let shown = match c.kind() {
            ChunkKind::Text => format!("{}:{}/{}", c.choice, c.tokens, c.token_source.name()),
            kind => kind.name().to_owned(),
        };
        match runs.last_mut().filter(|(last, _)| *last == shown) {
            Some((_, times)) => *times += 1,
            None => runs.push((shown, 1)),
        }
    }
    let chunks: Vec<String> =
        runs.into_iter().map(|(c, n)| if n > 1 { format!("{n}x {c}") } else { c }).collect();
    let texts: Vec<&str> = reply.text.iter().map(|t| t.text.as_str()).collect();
    let finish = reply.finish_reason.as_deref().unwrap_or("-");
    format!("{} | {output} | {} | {finish} | {texts:?}", reply.outcome.name(), chunks.join(", "))
}

fn check(file: &str, expected: &[&str]) {
    let recorded = recorded(file);
    let lines: Vec<String> = recorded.iter().map(|r| line(&r.read(usize::MAX))).collect();
    assert_eq!(lines, expected, "{file}");
    for (r, expected) in recorded.iter().zip(expected) {
        assert_eq!(line(&r.read(7)), *expected, "{file}, split");
    }
}

#[test]
fn vllm_chat() {
    check(
        "vllm_chat_stream.txt",
        &[
            r#"ok | 4 chunks | role, 4x 0:1/chunks, done | length | ["\n\n\n\n"]"#,
            r#"ok | 4 server | role, 4x 0:1/chunks, usage, done | length | ["\n\n\n\n"]"#,
            r#"ok | 4 server | role, 4x 0:1/server, usage, done | length | ["\n\n\n\n"]"#,
            r#"ok | 4 server | role, 4x 0:1/ids, usage, done | length | ["\n\n\n\n"]"#,
            r#"ok | 2 logprobs | role, 2x 0:1/logprobs, done | length | ["\n\n"]"#,
            r#"ok | 4 server | 2x role, 2x 0:1/chunks, 2x 1:1/chunks, usage, done | length | [" notifications USS", " accord struggled"]"#,
            r#"ok | 1 server | role, 0:1/chunks, usage, done | length | ["\n"]"#,
            r#"ok | 3 server | 0:3/server | length | ["\n\n\n"]"#,
        ],
    );
}

#[test]
fn vllm_completions() {
    check(
        "vllm_completions_stream.txt",
        &[
            r#"ok | 2 chunks | 2x 0:1/chunks, done | length | ["statestatestatestate"]"#,
            r#"ok | 4 server | 4x 0:1/chunks, usage, done | length | ["statestatestatestate"]"#,
            r#"ok | 4 server | 4x 0:1/server, usage, done | length | ["statestatestatestate"]"#,
            r#"ok | 4 server | 4x 0:1/ids, usage, done | length | ["statestatestatestate"]"#,
            r#"ok | 2 logprobs | 2x 0:1/logprobs, done | length | ["statestate"]"#,
            r#"ok | 4 server | 2x 0:1/chunks, 2x 1:1/chunks, usage, done | length | ["statestate", "ee"]"#,
            r#"ok | 1 server | 0:1/chunks, usage, done | stop | ["st"]"#,
            r#"http_error | - |  | - | []"#,
            r#"http_error | - |  | - | []"#,
            r#"ok | 3 server | 0:3/server | length | [" Minority Minority Minority"]"#,
        ],
    );
}

#[test]
fn sglang_chat() {
    check(
        "sglang_chat_stream.txt",
        &[
            r#"ok | 4 chunks | role, 4x 0:1/chunks, finish, done | length | ["\n\n\n\n"]"#,
            r#"ok | 4 server | role, 4x 0:1/chunks, finish, usage, done | length | ["\n\n\n\n"]"#,
            r#"ok | 2 server | role, 2x 0:1/server, finish, usage, done | length | ["\n\n"]"#,
            r#"ok | 3 server | 0:3/server | length | ["\n\n\n"]"#,
        ],
    );
}

#[test]
fn sglang_completions() {
    check(
        "sglang_completions_stream.txt",
        &[
            r#"ok | 4 chunks | 4x 0:1/chunks, done | length | ["statestatestatestate"]"#,
            r#"ok | 4 server | 4x 0:1/chunks, usage, done | length | ["statestatestatestate"]"#,
            r#"ok | 3 server | 3x 0:1/server, usage, done | length | ["statestatestate"]"#,
            r#"ok | 2 logprobs | 2x 0:1/logprobs, done | length | ["statestate"]"#,
            r#"ok | 3 server | 0:3/server | length | [" Minority Minority Minority"]"#,
            r#"http_error | - |  | - | []"#,
            r#"ok | 3 server | 3x 0:1/server, done | length | ["statestatestate"]"#,
        ],
    );
}

#[test]
fn llamacpp_chat() {
    check(
        "llamacpp_chat_stream.txt",
        &[
            r#"ok | 4 chunks | role, 4x 0:1/chunks, finish, done | length | ["L'Éto"]"#,
            r#"ok | 20 server | role, 20x 0:1/chunks, finish, usage, done | length | ["L'Étoile, la Marseillaise, la femme au roi, la"]"#,
            r#"ok | 2 server | role, 2x 0:1/chunks, finish, usage, done | length | ["L'"]"#,
            r#"ok | 3 server | 0:3/server | length | ["L'É"]"#,
        ],
    );
}

#[test]
fn llamacpp_completions() {
    check(
        "llamacpp_completions_stream.txt",
        &[
            r#"ok | 4 server | 4x 0:1/chunks, finish, done | length | [" of the future."]"#,
            r#"ok | 4 server | 4x 0:1/chunks, finish, done | length | [" of the future."]"#,
            r#"ok | 3 server | 3x 0:1/chunks, finish, done | length | [" of the future"]"#,
            r#"ok | 2 server | 0:2/server | length | ["-by"]"#,
            r#"http_error | - |  | - | []"#,
        ],
    );
}

#[test]
fn sglang_native() {
    check(
        "sglang_generate_stream.txt",
        &[
            r#"ok | 4 server | 4x 0:1/server, done | length | ["profitsprofitsprofitsprofits"]"#,
            r#"ok | 4 server | 0:4/server | length | ["profitsprofitsprofitsprofits"]"#,
            r#"stream_error | - | error, done | - | []"#,
            r#"ok | 4 server | 4x 0:1/server, done | length | ["profitsprofitsprofitsprofits"]"#,
        ],
    );
}

#[test]
fn what_the_servers_said_is_kept() {
    let said = |file: &str, index: usize| recorded(file)[index].read(usize::MAX).server;
    let llama = said("llamacpp_chat_stream.txt", 1);
    assert_eq!((llama.prompt_tokens, llama.cached_tokens), (Some(37), Some(36)));
    assert_eq!(llama.completion_tokens, Some(20));
    let native = said("sglang_generate_stream.txt", 0);
    assert_eq!(
        (native.prompt_tokens, native.cached_tokens, native.reasoning_tokens),
        (Some(2), Some(1), Some(0))
    );
    assert_eq!(native.queue, Some(Nanos(314_710)));
    assert!(native.first_token.is_some_and(|t| t > Nanos::from_millis(1)));
    let sglang = said("sglang_chat_stream.txt", 1);
    assert_eq!((sglang.prompt_tokens, sglang.reasoning_tokens, sglang.queue), (Some(32), Some(0), None));
}

#[test]
fn refusals_have_the_server_s_message() {
    let outcome = |file: &str, index: usize| recorded(file)[index].read(usize::MAX).outcome;
    let Outcome::HttpError { status, message } = outcome("vllm_completions_stream.txt", 7) else {
        panic!("no")
    };
    assert_eq!((status, message.as_str()), (404, "The model `nope` does not exist. Valid aliases: tiny."));
    let Outcome::HttpError { status, message } = outcome("sglang_completions_stream.txt", 5) else {
        panic!("no")
    };
    assert_eq!(status, 400);
    assert!(message.starts_with("Requested token count exceeds the model's maximum context length"));
}

#[test]
fn a_role_chunk_is_a_role_chunk_on_every_server() {
    for (file, empty) in [
        ("vllm_chat_stream.txt", true),
        ("sglang_chat_stream.txt", true),
        ("llamacpp_chat_stream.txt", false),
    ] {
        let first = recorded(file)[0].read(usize::MAX).chunks[0];
        assert!(first.flags.has(ChunkFlags::CHOICES | ChunkFlags::ROLE), "{file}");
        assert_eq!(first.flags.has(ChunkFlags::EMPTY_TEXT), empty, "{file}");
        assert_eq!((first.tokens, first.token_source), (0, TokenSource::Chunks), "{file}");
    }
}
