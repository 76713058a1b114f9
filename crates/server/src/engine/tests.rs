//! The service driven by a clock of its own: what is written for each engine, and when.

use super::*;
use crate::answer::{Carried, End as AnswerEnd};
use crate::fault::parse_rules;
use crate::route;
use goodput_model::knobs::Knobs;
use goodput_model::profile::Profile;
use goodput_observe::expose::{Format, Page, read};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Unix time of the server's zero.
const ANCHOR: Nanos = Nanos::from_secs(1_000);
/// A step of the profile `illustrative` with a prompt of five tokens, 20 ms + 5 x 45.166015625 us, in ns.
const PREFILL: u64 = 20_225_830;
const STEP: u64 = 20_000_000;
const GENERATE: Shape = Shape::Generate { incremental: false };

/// The service, and the answers that were begun.
struct Desk {
    service: Simulated,
    answers: Vec<Answer>,
    ends: Vec<Option<EngineInstants>>,
}

/// One write: when it is due, what it is, and the tokens in it.
type Written = (u64, String, u32);

impl Desk {
    fn new(knobs: &[&str], change: impl FnOnce(&mut EngineConfig)) -> Self {
        let knobs: Vec<String> = knobs.iter().map(|knob| (*knob).to_owned()).collect();
        let profile = Profile::shipped("illustrative").unwrap();
        let resolved = profile.resolve(&Knobs::parse(&knobs).unwrap()).unwrap();
        let mut config = EngineConfig {
            config: resolved.config,
            replicas: resolved.replicas,
            routing: Routing::RoundRobin,
            seed: Seed(1),
            model: "m".to_owned(),
            tokens: 64,
            speed: Speed::REAL,
            faults: Vec::new(),
            incremental: false,
            buckets: Buckets::default(),
        };
        change(&mut config);
        let service = Simulated::new(config, ANCHOR).unwrap();
        Self { service, answers: Vec::new(), ends: Vec::new() }
    }

    /// A request that is whole at `at`; returns its number.
    fn ask(&mut self, at: u64, shape: Shape, body: &str, fault: &str) -> usize {
        let request = Request {
            body: body.as_bytes().to_vec(),
            fault: Some(fault.to_owned()),
            keep_alive: true,
            chunked_ok: true,
            ..Request::default()
        };
        let n = self.answers.len();
        let occasion = Occasion { n: n as u64, start: Nanos(at), created: 7 };
        let waiter = Waiter { place: n, number: n as u64 };
        let answer = self.service.answer(shape, &request, occasion, waiter);
        self.answers.push(answer);
        self.ends.push(None);
        self.deliver();
        n
    }

    fn deliver(&mut self) {
        for News { waiter, id, at, what } in self.service.take_news() {
            let Answer::Engine(answer) = &mut self.answers[waiter.place] else { continue };
            assert_eq!(answer.id, id);
            match what {
                What::Refused(reason) => answer.refuse(at, reason),
                What::Tokens { tokens, seen, end } => {
                    answer.tokens(at, tokens, end.is_some(), seen);
                    self.ends[waiter.place] = end;
                }
            }
        }
    }

    /// Lets the engine go on until it has nothing to do.
    fn run(&mut self) {
        while let Some(due) = self.service.due() {
            self.service.advance(due);
            self.deliver();
        }
    }

    /// All writes of an answer and its end.
    fn written(&mut self, n: usize) -> (Vec<Written>, AnswerEnd) {
        let answer = &mut self.answers[n];
        let mut writes = Vec::new();
        while let Some(due) = answer.due() {
            let mut out = Vec::new();
            let Carried { tokens, .. } = answer.emit(&mut out);
            writes.push((due.0, String::from_utf8_lossy(&out).into_owned(), tokens));
        }
        (writes, answer.end())
    }

