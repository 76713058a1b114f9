//! Every stream case of `testdata/cases`, fed as (time, bytes) pairs, against its `expected.json`.
//!
//! The same bytes are fed in several ways: as HTTP chunks of the writes they are, byte by byte, with a body that
//! ends with the connection, and straight to the body reader. All must give the same figures, exactly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags};
use goodput_core::tokens::TokenSource;
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::replay::{Close, Framing, Replay};
use goodput_wire::reply::{End, Reply, ReplyConfig, ReplyReader};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases")
}

fn load(path: &Path) -> Replay {
    Replay::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

fn stamp(at: Nanos) -> Stamp {
    Stamp::exact(at)
}

fn config(replay: &Replay) -> ReplyConfig {
    let request: Value = replay.request.as_deref().map_or(Value::Null, |r| serde_json::from_str(r).unwrap());
    let number = |key: &str| request[key].as_u64().map(|n| u32::try_from(n).unwrap());
    ReplyConfig {
        max_tokens: number("max_tokens"),
        choices: number("n").unwrap_or(1),
        ..ReplyConfig::new(Protocol::OpenaiChat)
    }
}

/// Feeds a replay through the HTTP framing, `size` bytes a push.
fn through_http(replay: &Replay, size: usize) -> Reply {
    let mut exchange = Exchange::new(config(replay));
    let mut push = |at: Nanos, bytes: &[u8]| {
        for piece in bytes.chunks(size) {
            exchange.push(stamp(at), piece);
        }
    };
    push(Nanos::ZERO, &replay.head());
    for step in &replay.steps {
        push(step.offset, &replay.frame(&step.bytes));
    }
    push(replay.closes_at(), replay.tail());
    match replay.close {
        Close::Clean => exchange.eof(),
        Close::Reset => exchange.reset(),
    }
    exchange.finish(End::Complete)
}

/// Feeds the body alone, as HTTP/2 would.
fn straight(replay: &Replay) -> Reply {
    let mut reader = ReplyReader::new(config(replay));
    let kind =
        replay.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
    reader.head(Nanos::ZERO, replay.status, kind);
    for step in &replay.steps {
        reader.body(stamp(step.offset), &step.bytes);
    }
    reader.finish(if replay.close == Close::Reset { End::Reset } else { End::Complete })
}

fn ms(at: Nanos) -> Value {
    json!(at.as_millis_f64())
}

fn outcome(reply: &Reply) -> &'static str {
    match reply.outcome {
        Outcome::Ok => "success",
        Outcome::NoTokens => "empty",
        Outcome::StreamError { .. } if reply.chunks.iter().any(|c| c.flags.has(ChunkFlags::WHOLE)) => {
            "failed:error_body"
        }
        Outcome::StreamError { .. } => "failed:error_in_stream",
        Outcome::Protocol { .. } => "failed:not_sse",
        Outcome::Reset => "failed:connection_reset",
        Outcome::Truncated { .. } => "failed:truncated",
        _ => "other",
    }
}

/// The figures of the cases' own definitions, by their names in `expected.json`.
struct Figures<'a> {
    reply: &'a Reply,
    closed: Nanos,
    choices: u32,
}

