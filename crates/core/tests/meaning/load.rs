//! The offered load and whether the client was the bottleneck.

use crate::build::{by_name, closed, due, failed, ms, near, open, stream, summary};
use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::outcome::{ConnectFault, Outcome};
use goodput_core::plan::GapLaw;
use goodput_core::rng::Seed;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::{LoadReport, Severity};
use goodput_core::timeline::{Chunk, ChunkFlags, Timeline};

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

/// A stream whose events were read this many milliseconds after they came, if they have a stamp; else after the last
/// instant at which they had not come yet, which is not known for zero.
fn read_late(late_ms: f64, stamp: ChunkFlags) -> Timeline {
    let mut t = stream(0.0, 50.0, &[10.0, 10.0]);
    let late = u32::try_from(ms(late_ms).0).expect("under 4 s");
    for chunk in &mut t.chunks {
        (chunk.late_ns, chunk.early_ns) = match (stamp, late) {
            (STAMPED, late) => (late, 0),
            (_, 0) => (0, Chunk::EARLY_UNKNOWN),
            (_, late) => (0, late),
        };
        chunk.flags |= stamp;
    }
    t
}

const STAMPED: ChunkFlags = ChunkFlags::KERNEL_STAMP;
const UNSTAMPED: ChunkFlags = ChunkFlags(0);

/// The chunk came in one read with the one before it.
fn share(t: &mut Timeline, chunk: usize) {
    t.chunks[chunk].at = t.chunks[chunk - 1].at;
    t.chunks[chunk].flags |= ChunkFlags::SHARED_READ;
}

fn bound(load: &LoadReport) -> (Option<f64>, Option<f64>) {
    (load.error_bound_ms.ttft_p99, load.error_bound_ms.itl_p99)
}

#[test]
fn a_busy_machine_with_kernel_stamps_measures_well() {
    let load = report(&[read_late(30.0, STAMPED)], closed());
    assert!(!load.client_limited, "{:?}", load.reasons);
    assert_eq!(bound(&load), (Some(0.0), Some(0.0)));
    let lateness = load.read_lateness_ms.expect("a fact all the same");
    assert_eq!((lateness.p50, lateness.p99, lateness.max), (30.0, 30.0, 30.0));
}

#[test]
fn without_a_stamp_lateness_is_in_the_figures() {
    let load = report(&[read_late(30.0, UNSTAMPED)], closed());
    assert_eq!(load.reasons.len(), 2, "{:?}", load.reasons);
    assert!(
        load.reasons[0].contains("first tokens may have waited 30.000 ms to be read"),
        "{:?}",
        load.reasons
    );
    assert_eq!(bound(&load), (Some(30.0), Some(30.0)));
    // 4 ms on a TTFT of 50 ms is allowed, on gaps of 10 ms it is not.
    let load = report(&[read_late(4.0, UNSTAMPED)], closed());
    assert_eq!(load.reasons, ["tokens may have waited 4.000 ms to be read at p99, more than 1.000 ms"]);
    assert!(!report(&[read_late(0.9, UNSTAMPED)], closed()).client_limited);
}

#[test]
fn without_a_stamp_and_without_lateness_nothing_is_known() {
    let load = report(&[read_late(0.0, UNSTAMPED)], closed());
    assert_eq!((bound(&load), load.read_lateness_ms), ((None, None), None), "zero would be a claim");
    assert!(!load.client_limited);
    // One in 300 gaps is beyond the p99, the first token of the one request in 150 as well.
    let mut requests = vec![read_late(0.5, STAMPED); 150];
    requests[0].chunks[0].flags = ChunkFlags::CHOICES | ChunkFlags::TEXT;
    requests[0].chunks[0].early_ns = Chunk::EARLY_UNKNOWN;
    let load = report(&requests, closed());
    assert_eq!(bound(&load), (Some(0.0), Some(0.0)));
}

#[test]
fn the_last_event_of_a_read_has_a_stamp_of_its_own() {
    // A role chunk in the read of the first token takes nothing from the token.
    let mut t = read_late(30.0, STAMPED);
    t.chunks[0].flags = ChunkFlags::CHOICES | ChunkFlags::ROLE | STAMPED;
    t.chunks[0].tokens = 0;
    share(&mut t, 1);
    assert_eq!(bound(&report(&[t], closed())), (Some(0.0), Some(0.0)));
}

#[test]
fn an_error_is_what_the_record_bounds() {
    // 100 requests of which the first two tokens came together, in a read that was late by 30 ms; the receive thread
    // knew that nothing had come before 0.5 ms ahead of it.
    let mut t = read_late(30.0, STAMPED);
    share(&mut t, 1);
    t.chunks[0].early_ns = 500_000;
    let load = report(&vec![t; 100], closed());
    assert_eq!((bound(&load), load.client_limited), ((Some(0.5), Some(0.5)), false));
}

