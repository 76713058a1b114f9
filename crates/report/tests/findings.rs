//! Every rule fires on a run that has its fault and stays silent on one that just has not.

mod sample;

use goodput_core::metric::Metric;
use goodput_core::plan::{Data, HttpVersion, Plan};
use goodput_core::summary::{Severity, Summary};
use goodput_report::findings::{ClientFacts, FindingContext, RULES, findings};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Everything the rules look at, to be spoilt.
struct Case {
    summary: Summary,
    plan: Plan,
    client: ClientFacts,
    workload: Value,
}

const PLAN: &str = r#"
version = "1.0"
seed = 7
salt = "00ff"
[target]
urls = ["http://127.0.0.1:9001"]
protocol = "openai-chat"
model = "m"
http = "1"
verify_tls = true
[load.arrivals]
law = { kind = "poisson" }
rate = { kind = "steady", rate = 100.0 }
[stop]
requests = 4000
[warmup]
kind = "requests"
amount = 100
[timeouts]
[workload]
data = { kind = "random" }
input_tokens = { kind = "fixed", tokens = 32 }
prefix_tokens = 0
tokenizer = { kind = "bytes" }
[request]
max_tokens = 64
ignore_eos = true
stream = true
continuous_usage = false
"#;

impl Case {
    /// A run with nothing wrong.
    fn clean() -> Self {
        Self {
            summary: sample::summary(),
            plan: Plan::from_toml(PLAN).expect("a plan"),
            client: ClientFacts {
                cores_used: Some(0.9),
                host_cores: Some(2.0),
                kernel_stamp_share: Some(1.0),
                warm_connections: 116,
                connect_p50_ms: Some(0.1),
                connect_max_ms: Some(0.4),
                requests_that_connected: 20,
                ..ClientFacts::default()
            },
            workload: json!({
                "entries_read": 0, "examined": 0, "kept": 0, "dropped": {}, "duplicates": 0, "oversampled": 0,
                "lengths_checked": 4100, "length_misses": 0, "damaged": null,
            }),
        }
    }

    fn fired(&self) -> BTreeSet<String> {
        let context = FindingContext {
            summary: &self.summary,
            plan: Some(&self.plan),
            client: Some(&self.client),
            workload: Some(&self.workload),
        };
        findings(&context).into_iter().map(|finding| finding.rule).collect()
    }

    /// Turns so many of the ok requests into others.
    fn end(&mut self, outcome: &str, n: u64) {
        let counts = &mut self.summary.counts;
        *counts.outcomes.get_mut(outcome).expect("an outcome") += n;
        *counts.outcomes.get_mut("ok").expect("an outcome") -= n;
        counts.ok -= n;
    }

    fn percentile(&mut self, metric: Metric, name: &str, value: f64) {
        let distribution = self.summary.metrics.get_mut(metric.name()).expect("a metric of the sample");
        distribution.percentiles.get_mut(name).expect("a percentile").value = Some(value);
    }

    /// No first tokens: every answer came as one body.
    fn whole_bodies(&mut self) {
        for metric in [Metric::Ttft, Metric::TtftSent, Metric::Tpot, Metric::Itl, Metric::ChunkGap] {
            self.summary.metrics.get_mut(metric.name()).expect("a metric of the sample").n = 0;
        }
    }

    fn lateness_p99(&mut self, ms: f64) {
        self.summary.load.lateness_ms.as_mut().expect("open loop").p99 = ms;
    }
}