impl Figures<'_> {
    fn tokens(&self) -> impl DoubleEndedIterator<Item = &Chunk> + Clone {
        let whole = |c: &&Chunk| c.carries_token() && !c.flags.has(ChunkFlags::WHOLE);
        self.reply.chunks.iter().filter(whole)
    }

    fn end(&self) -> Option<Nanos> {
        let last = |c: &&Chunk| c.carries_token() || c.flags.has(ChunkFlags::FINISH);
        self.reply.chunks.iter().rfind(last).map(|c| c.at)
    }

    /// Time after the first token, divided.
    fn per(&self, tokens: Option<u32>) -> Value {
        let divisor = tokens.filter(|&n| n > 0 && self.choices == 1);
        match (divisor, self.tokens().next(), self.end()) {
            (Some(n), Some(first), Some(end)) => json!((end - first.at).as_millis_f64() / f64::from(n)),
            _ => Value::Null,
        }
    }

    fn gaps(&self, choice: Option<u16>) -> Value {
        let at: Vec<Nanos> =
            self.tokens().filter(|c| choice.is_none_or(|n| c.choice == n)).map(|c| c.at).collect();
        at.windows(2).map(|w| ms(w[1] - w[0])).collect()
    }

    fn get(&self, key: &str) -> Value {
        let reply = self.reply;
        let answer =
            ChunkFlags(ChunkFlags::OUTPUT.0 & !ChunkFlags::REASONING.0 & !ChunkFlags::REASONING_CONTENT.0);
        let n = reply.output.map(|o| o.count);
        let first = self.tokens().next();
        let text = &reply.text;
        match key {
            "outcome" => json!(outcome(reply)),
            "first_chunk_ms" => reply.chunks.first().map_or(Value::Null, |c| ms(c.at)),
            "ttft_ms" => first.map_or(Value::Null, |c| ms(c.at)),
            "ttfa_ms" => self.tokens().find(|c| c.flags.any(answer)).map_or(Value::Null, |c| ms(c.at)),
            "e2e_ms" => self.end().map_or(Value::Null, ms),
            "stream_end_ms" => ms(reply.done_at.unwrap_or(self.closed)),
            "output_tokens" => n.map_or(Value::Null, |n| json!(n)),
            "partial_tokens" => json!(n.unwrap_or(0)),
            "token_source" => match reply.output.map(|o| o.source) {
                Some(TokenSource::Server) => json!("usage"),
                Some(source) => json!(source.name()),
                None => Value::Null,
            },
            "tpot_ms" => self.per(n.map(|n| n.saturating_sub(1))),
            "decode_tpot_ms" => self.per(n.zip(first).map(|(n, first)| n - first.tokens)),
            "icl_ms" => self.gaps(None),
            "icl_by_choice_ms" => json!({"0": self.gaps(Some(0)), "1": self.gaps(Some(1))}),
            "text" => json!(text[0].text),
            "texts" => text.iter().map(|t| (t.index.to_string(), json!(t.text))).collect(),
            "reasoning_text" => json!(text[0].reasoning),
            "tool_args" => json!(text[0].tool_args),
            "finish_reason" => json!(reply.finish_reason),
            "events" => json!(reply.chunks.iter().filter(|c| !c.flags.has(ChunkFlags::COMMENT)).count()),
            other => panic!("no figure is called {other}"),
        }
    }
}

fn assert_same(expected: &Value, got: &Value, what: &str) {
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => {
            assert!(close(a.as_f64().unwrap(), b.as_f64().unwrap()), "{what}: expected {a}, got {b}");
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                assert_same(a, b, what);
            }
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            for (key, a) in a {
                assert_same(a, &b[key], what);
            }
        }
        _ => assert_eq!(expected, got, "{what}"),
    }
}

#[test]
fn every_stream_case_has_its_expected_figures() {
    let mut streams = 0;
    for entry in fs::read_dir(cases()).unwrap() {
        let dir = entry.unwrap().path();
        let expected: Value =
            serde_json::from_str(&fs::read_to_string(dir.join("expected.json")).unwrap()).unwrap();
        let Some(files) = expected["files"].as_object() else { continue };
        for (name, figures) in files.iter().filter(|(name, _)| name.ends_with(".replay")) {
            let replay = load(&dir.join(name));
            let until_close = Replay { framing: Framing::Close, ..replay.clone() };
            let ways = [
                ("chunked", through_http(&replay, usize::MAX)),
                ("chunked, byte by byte", through_http(&replay, 1)),
                ("until close", through_http(&until_close, usize::MAX)),
                ("until close, three bytes a read", through_http(&until_close, 3)),
                ("straight", straight(&replay)),
            ];
            for (way, reply) in &ways {
                let choices = config(&replay).choices;
                let known = Figures { reply, closed: replay.closes_at(), choices };
                for (key, value) in figures.as_object().unwrap() {
                    let what = format!("{} {name} ({way}): {key}", dir.display());
                    assert_same(value, &known.get(key), &what);
                }
            }
            streams += 1;
        }
    }
    assert!(streams >= 20, "only {streams} streams were found");
}

fn replay(name: &str) -> Replay {
    load(&cases().join(name))
}

#[test]
fn the_messages_of_errors_are_kept() {
    for (name, message) in [
        ("18-error-inside-200-stream/a.replay", "engine died"),
        ("18-error-inside-200-stream/b.replay", "prompt is longer than the context"),
        ("18-error-inside-200-stream/c.replay", "overloaded"),
        ("20-json-instead-of-sse/b.replay", "model is loading"),
    ] {
        let reply = through_http(&replay(name), usize::MAX);
        assert_eq!(reply.outcome, Outcome::StreamError { message: message.to_owned() }, "{name}");
    }
}

