//! The cases of `testdata/cases` played over sockets and read by the real client. The exact figures of these bytes are
//! checked in `goodput-wire`; here their times are real, so each has its exact lower bound and a generous upper one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::Timeouts;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, Timeline};
use goodput_core::tokens::TokenSource;
use goodput_net::receive::Finished;
use goodput_server::{Running, ScriptPlan, Service, spawn};
use goodput_wire::replay::Replay;
use harness::{Point, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The clocks of kernel and client may differ by this much, in milliseconds.
const EARLY_MS: f64 = 2.0;
/// A busy machine delays both sides; wrong definitions in these cases are off by more, in milliseconds.
const LATE_MS: f64 = 1_000.0;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases").join(name)
}

fn load(file: &str) -> Replay {
    Replay::parse(&std::fs::read_to_string(case(file)).unwrap()).unwrap()
}

fn serve(plan: ScriptPlan) -> (Running, String) {
    let server = spawn(Service::Script(plan)).unwrap();
    let url = format!("http://{}", server.addr);
    (server, url)
}

fn assert_near(got: Nanos, due_ms: f64, what: &str) {
    let got = got.as_millis_f64();
    assert!(got >= due_ms - EARLY_MS, "{what}: {got} ms is before {due_ms} ms");
    assert!(got <= due_ms + LATE_MS, "{what}: {got} ms is long after {due_ms} ms");
}

/// One answer against the figures that `expected.json` has for it.
struct Answer<'a> {
    record: &'a Finished,
    what: String,
}