    /// The data of an answer's events.
    fn events(&mut self, n: usize) -> Vec<String> {
        let text: String = self.written(n).0.into_iter().map(|(_, text, _)| text).collect();
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    fn page(&mut self, at: u64) -> Page {
        let request = Request { method: "GET".into(), path: "/metrics".into(), ..Request::default() };
        let reply = self.service.reply(&request, Nanos(at)).unwrap();
        assert_eq!((reply.status, reply.content_type), (200, "text/plain; version=0.0.4; charset=utf-8"));
        read(&reply.body, Format::Text).whole().unwrap()
    }
}

/// The value of a family, its series added.
fn value(page: &Page, name: &str) -> f64 {
    page.samples(name).map(|sample| sample.value).sum()
}

const CHAT: &str = r#"{"messages":[{"role":"user","content":"hello"}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}"#;

#[test]
fn vllm_writes_a_chunk_a_step_at_the_end_of_the_step() {
    let mut desk = Desk::new(&["engine=vllm"], |_| {});
    let n = desk.ask(1_000, Shape::Chat, CHAT, "");
    desk.run();
    let (writes, end) = desk.written(n);
    let when: Vec<(u64, u32)> = writes.iter().map(|(due, _, tokens)| (*due, *tokens)).collect();
    let first = 1_000 + PREFILL;
    assert_eq!(when, [(1_000, 0), (first, 1), (first + STEP, 1), (first + 2 * STEP, 1)]);
    assert_eq!(end, AnswerEnd::KeepAlive);
    assert_eq!(
        writes[0].1,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let frame = r#"{"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":7,"model":"m","choices":["#;
    let version = route::VERSION;
    let body: Vec<String> = [
        r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}"#.to_owned(),
        r#"{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#.to_owned(),
        r#"{"index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#.to_owned(),
        r#"{"index":0,"delta":{"content":"c"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}"#.to_owned(),
        format!(r#"],"usage":{{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}},"system_fingerprint":"{version}"}}"#),
    ]
    .iter()
    .map(|end| format!("data: {frame}{end}\n\n"))
    .collect();
    let unframed = |text: &str| -> String {
        let lines = text.split("\r\n").enumerate();
        lines.filter(|(line, _)| line % 2 == 1).map(|(_, data)| data).collect()
    };
    assert_eq!(unframed(&writes[1].1), format!("{}{}", body[0], body[1]));
    assert_eq!(unframed(&writes[2].1), body[2]);
    assert_eq!(unframed(&writes[3].1), format!("{}{}data: [DONE]\n\n", body[3], body[4]));
    assert!(writes[3].1.ends_with("\r\n0\r\n\r\n"));
}

#[test]
fn sglang_tells_its_own_times() {
    let mut desk = Desk::new(&["engine=sglang"], |_| {});
    let body = r#"{"text":"hello","sampling_params":{"max_new_tokens":2},"stream":true}"#;
    let n = desk.ask(0, GENERATE, body, "");
    desk.run();
    let meta = r#""prompt_tokens":5,"weight_version":"default","num_retractions":0,"storage_prefetch_wait":0.0,"storage_staging_wait":0.0,"forward_entry_time":1000.0,"prefill_finished_time":1000.02022583,"queue_time":0.0,"reasoning_tokens":0"#;
    assert_eq!(
        desk.events(n),
        [
            format!(
                r#"{{"text":"a","output_ids":[97],"meta_info":{{"id":"0000000000000000","finish_reason":null,{meta},"completion_tokens":1,"cached_tokens":0,"cached_tokens_details":null,"dp_rank":null,"response_sent_to_client_ts":1000.02022583}}}}"#
            ),
            format!(
                r#"{{"text":"ab","output_ids":[97,98],"meta_info":{{"id":"0000000000000000","finish_reason":{{"type":"length","length":2}},{meta},"completion_tokens":2,"cached_tokens":0,"weight_versions":[{{"version":"default","start":0,"end":2}}],"cached_tokens_details":null,"dp_rank":null,"e2e_latency":0.04022583,"request_received_ts":1000.0,"first_token_latency":0.02022583,"api_server_dispatch_finish_ts":1000.0,"response_sent_to_client_ts":1000.02022583,"request_finished_ts":1000.04022583,"decode_throughput":50.0}}}}"#
            ),
            "[DONE]".to_owned(),
        ]
    );
    let incremental = Shape::Generate { incremental: true };
    let n = desk.ask(STEP * 5, incremental, body, "clock_step=-1s");
    desk.run();
    let events = desk.events(n);
    let last: Value = serde_json::from_str(&events[1]).unwrap();
    assert_eq!((&last["text"], &last["output_ids"]), (&json!("b"), &json!([98])));
    assert_eq!(last["meta_info"]["request_received_ts"], 1_000.1);
    assert_eq!(last["meta_info"]["request_finished_ts"], 999.140_225_83, "the clock was set back by 1 s");
    assert_eq!(last["meta_info"]["e2e_latency"], 0.040_225_83, "spans are on another clock");
}

/// The paths of all keys of an object, as far as they do not depend on figures.
fn paths(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}/{key}");
                if key != "cached_tokens_details" {
                    paths(value, &path, into);
                }
                into.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, path, into)),
        _ => {}
    }
}

