//! Answers that go wrong: each ends in its outcome, none makes a latency better, and goodput falls.

use crate::goodput::{TINY, exact, figure, goodput, run_args};
use serde_json::Value;
use tempfile::tempdir;

const REQUESTS: f64 = 60.0;

/// A run of which about half of the answers have this fault.
fn half(fault: &str, extra: &str) -> Value {
    let (_server, url) = exact(20, 5, 8, &[&format!("{fault}@0.5")]);
    let out = tempdir().expect("a folder");
    let load = format!("--concurrency 20 --requests {REQUESTS} {TINY} --slo ttft:20s --json --quiet {extra}");
    goodput(run_args(&url, out.path(), &load)).with_code(0).json()
}

#[test]
fn each_fault_has_its_outcome_and_improves_nothing() {
    let cases = [
        ("error_after=3", "", "stream_error"),
        ("status=503", "", "http_error"),
        ("cut_after=3", "", "truncated"),
        ("reset_after=3", "", "reset"),
        ("hang", "--timeout 300ms", "timeout"),
        ("hang_after=3", "--idle-timeout 300ms", "timeout"),
    ];
    for (fault, extra, outcome) in cases {
        let summary = half(fault, extra);
        let failed = figure(&summary, &format!("/counts/outcomes/{outcome}"));
        let ok = figure(&summary, "/counts/ok");
        assert!(failed >= 10.0 && ok >= 10.0, "{fault}: {}", summary["counts"]);
        assert_eq!(ok + failed, REQUESTS, "{fault}: {}", summary["counts"]);
        for metric in ["ttft", "tpot", "e2e", "max_itl"] {
            assert_eq!(
                figure(&summary, &format!("/metrics/{metric}/n")),
                ok,
                "{fault}: {metric} of ok requests only"
            );
        }
        // A refusal within a millisecond is not a fast answer.
        assert!(figure(&summary, "/metrics/ttft/min") >= 19.9, "{fault}");
        assert!(figure(&summary, "/metrics/e2e/min") >= 54.9, "{fault}");
        assert_eq!(figure(&summary, "/goodput/evaluated"), REQUESTS, "{fault}");
        assert_eq!(figure(&summary, "/goodput/good"), ok, "{fault}");
        assert_eq!(figure(&summary, "/tokens/output"), 8.0 * ok, "{fault}");
    }
}

#[test]
fn a_run_in_which_nothing_succeeds_is_invalid_and_has_no_latency() {
    let (_server, url) = exact(5, 1, 4, &["status=503"]);
    let out = tempdir().unwrap();
    let load = format!("--concurrency 4 --requests 12 {TINY} --slo ttft:10s --json --quiet");
    let summary = goodput(run_args(&url, out.path(), &load)).with_code(3).json();
    assert_eq!(figure(&summary, "/counts/outcomes/http_error"), 12.0);
    assert_eq!(figure(&summary, "/goodput/attainment/value"), 0.0);
    for (name, metric) in summary["metrics"].as_object().unwrap() {
        if metric["unit"] != "ms"
            || ["client_queue", "cap_wait", "connect", "e2e_censored"].contains(&name.as_str())
        {
            continue;
        }
        assert_eq!(metric["n"], 0, "{name}");
        let figures = ["mean", "std", "min", "max"].iter().map(|key| &metric[*key]);
        assert!(figures.chain([&metric["p99"]["value"]]).all(Value::is_null), "{name}: {metric}");
    }
}

#[test]
fn an_error_budget_ends_a_hopeless_run() {
    let (server, url) = exact(5, 0, 2, &["status=503"]);
    let out = tempdir().unwrap();
    let load = format!("--rate 200 --duration 50s --error-budget 5 {TINY} --json --quiet");
    let summary = goodput(run_args(&url, out.path(), &load)).with_code(3).json();
    assert_eq!(summary["partial"], false, "the plan itself asked for this end");
    assert!(figure(&summary, "/counts/outcomes/http_error") >= 5.0);
    assert!(figure(&summary, "/counts/never_released") > 1_000.0);
    assert!(server.stop().unwrap().requests.arrived < 5_000);
}

#[test]
fn requests_that_outlive_the_drain_are_censored() {
    let (_server, url) = exact(30_000, 0, 1, &[]);
    let out = tempdir().unwrap();
    let load = format!("--rate 100 --requests 5 --drain 200ms {TINY} --slo ttft:100s --json --quiet");
    let summary = goodput(run_args(&url, out.path(), &load)).with_code(3).json();
    assert_eq!(figure(&summary, "/counts/censored"), 5.0, "{}", summary["counts"]);
    assert_eq!(figure(&summary, "/goodput/evaluated"), 0.0);
}