impl Answer<'_> {
    fn timeline(&self) -> &Timeline {
        &self.record.timeline
    }

    fn tokens(&self) -> Vec<&Chunk> {
        self.timeline().token_chunks().filter(|c| !c.flags.has(ChunkFlags::WHOLE)).collect()
    }

    fn assert_at(&self, at: Option<Nanos>, due_ms: &Value, key: &str) {
        let what = format!("{}: {key}", self.what);
        let span = at.map(|at| at.since(self.timeline().instants.sent.unwrap()));
        match (span, due_ms.as_f64()) {
            (Some(span), Some(due_ms)) => assert_near(span, due_ms, &what),
            (span, due_ms) => assert!(span.is_none() && due_ms.is_none(), "{what}: {span:?}, not {due_ms:?}"),
        }
    }

    /// Chunks come on an absolute schedule: after a late one the gap may be short, but no chunk is early.
    fn assert_gaps(&self, first: Option<Nanos>, chunks: &[&Chunk], gaps: &Value) {
        let gaps = gaps.as_array().unwrap();
        assert_eq!(chunks.len(), if first.is_some() { gaps.len() + 1 } else { 0 }, "{}: chunks", self.what);
        let mut due_ms = first.map_or(0.0, Nanos::as_millis_f64);
        for (chunk, gap) in chunks.iter().skip(1).zip(gaps) {
            due_ms += gap.as_f64().unwrap();
            self.assert_at(Some(chunk.at), &json!(due_ms), "gap");
        }
    }

    fn outcome(&self) -> &'static str {
        match self.timeline().outcome {
            Outcome::Ok => "success",
            Outcome::NoTokens => "empty",
            Outcome::StreamError { .. } if self.timeline().is_whole() => "failed:error_body",
            Outcome::StreamError { .. } => "failed:error_in_stream",
            Outcome::Protocol { .. } => "failed:not_sse",
            Outcome::Reset => "failed:connection_reset",
            ref other => other.name(),
        }
    }

    /// Checks one figure of a case. `tpot_ms` divides times that are checked on their own.
    fn check(&self, key: &str, value: &Value, figures: &Value) {
        let (timeline, tokens, texts) = (self.timeline(), self.tokens(), &self.record.texts);
        let answer =
            ChunkFlags(ChunkFlags::OUTPUT.0 & !ChunkFlags::REASONING.0 & !ChunkFlags::REASONING_CONTENT.0);
        let last = |c: &&Chunk| c.carries_token() || c.flags.has(ChunkFlags::FINISH);
        let due = |key: &str| figures[key].as_f64().map(|ms| Nanos::from_secs_f64(ms / 1e3));
        let got = match key {
            "tpot_ms" | "decode_tpot_ms" => return,
            "first_chunk_ms" => return self.assert_at(timeline.first_event(), value, key),
            "ttft_ms" => return self.assert_at(tokens.first().map(|c| c.at), value, key),
            "ttfa_ms" => {
                let first = tokens.iter().find(|c| c.flags.any(answer));
                return self.assert_at(first.map(|c| c.at), value, key);
            }
            "e2e_ms" => return self.assert_at(timeline.chunks.iter().rfind(last).map(|c| c.at), value, key),
            "stream_end_ms" => {
                return self.assert_at(timeline.instants.done.or(timeline.instants.closed), value, key);
            }
            "icl_ms" => return self.assert_gaps(due("ttft_ms"), &tokens, value),
            "icl_by_choice_ms" => {
                let choice = |n| tokens.iter().copied().filter(|c| c.choice == n).collect::<Vec<_>>();
                let gaps_of_1: f64 = value["1"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
                let first_of_1 = due("e2e_ms").unwrap() - Nanos::from_secs_f64(gaps_of_1 / 1e3);
                self.assert_gaps(due("ttft_ms"), &choice(0), &value["0"]);
                return self.assert_gaps(Some(first_of_1), &choice(1), &value["1"]);
            }
            "outcome" => json!(self.outcome()),
            "output_tokens" | "partial_tokens" => json!(timeline.output.map_or(0, |o| o.count)),
            "token_source" => match timeline.output.unwrap().source {
                TokenSource::Server => json!("usage"),
                source => json!(source.name()),
            },
            "events" => {
                json!(timeline.chunks.iter().filter(|c| !c.flags.has(ChunkFlags::COMMENT)).count())
            }
            "text" => json!(texts[0].text),
            "texts" => texts.iter().map(|t| (t.index.to_string(), json!(t.text))).collect(),
            "reasoning_text" => json!(texts[0].reasoning),
            "tool_args" => json!(texts[0].tool_args),
            "finish_reason" => json!(timeline.finish_reason),
            other => panic!("no figure is called {other}"),
        };
        assert_eq!(got, *value, "{}: {key}", self.what);
    }
}

fn play(file: &str, figures: &Value) {
    let replay = load(file);
    let request: Value = replay.request.as_deref().map_or(Value::Null, |r| serde_json::from_str(r).unwrap());
    let number = |key: &str| request[key].as_u64().map(|n| u32::try_from(n).unwrap());
    let (_server, url) = serve(ScriptPlan::Same(replay));
    let (max_tokens, choices) = (number("max_tokens"), number("n").unwrap_or(1));
    let (records, _) = run(Point { max_tokens, choices, ..Point::closed(url, 1, 1) });
    assert_eq!(records.len(), 1, "{file}");
    let answer = Answer { record: &records[0], what: file.to_owned() };
    for (key, value) in figures.as_object().unwrap() {
        answer.check(key, value, figures);
    }
}