fn shapes<'a>(events: impl Iterator<Item = &'a str>) -> BTreeSet<BTreeSet<String>> {
    let event = |data: &str| {
        let mut found = BTreeSet::new();
        paths(&serde_json::from_str(data).unwrap(), "", &mut found);
        found
    };
    events.filter(|data| *data != "[DONE]").map(event).collect()
}

/// The JSON of a body, of an answer in one piece or of events.
fn data(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("data: ").or(line.starts_with('{').then_some(line)))
}

#[test]
fn answers_have_the_keys_of_recorded_ones() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/recorded");
    for (engine, file) in [
        ("engine=vllm", "vllm_chat_stream.txt"),
        ("engine=vllm", "vllm_completions_stream.txt"),
        ("engine=sglang", "sglang_chat_stream.txt"),
        ("engine=sglang", "sglang_completions_stream.txt"),
        ("engine=sglang", "sglang_generate_stream.txt"),
    ] {
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let mut compared = 0;
        for part in text.split("### POST ").skip(1) {
            let asked = part.lines().find_map(|line| line.strip_prefix("### body: ")).unwrap_or_default();
            // One answer that ends at its limit.
            let odd = ["\"n\":", "logprob", "\"stop\"", "[\"", "echo", "nope", "tools"];
            if !asked.contains("ignore_eos\":true") || odd.iter().any(|word| asked.contains(word)) {
                continue;
            }
            let shape = match part.lines().next() {
                Some("/v1/chat/completions") => Shape::Chat,
                Some("/v1/completions") => Shape::Completions,
                _ => GENERATE,
            };
            let recorded = shapes(data(part));
            let mut desk = Desk::new(&[engine], |_| {});
            let n = desk.ask(0, shape, asked, "");
            desk.run();
            let text: String = desk.written(n).0.into_iter().map(|(_, text, _)| text).collect();
            assert_eq!(shapes(data(&text)), recorded, "{file}: {asked}");
            compared += 1;
        }
        assert!(compared >= 2, "{file} holds {compared} answers to compare with");
    }
}

#[test]
fn an_answer_in_one_piece_comes_at_the_end() {
    let mut desk = Desk::new(&["engine=vllm"], |_| {});
    let n = desk.ask(0, Shape::Completions, r#"{"prompt":"hello","max_tokens":2}"#, "");
    desk.run();
    let (writes, _) = desk.written(n);
    assert_eq!((writes.len(), writes[0].0, writes[0].2), (1, PREFILL + STEP, 2));
    let body: Value = serde_json::from_str(writes[0].1.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&body["choices"][0]["text"], &body["usage"]["total_tokens"]), (&json!("ab"), &json!(7)));
}

