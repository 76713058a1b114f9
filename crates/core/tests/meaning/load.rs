//! The offered load and whether the client was the bottleneck.

use crate::build::{closed, due, failed, ms, near, open, stream, summary};
use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::outcome::{ConnectFault, Outcome};
use goodput_core::plan::GapLaw;
use goodput_core::rng::Seed;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::{LoadReport, Severity};
use goodput_core::timeline::Timeline;

fn report(requests: &[Timeline], load: LoadContext) -> LoadReport {
    summary(requests, &SummaryRequest::new(load)).load
}

/// `n` requests due at these instants (ms), each sent `late_ms` after.
fn sent_late(due_ms: &[f64], late_ms: f64) -> Vec<Timeline> {
    due_ms.iter().map(|at| due(stream(at + late_ms, 50.0, &[10.0]), *at)).collect()
}

fn steady(law: GapLaw, rate: f64) -> LoadContext {
    LoadContext { asked_rps: Some(rate), law: Some(law), ..open() }
}

/// Instants of a Poisson process at 100/s.
fn poisson(n: u64) -> Vec<f64> {
    let draws = Seed(11).stream("load-test");
    let mut at = 0.0;
    (0..n)
        .map(|i| {
            at += draws.at(i).exponential() * 10.0;
            at
        })
        .collect()
}

#[test]
fn lateness_above_a_millisecond_is_the_clients_fault() {
    let due_ms: Vec<f64> = (0..100).map(|i| f64::from(i) * 10.0).collect();
    let on_time = report(&sent_late(&due_ms, 0.9), open());
    let lateness = on_time.lateness_ms.expect("scheduled and sent");
    near(Some(lateness.p99), 0.9);
    assert!(!on_time.client_limited, "{:?}", on_time.reasons);
    let late = sent_late(&due_ms, 1.1);
    let s = summary(&late, &SummaryRequest::new(open()));
    assert!(s.load.client_limited);
    assert_eq!((s.findings[0].rule.as_str(), s.findings[0].severity), ("client_limited", Severity::Invalid));
}

#[test]
fn lateness_is_judged_against_the_latency_it_spoils() {
    // 1.1 ms on a median TTFT of 500 ms is well under 1 %.
    let requests: Vec<Timeline> =
        (0..30).map(|i| f64::from(i) * 10.0).map(|at| due(stream(at + 1.1, 500.0, &[10.0]), at)).collect();
    assert!(!report(&requests, open()).client_limited);
}

#[test]
fn a_new_connections_set_up_is_not_the_clients_lateness() {
    let mut requests = sent_late(&[0.0, 10.0], 20.0);
    for t in &mut requests {
        t.instants.released = t.instants.scheduled.expect("due");
        t.instants.connect_start = t.instants.scheduled;
        t.instants.connected = t.instants.sent;
    }
    let load = report(&requests, open());
    assert!(!load.client_limited, "{:?}", load.reasons);
    near(load.lateness_ms.map(|l| l.max), 20.0);
}

#[test]
fn a_cap_is_not_a_slow_client() {
    let mut requests = sent_late(&[0.0, 10.0, 20.0], 100.0);
    for t in &mut requests {
        t.instants.released = t.instants.sent.expect("sent");
    }
    assert!(report(&requests, open()).client_limited, "without a cap nobody else held it back");
    let capped = LoadContext { concurrency: Some(1), ..open() };
    assert!(!report(&requests, capped).client_limited);
}

#[test]
fn sending_less_than_scheduled_is_the_clients_fault() {
    // Each request 3 ms later than the one before on a TTFT of 10 s: lateness alone would pass.
    let requests: Vec<Timeline> = (0..30)
        .map(f64::from)
        .map(|i| due(stream(i.mul_add(103.0, 0.0), 10_000.0, &[10.0]), i * 100.0))
        .collect();
    let load = report(&requests, open());
    near(load.scheduled_rps, 10.0);
    near(load.offered_rps, 1000.0 / 103.0);
    assert!(load.reasons.iter().any(|r| r.contains("scheduled")), "{:?}", load.reasons);
}

#[test]
fn late_reading_and_missing_ports_are_the_clients_fault() {
    let mut slow_reader = stream(0.0, 50.0, &[10.0]);
    slow_reader.chunks[0].late_ns = 30_000_000;
    assert!(report(&[slow_reader], closed()).reasons[0].contains("to be read"));
    let no_port =
        failed(0.0, 1.0, Outcome::Connect { fault: ConnectFault::ClientLimit, message: "EMFILE".into() });
    assert!(report(&[no_port], closed()).reasons[0].contains("no free port"));
}

#[test]
fn the_gaps_are_held_against_the_law() {
    let requests = sent_late(&poisson(400), 0.0);
    let check = |law, rate| report(&requests, steady(law, rate)).gaps.expect("a steady law");
    let poisson = check(GapLaw::Poisson, 100.0);
    assert_eq!(poisson.verdict, "pass", "{poisson:?}");
    assert!((poisson.cv - 1.0).abs() < 0.15 && poisson.asked_cv == 1.0);
    assert_eq!(check(GapLaw::Poisson, 200.0).verdict, "fail", "half the rate");
    assert_eq!(check(GapLaw::Constant, 100.0).verdict, "fail");
    assert_eq!(check(GapLaw::Gamma { burstiness: 1.0 }, 100.0).verdict, "pass");
    let bursty = check(GapLaw::Gamma { burstiness: 0.25 }, 100.0);
    assert_eq!((bursty.verdict.as_str(), bursty.asked_cv), ("fail", 2.0));

    let even: Vec<f64> = (0..100).map(|i| f64::from(i) * 10.0).collect();
    let even = report(&sent_late(&even, 0.0), steady(GapLaw::Constant, 100.0)).gaps.expect("a steady law");
    assert_eq!((even.verdict.as_str(), even.ks), ("pass", None));
    let few = report(&requests[..10], steady(GapLaw::Poisson, 100.0)).gaps.expect("a steady law");
    assert_eq!(few.verdict, "too_few");
}

#[test]
fn a_closed_loop_has_no_schedule() {
    let load = report(&[stream(0.0, 50.0, &[10.0]), stream(100.0, 50.0, &[10.0])], closed());
    assert_eq!((load.kind.as_str(), load.scheduled_rps, load.gaps), ("closed", None, None));
    assert!(load.lateness_ms.is_none());
    near(load.offered_rps, 10.0);
    assert_eq!(LoadKind::Trace.name(), "trace");
}

#[test]
fn everything_at_once_has_no_rate() {
    let requests: Vec<Timeline> = (0..3).map(|_| due(stream(0.0, 50.0, &[10.0]), 0.0)).collect();
    let load = report(&requests, open());
    assert_eq!((load.scheduled_rps, load.offered_rps, load.asked_rps), (None, None, None));
    assert_eq!(requests[0].instants.scheduled, Some(ms(0.0)));
}