#[test]
fn every_stream_case_has_its_expected_figures() {
    let mut playing = Vec::new();
    for entry in std::fs::read_dir(case("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let expected = std::fs::read_to_string(case(&name).join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let Some(files) = expected["files"].as_object() else { continue };
        for (file, figures) in files.iter().filter(|(file, _)| file.ends_with(".replay")) {
            let (file, figures) = (format!("{name}/{file}"), figures.clone());
            playing.push(std::thread::spawn(move || play(&file, &figures)));
        }
    }
    assert!(playing.len() >= 20, "only {} streams were found", playing.len());
    for thread in playing {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[test]
fn no_pool_limit_hides_below_the_concurrency() {
    let (server, url) = serve(ScriptPlan::Same(load("67-connection-pool-cap/hold.replay")));
    let (records, facts) = run(Point::closed(url, 256, 256));
    assert_eq!((records.len(), facts.warm_connections), (256, 256));
    for record in &records {
        let timeline = &record.timeline;
        assert_eq!(timeline.outcome, Outcome::Ok);
        let first = timeline.token_chunks().next().unwrap().at;
        assert_near(first.since(timeline.instants.sent.unwrap()), 2_000.0, "time to first token");
        assert_near(first.since(timeline.instants.released), 2_000.0, "no wait before sending either");
    }
    assert_eq!(server.stop().unwrap().requests.in_flight_peak, 256);
}

#[test]
fn a_dead_keep_alive_connection_is_found_before_it_is_used() {
    let scripts = ["conn1", "conn2"].map(|name| load(&format!("69-stale-keep-alive/{name}.replay")));
    let (server, url) = serve(ScriptPlan::PerConnection(scripts.to_vec()));
    let (records, facts) = run(Point { arrivals_ms: vec![0, 1_500], ..Point::closed(url, 2, 1) });
    assert_eq!(records.len(), 2);
    for (record, due_ms) in records.iter().zip([20.0, 30.0]) {
        let timeline = &record.timeline;
        assert_eq!(timeline.outcome, Outcome::Ok, "the server never saw a request that failed");
        assert_eq!(timeline.connection.uses_before, 0);
        let first = timeline.token_chunks().next().unwrap().at;
        assert_near(first.since(timeline.instants.sent.unwrap()), due_ms, "time to first token");
    }
    let [first, second] = [&records[0], &records[1]].map(|r| &r.timeline);
    assert_eq!(first.instants.connect_start, None, "it was opened beforehand");
    assert_ne!(second.connection.id, first.connection.id);
    // Half a second after the close it is found before use, unless the machine stood still all that time.
    assert_eq!(facts.release.stale_dropped + u64::from(second.connection.stale_retries), 1);
    assert_eq!(first.connection.stale_retries, 0);
    assert_eq!(server.stop().unwrap().requests.arrived, 2);
}

#[test]
fn a_stalled_stream_meets_its_limits() {
    let second = Some(Nanos::from_secs(1));
    let total = Timeouts { total: second, ..Timeouts::default() };
    let idle = Timeouts { idle: second, ..Timeouts::default() };
    let patient = Timeouts { total: Some(Nanos::from_secs(60)), ..Timeouts::default() };
    // Limit, outcome, when it is over, tokens, text.
    let variants = [
        (total, Outcome::Timeout { phase: TimeoutPhase::Total }, 1_000.0, 2, "AB"),
        (idle, Outcome::Timeout { phase: TimeoutPhase::Idle }, 1_900.0, 2, "AB"),
        (patient, Outcome::Ok, 5_000.0, 3, "ABC"),
    ];
    let playing = variants.map(|(timeouts, outcome, over_ms, tokens, text)| {
        std::thread::spawn(move || {
            let (_server, url) = serve(ScriptPlan::Same(load("75-stalled-stream-timeouts/stream.replay")));
            let (records, _) = run(Point { timeouts, ..Point::closed(url, 1, 1) });
            let timeline = &records[0].timeline;
            assert_eq!(timeline.outcome, outcome);
            assert_eq!((timeline.output.unwrap().count, records[0].texts[0].text.as_str()), (tokens, text));
            let (released, sent) = (timeline.instants.released, timeline.instants.sent.unwrap());
            let tokens = timeline.token_chunks().zip([100.0, 200.0, 5_000.0]);
            tokens.for_each(|(chunk, due_ms)| assert_near(chunk.at.since(sent), due_ms, text));
            assert_near(timeline.instants.closed.unwrap().since(released), over_ms, "the end");
        })
    });
    for thread in playing {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