#[test]
fn a_gap_is_as_uncertain_as_its_worse_end() {
    let mut t = read_late(0.0, STAMPED);
    (t.chunks[1].early_ns, t.chunks[2].early_ns) = (20_000_000, 5_000_000);
    let load = report(&[t.clone()], closed());
    assert_eq!(bound(&load), (Some(0.0), Some(20.0)));
    assert_eq!(load.reasons, ["tokens may have waited 20.000 ms to be read at p99, more than 1.000 ms"]);
    // Unknown at one end is unknown.
    t.chunks[2].early_ns = Chunk::EARLY_UNKNOWN;
    assert_eq!(bound(&report(&[t.clone()], closed())), (Some(0.0), None));
    t.chunks[0].early_ns = Chunk::EARLY_UNKNOWN;
    assert_eq!(bound(&report(&[t], closed())), (None, None));
}

#[test]
fn what_the_client_adds_to_ttft_has_its_lateness_in_sending() {
    let mut t = due(stream(0.75, 50.0, &[10.0]), 0.0);
    t.chunks.iter_mut().for_each(|chunk| chunk.flags |= STAMPED);
    let under = |ruler, load| {
        let request = SummaryRequest { ruler: by_name(ruler), ..SummaryRequest::new(load) };
        bound(&summary(std::slice::from_ref(&t), &request).load)
    };
    assert_eq!(under("canonical", open()), (Some(0.75), Some(0.0)));
    assert_eq!(under("vllm", open()), (Some(0.0), Some(0.0)), "its clock starts when the request is sent");
    // Released at 0.75 ms because a cap held it back: not this client's doing.
    t.instants.released = ms(0.75);
    let request = SummaryRequest::new(LoadContext { concurrency: Some(1), ..open() });
    assert_eq!(bound(&summary(&[t], &request).load), (Some(0.0), Some(0.0)));
}

#[test]
fn only_answers_have_an_error() {
    let mut failed = read_late(30.0, STAMPED);
    failed.outcome = Outcome::Truncated { inside_body: true };
    let load = report(&[failed], closed());
    assert_eq!((bound(&load), load.client_limited), ((None, None), false));
    assert!(load.read_lateness_ms.is_some());
}

#[test]
fn what_is_unknown_says_why() {
    let why = |requests: &[Timeline]| {
        let bound = report(requests, closed()).error_bound_ms;
        (bound.ttft_unknown, bound.itl_unknown)
    };
    assert_eq!(why(&[read_late(0.0, STAMPED)]), (None, None));
    let (ttft, itl) = why(&[read_late(0.0, UNSTAMPED)]);
    assert_eq!(ttft.as_deref(), Some("1 of 1 first tokens came at a time that nothing bounds from below"));
    assert!(itl.expect("unknown").starts_with("2 of 2 gaps between tokens"));
    let (ttft, itl) = why(&[failed(0.0, 1.0, Outcome::Truncated { inside_body: true })]);
    assert_eq!(ttft.as_deref(), Some("no answer has a first token"));
    assert_eq!(itl.as_deref(), Some("no answer has two token events"));
}

#[test]
fn connections_are_counted_by_how_they_were_had() {
    let mut requests = sent_late(&[0.0, 10.0, 20.0, 30.0], 4.0);
    for t in &mut requests[..2] {
        t.instants.released = t.instants.scheduled.expect("due");
    }
    (requests[0].instants.connect_start, requests[0].instants.connected) = (Some(ms(1.0)), Some(ms(3.0)));
    requests[2].connection.uses_before = 1;
    requests[3].instants.sent = None;
    requests[3].chunks.clear();
    requests[3].outcome =
        Outcome::Connect { fault: ConnectFault::Refused, message: "connection refused".into() };
    let found = summary(&requests, &SummaryRequest::new(open())).connections;
    assert_eq!((found.opened, found.ready, found.reused), (1, 1, 1), "one was never sent");
    near(found.setup_ms.map(|setup| setup.p99), 2.0);
    assert_eq!(summary(&requests[1..2], &SummaryRequest::new(open())).connections.setup_ms, None);
}

#[test]
fn every_reason_says_what_to_do() {
    let due_ms: Vec<f64> = (0..30).map(|i| f64::from(i) * 10.0).collect();
    let mut requests = sent_late(&due_ms, 20.0);
    requests.iter_mut().flat_map(|t| &mut t.chunks).for_each(|chunk| chunk.flags |= STAMPED);
    requests.extend((0..30).map(|_| read_late(30.0, UNSTAMPED)));
    requests.push(failed(
        0.0,
        1.0,
        Outcome::Connect { fault: ConnectFault::ClientLimit, message: "EMFILE".into() },
    ));
    let s = summary(&requests, &SummaryRequest::new(open()));
    let LoadReport { reasons, remedies, .. } = s.load;
    let expected = [
        ("requests left", "core"),
        ("first tokens", "--receive-threads"),
        ("tokens", "--receive-threads"),
        ("found no free port", "ulimit -n"),
    ];
    assert_eq!((reasons.len(), remedies.len()), (4, 4), "{reasons:?}");
    for ((reason, remedy), (says, does)) in reasons.iter().zip(&remedies).zip(expected) {
        assert!(reason.contains(says) && remedy.contains(does), "{reason} -> {remedy}");
    }
    let finding = s.findings.iter().find(|f| f.rule == "client_limited").expect("limited");
    assert_eq!(finding.evidence, reasons);
    assert!(remedies.iter().all(|remedy| finding.remedy.matches(remedy.as_str()).count() == 1));
}

#[test]
fn missing_ports_are_the_clients_fault() {
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