/// However late the loop comes, the engine's instants are the same.
#[test]
fn being_late_moves_nothing() {
    let when = |late: bool| {
        let mut desk = Desk::new(&["engine=vllm"], |_| {});
        let n = desk.ask(0, Shape::Chat, CHAT, "");
        if late {
            desk.service.advance(Nanos(STEP * 100));
            desk.deliver();
        }
        desk.run();
        let (writes, _) = desk.written(n);
        (writes.into_iter().map(|(due, ..)| due).collect::<Vec<_>>(), desk.ends[n])
    };
    assert_eq!(when(true), when(false));
    let end = when(false).1.unwrap();
    assert_eq!((end.arrived_ns, end.queued_ns, end.admitted_ns), (0, 0, Some(0)));
    assert_eq!((end.prefilled_ns, end.finished_ns), (Some(PREFILL), PREFILL + 2 * STEP));
}

proptest! {
    /// A loop that sleeps too long between its looks at sockets and engine writes late, and nothing else changes.
    #[test]
    fn a_loop_that_oversleeps_changes_no_instant(
        gaps in prop::collection::vec(0..60_000_000_u64, 1..12),
        naps in prop::collection::vec(1..90_000_000_u64, 1..30),
    ) {
        let arrivals: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
        let written = |mut desk: Desk| -> Vec<Vec<(u64, u32)>> {
            desk.run();
            let all = (0..arrivals.len()).map(|n| desk.written(n).0);
            all.map(|writes| writes.into_iter().map(|(due, _, tokens)| (due, tokens)).collect()).collect()
        };
        let desk = || Desk::new(&["engine=vllm", "max-num-seqs=4"], |_| {});
        let (mut exact, mut late) = (desk(), desk());
        for at in &arrivals {
            exact.ask(*at, Shape::Chat, CHAT, "");
        }
        let (mut now, mut asked) = (0, 0);
        for nap in naps.iter().cycle() {
            now += nap;
            while let Some(at) = arrivals.get(asked).filter(|at| **at <= now) {
                late.ask(*at, Shape::Chat, CHAT, "");
                asked += 1;
            }
            late.service.advance(Nanos(now));
            late.deliver();
            if asked == arrivals.len() {
                break;
            }
        }
        prop_assert_eq!(written(exact), written(late));
    }
}

#[test]
fn a_faster_clock_makes_everything_shorter() {
    let mut desk = Desk::new(&["engine=vllm"], |config| config.speed = Speed::new(10.0).unwrap());
    let n = desk.ask(1_000, Shape::Chat, CHAT, "");
    desk.run();
    let due: Vec<u64> = desk.written(n).0.into_iter().map(|(due, ..)| due).collect();
    let first = 1_000 + PREFILL / 10;
    assert_eq!(due, [1_000, first, first + STEP / 10, first + 2 * STEP / 10]);
}