/// A rule's id, what makes it fire, and what just does not.
type Check = (&'static str, fn(&mut Case), fn(&mut Case));

const CHECKS: &[Check] = &[
    ("nothing_measured", |c| c.end("cancelled", 4_000), |c| c.end("http_error", 4_000)),
    ("refused", |c| c.end("http_error", 40), |c| c.end("http_error", 39)),
    ("broken_answers", |c| c.end("truncated", 1), |c| c.end("timeout", 1)),
    ("timeouts", |c| c.end("timeout", 1), |c| c.end("reset", 1)),
    ("no_connection", |c| c.end("connect", 1), |c| c.end("reset", 1)),
    ("foreign_bytes", |c| c.end("protocol", 1), |c| c.end("reset", 1)),
    ("short_answers", |c| c.end("short_output", 1), |c| c.end("aborted", 1)),
    (
        "over_capacity",
        |c| {
            c.summary.throughput.requests_per_s = Some(80.0);
            c.percentile(Metric::Ttft, "p50", 1_000.0);
        },
        |c| c.percentile(Metric::Ttft, "p50", 1_000.0),
    ),
    (
        "sent_below_scheduled",
        |c| {
            c.summary.load.concurrency = Some(64);
            c.summary.load.offered_rps = Some(98.5);
        },
        |c| c.summary.load.offered_rps = Some(99.5),
    ),
    (
        "gap_law",
        |c| c.summary.load.gaps.as_mut().expect("a law").verdict = "fail".into(),
        |c| c.summary.load.gaps.as_mut().expect("a law").verdict = "too_few".into(),
    ),
    (
        "buffered_stream",
        |c| c.percentile(Metric::Tpot, "p50", 0.0),
        |c| c.percentile(Metric::Tpot, "p50", 0.002),
    ),
    ("stream_refused", Case::whole_bodies, |c| {
        c.whole_bodies();
        c.plan.request.stream = false;
    }),
    ("usage_refused", |c| c.client.usage_refused = true, |_| {}),
    (
        "prefix_cache_hits",
        |c| c.summary.tokens.cached_input = Some(6_400),
        |c| {
            c.summary.tokens.cached_input = Some(64_000);
            c.plan.workload.prefix_tokens = 16;
        },
    ),
    ("client_busy", |c| c.client.cores_used = Some(1.5), |c| c.client.cores_used = Some(1.4)),
    ("record_stalls", |c| c.client.sink_stalls = 1, |_| {}),
    ("connections_not_ready", |c| c.client.opening_failure = Some("refused".into()), |_| {}),
    (
        "data_damaged",
        |c| c.workload["damaged"] = json!({"byte": 9, "line": 1, "reason": "cut", "whole_before": 3}),
        |c| c.workload = Value::Null,
    ),
    (
        "repeated_prompts",
        |c| c.workload["oversampled"] = json!(12),
        |c| c.workload["oversampled"] = Value::Null,
    ),
    (
        "late_sending",
        |c| c.lateness_p99(1.2),
        |c| {
            c.lateness_p99(1.2);
            c.summary.load.client_limited = true;
        },
    ),
    (
        "short_run",
        |c| c.summary.throughput.requests_per_s = Some(89.0),
        |c| c.summary.throughput.requests_per_s = Some(90.0),
    ),
    (
        "little",
        |c| c.summary.concurrency.little_ratio = Some(0.85),
        |c| c.summary.concurrency.little_ratio = Some(1.05),
    ),
    (
        "steady_differs",
        |c| c.summary.windows[0].duration_s = 20.0,
        |c| c.summary.windows[0].duration_s = 21.0,
    ),
    ("censored", |c| c.end("cancelled", 1), |c| c.end("timeout", 1)),
    ("never_released", |c| c.summary.counts.never_released = 1, |c| c.summary.counts.warmup = 1),
    (
        "few_samples",
        |c| c.summary.metrics.extend([thin("tpot", Metric::Tpot, 999)]),
        |c| {
            c.summary.metrics.extend([thin("tpot", Metric::Tpot, 1_000), thin("connect", Metric::Connect, 9)])
        },
    ),
    (
        "bundled_chunks",
        |c| c.summary.tokens.chunks_per_token = Some(0.5),
        |c| c.summary.tokens.chunks_per_token = Some(0.95),
    ),
    (
        "whole_answers",
        |c| {
            c.whole_bodies();
            c.plan.request.stream = false;
        },
        Case::whole_bodies,
    ),
    (
        "inline_slo",
        |c| c.summary.goodput.as_mut().expect("an SLO").inline = true,
        |c| c.summary.goodput = None,
    ),
    ("read_stamps", |c| c.client.kernel_stamp_share = Some(0.98), |c| c.client.kernel_stamp_share = None),
    // 97 requests at once and 6,288 tokens a second.
    (
        "beyond_self_check",
        |c| c.client.checked_loads = Some(vec![(64, 50_000.0), (1_000, 5_988.0)]),
        |c| c.client.checked_loads = Some(vec![(64, 50_000.0), (97, 5_989.0)]),
    ),
    (
        "connected_on_the_way",
        |c| c.client.requests_that_connected = 40,
        |c| c.client.requests_that_connected = 39,
    ),
    ("shared_connections", |c| c.plan.target.http = HttpVersion::Http2, |_| {}),
    ("stale_retries", |c| c.summary.counts.stale_retries = 1, |_| {}),
    (
        "entries_dropped",
        |c| c.workload["dropped"] = json!({"too_long": 4}),
        |c| c.workload["dropped"] = json!({"too_long": 0}),
    ),
    (
        "lengths_missed",
        |c| c.workload["length_misses"] = json!(1),
        |c| c.workload = json!({"length_misses": "x"}),
    ),
    (
        "unsalted",
        |c| c.plan.salt = None,
        |c| c.plan.workload.data = Data::Jsonl { path: "x".into(), salvage: false },
    ),
    (
        "simulated",
        |c| c.plan.target.urls = vec!["simulated:illustrative".into()],
        |c| c.plan.target.urls = vec!["http://simulated:8000".into()],
    ),
];

fn thin(name: &str, metric: Metric, n: u64) -> (String, goodput_core::summary::Distribution) {
    (name.to_owned(), sample::distribution(metric, n, [10.0; 3], 10.0))
}

#[test]
fn a_servers_own_record_is_no_finding() {
    let mut case = Case::clean();
    case.summary.truth = Some(sample::truth());
    assert_eq!(case.fired(), BTreeSet::new());
}

#[test]
fn nothing_wrong_is_an_answer() {
    assert_eq!(Case::clean().fired(), BTreeSet::new());
}

#[test]
fn every_rule_fires_and_stays_silent() {
    for (rule, fault, near_miss) in CHECKS {
        let mut case = Case::clean();
        fault(&mut case);
        assert!(case.fired().contains(*rule), "{rule} did not fire: {:?}", case.fired());
        let mut case = Case::clean();
        near_miss(&mut case);
        assert!(!case.fired().contains(*rule), "{rule} fired without its fault");
    }
}

#[test]
fn every_rule_is_checked_once() {
    let rules: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    let checks: Vec<&str> = CHECKS.iter().map(|(rule, _, _)| *rule).collect();
    assert_eq!(rules, checks);
    assert_eq!(rules.iter().collect::<BTreeSet<_>>().len(), rules.len(), "ids are unique");
}

#[test]
fn a_finding_says_what_was_seen_and_what_to_do() {
    for (rule, fault, _) in CHECKS {
        let mut case = Case::clean();
        fault(&mut case);
        let context = FindingContext {
            summary: &case.summary,
            plan: Some(&case.plan),
            client: Some(&case.client),
            workload: Some(&case.workload),
        };
        let rule = RULES.iter().find(|r| r.id == *rule).expect("checked above");
        let finding = rule.find(&context).expect("it fires");
        assert_eq!((finding.rule.as_str(), finding.severity), (rule.id, rule.severity));
        assert!(!finding.remedy.is_empty() && !finding.invalidates.is_empty(), "{}", rule.id);
        let words = std::iter::once(&finding.message).chain(&finding.evidence);
        for text in words {
            assert!(!text.is_empty() && !text.contains("NaN") && !text.contains("  "), "{}: {text}", rule.id);
        }
    }
}

#[test]
fn findings_come_most_severe_first() {
    let mut case = Case::clean();
    case.end("cancelled", 4_000);
    case.client.usage_refused = true;
    case.plan.salt = None;
    let context = FindingContext {
        summary: &case.summary,
        plan: Some(&case.plan),
        client: Some(&case.client),
        workload: None,
    };
    let severities: Vec<Severity> = findings(&context).iter().map(|f| f.severity).collect();
    assert!(severities.is_sorted() && severities.first() == Some(&Severity::Invalid));
    assert!(severities.contains(&Severity::Warning) && severities.contains(&Severity::Note));
}

/// A rule whose facts are missing says nothing.
#[test]
fn what_is_not_known_fires_nothing() {
    let summary = sample::summary();
    let context = FindingContext { summary: &summary, plan: None, client: None, workload: None };
    assert_eq!(findings(&context), Vec::new());
}

/// Rules with two faces: what a closed loop, a cap or another ruler changes.
#[test]
fn conditions_of_rules() {
    let mut overload = Case::clean();
    overload.summary.throughput.requests_per_s = Some(80.0);
    overload.percentile(Metric::Ttft, "p50", 1_000.0);
    assert!(!overload.fired().contains("short_run"), "one of the two, not both");
    overload.summary.load.kind = "closed".into();
    assert!(overload.fired().is_disjoint(&["over_capacity", "short_run"].map(str::to_owned).into()));

    // Refused requests completed in their way: what is left keeps up with what is left of the rate.
    let mut refusing = Case::clean();
    refusing.end("http_error", 2_000);
    refusing.summary.throughput.requests_per_s = Some(49.0);
    assert!(!refusing.fired().contains("short_run"));

    // Under a cap the wait for a slot is not lateness of this client.
    let mut capped = Case::clean();
    capped.lateness_p99(500.0);
    capped.summary.load.concurrency = Some(64);
    assert!(!capped.fired().contains("late_sending"));

    // All requests failed is a finding of the core; here nothing is added to it.
    let mut failed = Case::clean();
    failed.end("http_error", 4_000);
    assert!(failed.fired().is_disjoint(&["nothing_measured", "refused"].map(str::to_owned).into()));

    // A burst of everything at once was never meant to be kept up with.
    let mut burst = Case::clean();
    burst.summary.load.offered_rps = Some(50_000.0);
    burst.summary.load.scheduled_rps = None;
    assert!(burst.fired().is_disjoint(&["over_capacity", "short_run"].map(str::to_owned).into()));

    // Answers of five tokens whose end token has no chunk: 0.8 chunks a token, and none of them bundled.
    let mut ended = Case::clean();
    ended.summary.tokens.output = 20_000;
    ended.summary.tokens.chunks_per_token = Some(0.8);
    assert!(!ended.fired().contains("bundled_chunks"));
}
