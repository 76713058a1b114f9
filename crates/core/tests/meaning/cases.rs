//! The failure cases under `testdata` that are about meaning, each against its `expected.json`.

use crate::build::{
    by_name, canonical, closed, due, event, failed, ms, near, ok, open, stream, summary, text, with_tokens,
};
use goodput_core::metric::Metric;
use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::ruler::CANONICAL;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::Summary;
use goodput_core::timeline::{Chunk, ChunkFlags, Timeline};
use goodput_core::tokens::TokenSource;
use serde_json::Value;

fn file(case: &str, name: &str) -> Value {
    let path = format!("{}/../../testdata/cases/{case}/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(number).collect()
}

fn p(s: &Summary, metric: &str, percentile: &str) -> Option<f64> {
    s.metrics[metric].percentiles[percentile].value
}

/// The numbers of `expected.json` that one replay file must give.
fn of_stream(case: &str) -> Value {
    file(case, "expected.json")["files"]["stream.replay"].clone()
}

#[test]
fn case_21_choices_are_not_mixed() {
    let choice = |at: f64, choice: u16| Chunk { choice, token_source: TokenSource::Chunks, ..text(at, 1) };
    let mut finish = event(200.0, ChunkFlags::CHOICES | ChunkFlags::FINISH, 0);
    finish.choice = 0;
    let mut t = ok(
        0.0,
        vec![
            choice(100.0, 0),
            choice(130.0, 1),
            choice(160.0, 0),
            choice(200.0, 1),
            finish,
            choice(240.0, 1),
        ],
    );
    t.choices = 2;
    let expected = of_stream("21-n2-interleaved-choices");
    let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
    near(m.get(Metric::Ttft), number(&expected["ttft_ms"]));
    near(m.get(Metric::E2e), number(&expected["e2e_ms"]));
    assert_eq!(m.get(Metric::Tpot), None);
    assert_eq!(m.output_tokens, expected["output_tokens"].as_u64());
    let mut by_choice = [vec![], vec![]];
    CANONICAL.each_event(&t, Protocol::OpenaiChat, |gap, chunk| {
        by_choice[usize::from(chunk.choice)].extend(gap.map(|g| g.as_millis_f64()));
    });
    assert_eq!(by_choice[0], numbers(&expected["icl_by_choice_ms"]["0"]));
    assert_eq!(by_choice[1], numbers(&expected["icl_by_choice_ms"]["1"]));
    let mut itl = Vec::new();
    CANONICAL.each_itl(&t, Protocol::OpenaiChat, |gap, n| itl.push((gap, n)));
    itl.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(itl, [(40.0, 1), (60.0, 1), (70.0, 1)]);
}

#[test]
fn case_25_an_empty_answer_is_no_sample() {
    let mut empty = with_tokens(failed(0.0, 96.0, Outcome::NoTokens), 1);
    let empty_text = ChunkFlags::CHOICES | ChunkFlags::EMPTY_TEXT;
    empty.chunks =
        vec![event(80.0, empty_text | ChunkFlags::ROLE, 0), event(95.0, empty_text | ChunkFlags::FINISH, 0)];
    let s = canonical(&[empty, stream(0.0, 50.0, &[10.0])]);
    let ttft = &s.metrics["ttft"];
    assert_eq!((ttft.n, ttft.mean), (1, Some(50.0)));
    assert_eq!(p(&s, "ttft", "p50"), Some(50.0));
    assert_eq!((s.counts.ok, s.counts.outcomes["no_tokens"]), (1, 1));
}

#[test]
fn case_27_a_first_chunk_that_bundles_tokens() {
    let events = [text(400.0, 8)].into_iter().chain((1..=24).map(|i| text(400.0 + 10.0 * f64::from(i), 1)));
    let t = ok(0.0, events.collect());
    let expected = of_stream("27-first-chunk-bundles-tokens");
    let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
    near(m.get(Metric::Ttft), number(&expected["ttft_ms"]));
    near(m.get(Metric::E2e), number(&expected["e2e_ms"]));
    near(m.get(Metric::Tpot), number(&expected["tpot_ms"]));
    near(m.get(Metric::DecodeTpot), number(&expected["decode_tpot_ms"]));
    assert_eq!(m.output_tokens, expected["output_tokens"].as_u64());
    let s = canonical(&[t]);
    assert_eq!(s.metrics["itl"].n, 31);
    near(s.metrics["itl"].mean, number(&expected["tpot_ms"]));
    near(s.metrics["chunk_gap"].mean, 10.0);
    near(s.tokens.chunks_per_token, 25.0 / 32.0);
}

fn of_records(case: &str) -> Vec<Timeline> {
    let records = file(case, "records.json");
    let records = records.as_array().expect("an array");
    records.iter().map(|r| stream(0.0, number(&r["ttft_ms"]), &numbers(&r["itl_ms"]))).collect()
}

#[test]
fn case_29_one_token_has_no_tpot() {
    let expected = file("29-single-token-outputs", "expected.json");
    let requests = of_records("29-single-token-outputs");
    let s = canonical(&requests);
    near(s.metrics["tpot"].mean, number(&expected["mean_tpot_ms"]));
    assert_eq!(Some(s.metrics["tpot"].n), expected["tpot_n"].as_u64());
    assert_eq!(Some(s.metrics["tpot"].undefined), expected["tpot_undefined"].as_u64());
    near(s.metrics["itl"].mean, number(&expected["pooled_itl_mean_ms"]));
    near(p(&s, "itl", "p50"), number(&expected["pooled_itl_p50_ms"]));
    near(s.metrics["ttft"].mean, number(&expected["mean_ttft_ms"]));
    assert_eq!(Some(s.tokens.output), expected["total_output_tokens"].as_u64());

    let only_single = canonical(&requests[..2]);
    for metric in ["tpot", "itl"] {
        let d = &only_single.metrics[metric];
        assert_eq!((d.n, d.mean, d.std, d.min, d.max), (0, None, None, None, None), "{metric}");
        assert_eq!(d.percentiles["p99"].value, None, "{metric}");
    }
}

#[test]
fn case_30_weights_differ() {
    let expected = file("30-mean-tpot-vs-pooled-itl", "expected.json");
    let s = canonical(&of_records("30-mean-tpot-vs-pooled-itl"));
    near(s.metrics["tpot"].mean, number(&expected["mean_tpot_ms"]));
    near(s.metrics["itl"].mean, number(&expected["pooled_itl_mean_ms"]));
    assert_eq!((s.metrics["tpot"].sample.as_str(), s.metrics["itl"].sample.as_str()), ("request", "token"));
}

#[test]
fn case_33_failures_do_not_make_a_run_fast() {
    let expected = file("33-fast-failures-and-timeouts", "expected.json");
    let records = file("33-fast-failures-and-timeouts", "records.json");
    let records = records.as_array().expect("an array");
    let requests: Vec<Timeline> = records
        .iter()
        .map(|r| {
            let (start, end) = (number(&r["start_s"]) * 1e3, number(&r["end_s"]) * 1e3);
            match r["outcome"].as_str().expect("a name") {
                "success" => ok(start, vec![text(end, 1)]),
                "failed:http_503" => {
                    failed(start, end, Outcome::HttpError { status: 503, message: String::new() })
                }
                _ => failed(start, end, Outcome::Timeout { phase: TimeoutPhase::Total }),
            }
        })
        .collect();
    let request = SummaryRequest { percentiles: vec![50.0, 90.0, 99.0], ..SummaryRequest::new(closed()) };
    let s = summary(&requests, &request);
    near(Some(s.window.duration_s), number(&expected["duration_s"]));
    near(s.throughput.requests_per_s, number(&expected["request_throughput"]));
    let failed_share = (s.counts.issued - s.counts.ok) as f64 / s.counts.issued as f64;
    near(Some(failed_share), number(&expected["error_rate"]));
    for percentile in ["p50", "p90", "p99"] {
        near(p(&s, "e2e", percentile), number(&expected[percentile]) * 1e3);
    }
    let censored = &s.metrics["e2e_censored"];
    near(censored.percentiles["p50"].value, number(&expected["censored_p50"]) * 1e3);
    let p90 = &censored.percentiles["p90"];
    near(p90.value, number(&expected["censored_p90_lower_limit"]) * 1e3);
    assert!(p90.method.ends_with("a lower limit") && p90.high.is_none(), "{p90:?}");
    assert!(!censored.percentiles["p50"].method.contains("lower limit"));
    assert_eq!((censored.n, censored.mean, censored.max), (8, None, None));

    let nothing = summary(&requests[6..], &request);
    for (name, d) in nothing.metrics.iter().filter(|(name, _)| *name != "e2e_censored") {
        assert_eq!((d.n, d.mean), (0, None), "{name}");
        assert!(d.percentiles.values().all(|q| q.value.is_none()), "{name}");
    }
    assert_eq!(nothing.findings[0].rule, "all_failed");
    assert!(s.findings.iter().any(|f| f.rule == "failures"));
}

#[test]
fn case_35_the_wait_for_the_client_counts() {
    let expected = file("35-coordinated-omission", "expected.json");
    let run = file("35-coordinated-omission", "records.json");
    let asked = number(&run["requested_rate_per_s"]);
    let requests: Vec<Timeline> = run["requests"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|r| {
            let t = ok(number(&r["start_ms"]), vec![text(number(&r["end_ms"]), 1)]);
            due(t, number(&r["scheduled_ms"]))
        })
        .collect();
    let mut load = open();
    load.asked_rps = Some(asked);
    load.concurrency = Some(1);
    let s = summary(&requests, &SummaryRequest::new(load));
    near(s.metrics["e2e"].mean, number(&expected["sched_mean"]));
    near(p(&s, "e2e", "p50"), number(&expected["sched_p50"]));
    near(p(&s, "e2e", "p99"), number(&expected["sched_p99"]));
    near(s.metrics["client_queue"].mean, number(&expected["delay_mean"]));
    near(s.metrics["client_queue"].max, number(&expected["delay_max"]));
    near(s.load.offered_rps, number(&expected["achieved_rate"]));
    near(s.load.scheduled_rps, asked);
    assert!(!s.load.client_limited, "the cap held the requests back, not a slow client");
    assert!(s.findings.iter().any(|f| f.rule == "cap_wait"));

    let request = SummaryRequest { ruler: by_name("vllm"), ..SummaryRequest::new(load) };
    let blind = summary(&requests, &request);
    near(blind.metrics["e2e"].mean, number(&expected["service_mean"]));
}

#[test]
fn case_36_one_monotonic_clock() {
    let expected = file("36-clock-steps-and-negative-times", "expected.json");
    let clock = &file("36-clock-steps-and-negative-times", "records.json")["request"]["mono_s"];
    let at = |name: &str| number(&clock[name]) * 1e3;
    let t = ok(at("start"), vec![text(at("first"), 1), text(at("last"), 1)]);
    let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
    near(m.get(Metric::Ttft), number(&expected["ttft_ms"]));
    near(m.get(Metric::E2e), number(&expected["e2e_ms"]));
    // An instant that cannot be is no negative span.
    let mut odd = t;
    odd.instants.sent = Some(ms(at("last") + 1.0));
    assert_eq!(CANONICAL.measure(&odd, Protocol::OpenaiChat).get(Metric::Ttft), Some(0.0));
}

#[test]
fn case_38_missing_is_not_zero() {
    let expected = file("38-missing-values-as-zero", "expected.json");
    let values = file("38-missing-values-as-zero", "ttft_ms.json");
    let requests: Vec<Timeline> = values
        .as_array()
        .expect("an array")
        .iter()
        .map(|v| match v.as_f64() {
            Some(ttft) => stream(0.0, ttft, &[10.0]),
            None => ok(0.0, vec![event(400.0, ChunkFlags::TEXT | ChunkFlags::WHOLE, 2)]),
        })
        .collect();
    let request = SummaryRequest { percentiles: vec![10.0, 50.0], ..SummaryRequest::new(closed()) };
    let s = summary(&requests, &request);
    let ttft = &s.metrics["ttft"];
    assert_eq!(Some(ttft.n), expected["n"].as_u64());
    assert_eq!(Some(ttft.undefined), expected["missing"].as_u64());
    near(ttft.mean, number(&expected["mean"]));
    near(ttft.min, number(&expected["min"]));
    near(p(&s, "ttft", "p50"), number(&expected["median"]));
    near(p(&s, "ttft", "p10"), number(&expected["p10"]));
}

#[test]
fn case_39_rates_at_the_edges() {
    let expected = file("39-rates-at-the-edges", "expected.json");
    let sets = file("39-rates-at-the-edges", "records.json");
    let of = |name: &str| {
        let requests: Vec<Timeline> = sets[name]
            .as_array()
            .expect("an array")
            .iter()
            .map(|r| {
                let tokens =
                    r["output_tokens"].as_u64().and_then(|n| u32::try_from(n).ok()).expect("a count");
                ok(number(&r["start_s"]) * 1e3, vec![text(number(&r["end_s"]) * 1e3, tokens)])
            })
            .collect();
        canonical(&requests)
    };
    let one = of("one");
    near(one.throughput.output_tokens_per_s, number(&expected["one"]["tok_s"]));
    near(one.throughput.requests_per_s, number(&expected["one"]["req_s"]));
    assert_eq!(one.load.offered_rps, expected["one"]["send_rate"].as_f64());
    let five = of("five");
    near(five.throughput.requests_per_s, number(&expected["five"]["req_s"]));
    near(five.load.offered_rps, number(&expected["five"]["send_rate"]));
    let burst = of("burst");
    near(burst.throughput.requests_per_s, number(&expected["burst"]["req_s"]));
    assert_eq!(burst.load.offered_rps, expected["burst"]["send_rate"].as_f64());
}

#[test]
fn case_41_the_server_counts() {
    let expected = file("41-client-side-token-counts", "expected.json");
    let record = file("41-client-side-token-counts", "record.json");
    let chunks = record["chunks"].as_array().expect("an array").len();
    let (first, last) = (number(&record["ttft_ms"]), number(&record["e2e_ms"]));
    let gap = (last - first) / (chunks - 1) as f64;
    let mut t = stream(0.0, first, &vec![gap; chunks - 1]);
    for c in &mut t.chunks {
        c.token_source = TokenSource::Chunks;
    }
    let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
    assert_eq!(m.output_tokens, expected["output_tokens"].as_u64());
    near(m.get(Metric::Tpot), number(&expected["tpot_ms"]));
    assert!(!m.tokens_mismatch);
    // One client-side token less than the server counted: marked, and the server's count stays.
    t.chunks.remove(3);
    let s = canonical(&[t]);
    assert_eq!((s.tokens.output, s.tokens.mismatched), (7, 1));
    assert!(s.findings.iter().any(|f| f.rule == "token_sum"));
}