#[test]
fn a_disconnect_frees_slot_and_blocks() {
    for engine in ["engine=vllm", "engine=sglang"] {
        let mut desk = Desk::new(&[engine, "max-num-seqs=1"], |_| {});
        let body = r#"{"prompt":"hello","max_tokens":500,"stream":true}"#;
        let gone = desk.ask(0, Shape::Completions, body, "");
        let next = desk.ask(10, Shape::Completions, r#"{"prompt":"hello","max_tokens":1,"stream":true}"#, "");
        desk.service.advance(Nanos(PREFILL + 10));
        desk.deliver();
        let Answer::Engine(answer) = &desk.answers[gone] else { panic!("it is served") };
        let id = answer.id;
        desk.service.cancel(Nanos(PREFILL + 20), id);
        desk.service.cancel(Nanos(PREFILL + 30), id);
        desk.run();
        let account = desk.service.account();
        assert_eq!((account.cancelled, account.finished), (1, 1), "{engine}");
        assert_eq!((account.running, account.waiting, account.kv_blocks_used), (0, 0, 0), "{engine}");
        assert!(desk.ends[next].is_some() && desk.ends[gone].is_none());
        assert_eq!(desk.written(gone).0.len(), 2, "the head and the token before it");
    }
}

#[test]
fn a_full_queue_is_said_as_each_engine_says_it() {
    let body = r#"{"text":"hello","sampling_params":{"max_new_tokens":9},"max_tokens":9,"stream":true}"#;
    let full = |engine: &str, shape, body: &str| {
        let mut desk = Desk::new(&[engine, "max-num-seqs=1", "max-num-queued-reqs=1"], |_| {});
        let numbers: Vec<usize> = (0..3).map(|at| desk.ask(at, shape, body, "")).collect();
        let (writes, _) = desk.written(numbers[2]);
        desk.run();
        assert!(desk.ends[numbers[0]].is_some() && desk.ends[numbers[2]].is_none());
        writes.into_iter().map(|(_, text, _)| text).collect::<String>()
    };
    assert!(full("engine=vllm", Shape::Completions, body).starts_with("HTTP/1.1 503 "));
    let text = full("engine=sglang", GENERATE, body);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains(r#""type":"abort""#), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{text}");
    let text = full("engine=sglang", Shape::Chat, body);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains(r#"{"error":{"#), "{text}");
    let text = full("engine=sglang", GENERATE, &body.replace("true", "false"));
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
}

#[test]
fn what_cannot_fit_is_a_bad_request() {
    let mut desk = Desk::new(&["engine=vllm", "max-model-len=100"], |_| {});
    let n = desk.ask(0, Shape::Chat, &CHAT.replace(":3", ":96"), "");
    let (writes, _) = desk.written(n);
    assert!(writes.len() == 1 && writes[0].1.starts_with("HTTP/1.1 400 "), "{writes:?}");
    let n = desk.ask(0, Shape::Chat, &CHAT.replace(":3", ":95"), "");
    desk.run();
    assert!(desk.ends[n].is_some());
}

#[test]
fn a_known_prefix_is_cheap_and_reported() {
    let prompt = "0123456789abcdef".repeat(4);
    for (engine, shape) in [("engine=vllm", Shape::Completions), ("engine=sglang", Shape::Completions)] {
        let mut desk = Desk::new(&[engine, "block-size=16", "enable-prefix-caching=true"], |_| {});
        let body = format!(
            r#"{{"prompt":"{prompt}","max_tokens":2,"stream":true,"stream_options":{{"include_usage":true}}}}"#
        );
        desk.ask(0, shape, &body, "");
        desk.run();
        let again = desk.ask(STEP * 50, shape, &body, "");
        desk.run();
        let events = desk.events(again);
        let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
        // The last block is computed again, for its token.
        assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 48, "{engine}");
        assert_eq!(desk.ends[again].unwrap().cached_tokens, 48);
        desk.service.wall.cluster.forget_prefixes();
        let cold = desk.ask(STEP * 100, shape, &body, "");
        desk.run();
        assert_eq!(desk.ends[cold].unwrap().cached_tokens, 0);
    }
}

/// Tokens of each write, and the end.
fn broken(fault: &str) -> (Vec<u32>, AnswerEnd) {
    let mut desk = Desk::new(&["engine=vllm"], |config| config.faults = parse_rules("comments").unwrap());
    let body = r#"{"prompt":"hello","max_tokens":5,"stream":true}"#;
    let n = desk.ask(0, Shape::Completions, body, fault);
    desk.run();
    let (writes, end) = desk.written(n);
    assert!(writes.iter().any(|(_, text, _)| text.contains(": ping")), "the server's own rule: {writes:?}");
    (writes.into_iter().map(|(_, _, tokens)| tokens).collect(), end)
}

#[test]
fn faults_strike_here_too() {
    for (fault, writes, end) in [
        ("", &[0, 1, 1, 1, 1, 1][..], AnswerEnd::KeepAlive),
        ("tokens_per_chunk=2", &[0, 2, 2, 1], AnswerEnd::KeepAlive),
        ("events_per_write=3", &[0, 3, 2], AnswerEnd::KeepAlive),
        ("pieces=2", &[0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], AnswerEnd::KeepAlive),
        ("close_after=2", &[0, 1, 1, 0], AnswerEnd::Close),
        ("reset_after=2", &[0, 1, 1, 0], AnswerEnd::Reset),
        ("error_after=5", &[0, 1, 1, 1, 1, 1, 0], AnswerEnd::KeepAlive),
        ("hang_after=4", &[0, 1, 1, 1, 1, 0], AnswerEnd::Hang),
        ("cut_after=6", &[0, 1, 1, 1, 1, 1], AnswerEnd::KeepAlive),
        ("tokens_per_chunk=2,cut_after=3", &[0, 2, 1, 0], AnswerEnd::Close),
    ] {
        assert_eq!(broken(fault), (writes.to_vec(), end), "{fault}");
    }
}

#[test]
fn drips_are_spread_over_the_gap_before() {
    let mut desk = Desk::new(&["engine=vllm"], |_| {});
    let n = desk.ask(0, Shape::Completions, r#"{"prompt":"hello","max_tokens":2,"stream":true}"#, "drip=4");
    desk.run();
    let due: Vec<u64> = desk.written(n).0.into_iter().map(|(due, ..)| due).skip(5).collect();
    let second = PREFILL + STEP;
    assert_eq!(due, [second, second + STEP / 4, second + STEP / 2, second + STEP / 4 * 3]);
}

#[test]
fn the_page_counts_what_happened() {
    let names = [
        (
            "engine=vllm",
            ["vllm:request_success_total", "vllm:generation_tokens_total", "vllm:prompt_tokens_total"],
        ),
        (
            "engine=sglang",
            ["sglang:num_requests_total", "sglang:generation_tokens_total", "sglang:prompt_tokens_total"],
        ),
    ];
    for (engine, [requests, output, input]) in names {
        let mut desk = Desk::new(&[engine, "num-speculative-tokens=2"], |_| {});
        for n in 0..20 {
            desk.ask(n * STEP, Shape::Chat, &CHAT.replace(":3", ":30"), "");
        }
        desk.run();
        let account = desk.service.account();
        assert_eq!((account.finished, account.generated_tokens), (20, 600));
        let page = desk.page(STEP * 1_000);
        assert_eq!(value(&page, requests), 20.0, "{engine}");
        assert_eq!(value(&page, output), 600.0, "{engine}");
        assert_eq!(value(&page, input), 100.0, "{engine}");
    }
}

#[test]
fn vllms_page_has_the_engines_own_times() {
    let mut desk = Desk::new(&["engine=vllm"], |_| {});
    desk.ask(0, Shape::Chat, CHAT, "");
    desk.run();
    let page = desk.page(STEP * 10);
    let sum = |family: &str| value(&page, &format!("vllm:{family}_seconds_sum"));
    assert!((sum("time_to_first_token") - PREFILL as f64 / 1e9).abs() < 1e-6);
    assert!((sum("inter_token_latency") - 0.04).abs() < 1e-9);
    assert!((sum("e2e_request_latency") - (PREFILL + 2 * STEP) as f64 / 1e9).abs() < 1e-6);
    assert_eq!(value(&page, "vllm:num_requests_running"), 0.0);
}

#[test]
fn routes_are_each_engines_own() {
    let served = |engine: &str| {
        let mut desk = Desk::new(&[engine], |_| {});
        let mut ask = |method: &str, path: &str| {
            let request = Request { method: method.into(), path: path.into(), ..Request::default() };
            desk.service.reply(&request, Nanos::ZERO).map(|reply| reply.status)
        };
        [
            ask("GET", "/v1/models"),
            ask("GET", "/health"),
            ask("GET", "/version"),
            ask("GET", "/load"),
            ask("POST", "/reset_prefix_cache"),
            ask("GET", "/model_info"),
            ask("GET", "/server_info"),
            ask("POST", "/flush_cache"),
            ask("GET", "/truth"),
        ]
    };
    let ok = Some(200);
    assert_eq!(served("engine=vllm"), [ok, ok, ok, ok, ok, None, None, None, None]);
    assert_eq!(served("engine=sglang"), [ok, ok, ok, None, None, ok, ok, ok, None]);
}

#[test]
fn preemptions_and_refusals_are_on_the_page_and_in_the_truth() {
    for (engine, preempted, refused) in [
        ("engine=vllm", "vllm:num_preemptions_total", Some("vllm:admission_rejections_total")),
        // SGLang counts a request that its full queue turns away nowhere.
        ("engine=sglang", "sglang:num_retracted_requests_total", None),
    ] {
        let tight =
            ["max-model-len=64", "num-gpu-blocks-override=6", "block-size=16", "max-num-queued-reqs=4"];
        let knobs = [&tight[..], &["schedule-conservativeness=0.01", engine]].concat();
        let mut desk = Desk::new(&knobs, |_| {});
        let body = CHAT.replace(":3", ":50");
        let numbers: Vec<usize> = (0..9).map(|n| desk.ask(n, Shape::Chat, &body, "")).collect();
        desk.run();
        let account = desk.service.account();
        assert!(account.preemptions > 0 && account.rejected > 0, "{engine}: {account:?}");
        let ends = numbers.iter().filter_map(|n| desk.ends[*n]);
        assert_eq!(ends.map(|end| u64::from(end.preemptions)).sum::<u64>(), account.preemptions, "{engine}");
        let page = desk.page(STEP * 1_000);
        assert_eq!(value(&page, preempted), account.preemptions as f64, "{engine}");
        if let Some(refused) = refused {
            assert_eq!(value(&page, refused), account.rejected as f64, "{engine}");
        }
    }
}

#[test]
fn a_client_that_went_away_leaves_no_finish_on_the_page() {
    let mut desk = Desk::new(&["engine=vllm"], |_| {});
    desk.ask(0, Shape::Chat, CHAT, "");
    desk.service.advance(Nanos(PREFILL));
    desk.deliver();
    desk.service.cancel(Nanos(PREFILL + 5), RequestId(0));
    desk.run();
    let page = desk.page(STEP * 10);
    assert_eq!(value(&page, "vllm:request_success_total"), 0.0);
    assert_eq!(value(&page, "vllm:generation_tokens_total"), 1.0);
}

#[test]
fn a_scrape_gets_its_format_and_the_edges_of_the_flags() {
    let edges = Buckets::vllm(r#"{"request_latency": [0.125, 4]}"#).unwrap();
    let mut desk = Desk::new(&["engine=vllm"], |config| config.buckets = edges);
    desk.ask(0, Shape::Chat, CHAT, "");
    desk.run();
    let accept = Some("application/openmetrics-text;version=1.0.0".to_owned());
    let request = Request { method: "GET".into(), path: "/metrics".into(), accept, ..Request::default() };
    let reply = desk.service.reply(&request, Nanos(STEP * 10)).unwrap();
    assert_eq!(reply.content_type, Format::OpenMetrics.content_type());
    let text = String::from_utf8(reply.body).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for edge in ["le=\"0.125\"", "le=\"4.0\"", "le=\"+Inf\""] {
        let bucket = format!("vllm:e2e_request_latency_seconds_bucket{{engine=\"0\",{edge}");
        assert_eq!(text.matches(&bucket).count(), 1, "{bucket}");
    }
}

#[test]
fn replicas_share_the_requests_and_the_page() {
    let mut desk = Desk::new(&["engine=vllm", "data-parallel-size=2", "max-num-seqs=1"], |_| {});
    let numbers = [0, 0].map(|at| desk.ask(at, Shape::Chat, CHAT, ""));
    desk.run();
    let finished = numbers.map(|n| desk.ends[n].unwrap().finished_ns);
    assert_eq!(finished, [PREFILL + 2 * STEP; 2], "neither waits for the other");
    let page = desk.page(STEP * 10);
    assert_eq!(value(&page, "vllm:request_success_total"), 2.0);
    assert_eq!(value(&page, "vllm:generation_tokens_total"), 6.0);
}