#[test]
fn a_stream_that_came_whole_is_one_chunk_with_a_note() {
    let reply = through_http(&replay("20-json-instead-of-sse/a.replay"), usize::MAX);
    assert_eq!(reply.chunks.len(), 1);
    assert!(reply.chunks[0].flags.has(ChunkFlags::WHOLE | ChunkFlags::TEXT | ChunkFlags::USAGE));
    assert_eq!(reply.chunks[0].tokens, 12);
    assert_eq!(reply.notes, ["the answer came as one body although a stream was asked for"]);
}

#[test]
fn events_of_one_read_are_marked() {
    let reply = through_http(&replay("06-all-events-in-one-read/stream.replay"), usize::MAX);
    let shared: Vec<bool> = reply.chunks.iter().map(|c| c.flags.has(ChunkFlags::SHARED_READ)).collect();
    assert!(!shared[0] && shared[1..].iter().all(|&s| s), "{shared:?}");
    let reply = through_http(&replay("15-late-usage-and-close/stream.replay"), usize::MAX);
    let shared: Vec<bool> = reply.chunks.iter().map(|c| c.flags.has(ChunkFlags::SHARED_READ)).collect();
    assert_eq!(shared, [false, false, false, true, false, false]);
}

#[test]
fn keep_alives_are_skipped_and_told() {
    let reply = through_http(&replay("04-keepalive-comments/stream.replay"), usize::MAX);
    let kinds: Vec<&str> = reply.chunks.iter().map(|c| c.kind().name()).collect();
    assert_eq!(
        kinds,
        ["role", "comment", "comment", "other", "text", "text", "comment", "text", "usage", "done"]
    );
    assert_eq!(reply.notes, ["1 data lines without JSON were skipped as keep-alives"]);
}

#[test]
fn reused_connections_answer_in_raw_bytes() {
    for (name, at) in [("69-stale-keep-alive/conn1.replay", 20), ("69-stale-keep-alive/conn2.replay", 30)] {
        let replay = replay(name);
        let mut exchange = Exchange::new(config(&replay));
        assert!(!exchange.has_response_bytes());
        let progress = exchange.push(stamp(replay.steps[0].offset), &replay.steps[0].bytes);
        assert!(progress.complete && progress.keep_alive && progress.saw_byte && progress.first_token);
        assert!(exchange.has_response_bytes());
        let reply = exchange.finish(End::Complete);
        assert_eq!(reply.outcome, Outcome::Ok);
        assert_eq!(reply.chunks[0].at, Nanos::from_millis(at));
        assert_eq!((reply.response_bytes, reply.notes.len()), (270, 0));
    }
}

#[test]
fn a_stalled_stream_keeps_what_came_before_its_limit() {
    let replay = replay("75-stalled-stream-timeouts/stream.replay");
    for (phase, at_ms) in [(TimeoutPhase::Total, 1000), (TimeoutPhase::Idle, 1900)] {
        let mut exchange = Exchange::new(config(&replay));
        exchange.push(stamp(Nanos::ZERO), &replay.head());
        for step in replay.steps.iter().filter(|s| s.offset < Nanos::from_millis(at_ms)) {
            let progress = exchange.push(stamp(step.offset), &replay.frame(&step.bytes));
            assert!(progress.saw_byte && !progress.complete);
        }
        let reply = exchange.finish(End::Timeout(phase));
        assert_eq!(reply.outcome, Outcome::Timeout { phase });
        assert_eq!(reply.output.map(|o| o.count), Some(2));
    }
    let reply = through_http(&replay, usize::MAX);
    let known = Figures { reply: &reply, closed: replay.closes_at(), choices: 1 };
    assert_eq!(known.get("icl_ms"), json!([100.0, 4800.0]));
    assert_eq!(known.get("tpot_ms"), json!(2450.0));
}

#[test]
fn a_reset_keeps_the_partial_text() {
    let reply = through_http(&replay("70-reset-in-mid-stream/stream.replay"), usize::MAX);
    assert_eq!((reply.outcome, reply.text[0].text.as_str()), (Outcome::Reset, "ABC"));
}
