//! The rules about the load on summaries of whole runs, made from timelines of servers whose behaviour is known: the
//! thresholds are judged by what they say, not by figures put together for them.

use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::outcome::{CancelCause, Outcome};
use goodput_core::plan::Protocol;
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::summary::Summary;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_report::findings::{FindingContext, findings};
use std::collections::BTreeSet;

const TOKENS: u32 = 20;

fn seconds(s: f64) -> Nanos {
    Nanos::from_secs_f64(s)
}

/// Arrivals with exponential gaps, from the golden-ratio sequence: as spread out as random ones, the same each time.
fn arrivals(rate: f64, n: u32) -> Vec<f64> {
    let mut at = 0.0;
    (1..=n)
        .map(|i| {
            let u = (f64::from(i) * 0.618_033_988_749_895).fract();
            at -= (1.0 - u).ln() / rate;
            at
        })
        .collect()
}

/// A request due and sent at `at`, with its first token at `first` and its last at `last`.
fn request(index: usize, at: f64, first: f64, last: f64) -> Timeline {
    let mut t = Timeline::released(index as u64, Phase::Measured, Some(seconds(at)), seconds(at));
    t.instants.sent = Some(seconds(at));
    t.chunks = (0..TOKENS)
        .map(|k| Chunk {
            at: seconds(first + (last - first) * f64::from(k) / f64::from(TOKENS - 1)),
            late_ns: 0,
            early_ns: 0,
            bytes: 100,
            tokens: 1,
            flags: ChunkFlags::CHOICES | ChunkFlags::TEXT,
            choice: 0,
            token_source: TokenSource::Server,
        })
        .collect();
    t.instants.closed = t.chunks.last().map(|chunk| chunk.at);
    t.server.prompt_tokens = Some(32);
    t.output = Some(TokenCount { count: TOKENS, source: TokenSource::Server });
    t.outcome = Outcome::Ok;
    t
}

/// One request at a time, each for 100 ms, in order of arrival.
fn queueing(rate: f64, n: u32) -> Vec<Timeline> {
    let mut free = 0.0_f64;
    let serve = |(i, at): (usize, f64)| {
        let begin = free.max(at);
        free = begin + 0.1;
        request(i, at, begin + 0.02, free)
    };
    arrivals(rate, n).into_iter().enumerate().map(serve).collect()
}

/// Everybody at once: the first token in 20 ms, then one each 10 ms, slower by the share `growth` with every second of
/// the run, as work piles up.
fn sharing(rate: f64, n: u32, growth: f64) -> Vec<Timeline> {
    let serve = |(i, at): (usize, f64)| {
        let per_token = 0.01 * (1.0 + growth * at);
        request(i, at, at + 0.02, at + 0.02 + per_token * f64::from(TOKENS - 1))
    };
    arrivals(rate, n).into_iter().enumerate().map(serve).collect()
}

fn summary(requests: &[Timeline]) -> Summary {
    let load = LoadContext {
        kind: LoadKind::Open,
        protocol: Protocol::OpenaiChat,
        asked_rps: None,
        law: None,
        concurrency: None,
        offering_began: None,
    };
    summarise(requests, &SummaryRequest::new(load)).expect("memory cannot fail")
}

fn fired(requests: &[Timeline]) -> BTreeSet<String> {
    let summary = summary(requests);
    let context = FindingContext { summary: &summary, plan: None, client: None, workload: None };
    findings(&context).into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn below_capacity_nothing_is_said_of_the_load() {
    for rate in [1.0, 5.0, 7.0] {
        assert_eq!(fired(&queueing(rate, 2_000)), BTreeSet::new(), "{rate}/s of 10/s");
    }
    assert_eq!(fired(&sharing(10.0, 2_000, 0.0)), BTreeSet::new());
}

#[test]
fn above_capacity_a_queue_grows() {
    for rate in [12.0, 20.0, 100.0] {
        let fired = fired(&queueing(rate, 2_000));
        assert!(
            fired.contains("over_capacity") && !fired.contains("short_run"),
            "{rate}/s of 10/s: {fired:?}"
        );
    }
}

#[test]
fn above_capacity_tokens_come_ever_slower() {
    let fired = fired(&sharing(100.0, 2_000, 2.0));
    assert!(fired.contains("over_capacity") && !fired.contains("short_run"), "{fired:?}");
}

#[test]
fn a_run_as_short_as_its_requests_is_called_short() {
    // 1.2 s of arrivals, and the answers take 0.97 s each.
    let long = |(i, at): (usize, f64)| request(i, at, at + 0.02, at + 0.97);
    let requests: Vec<Timeline> = arrivals(50.0, 60).into_iter().enumerate().map(long).collect();
    let fired = fired(&requests);
    assert!(fired.contains("short_run") && !fired.contains("over_capacity"), "{fired:?}");
}

/// A cap of one holds requests back that the server could well have taken: that is not the server's capacity.
#[test]
fn a_cap_is_not_the_capacity() {
    let mut free = 0.0_f64;
    let serve = |(i, at): (usize, f64)| {
        let begin = free.max(at);
        free = begin + 0.1;
        let mut t = request(i, begin, begin + 0.02, free);
        t.instants.scheduled = Some(seconds(at));
        t
    };
    let requests: Vec<Timeline> = arrivals(20.0, 1_000).into_iter().enumerate().map(serve).collect();
    let fired = fired(&requests);
    assert!(fired.is_disjoint(&["over_capacity", "short_run"].map(str::to_owned).into()), "{fired:?}");
}

/// What the run cuts off has not been completed, so it does not hide the queue.
#[test]
fn a_drain_limit_does_not_hide_the_queue() {
    let mut requests = queueing(20.0, 2_000);
    let end = requests.last().and_then(|t| t.instants.sent).expect("sent");
    for t in &mut requests {
        if t.instants.closed > Some(end) {
            t.chunks.retain(|chunk| chunk.at <= end);
            t.instants.closed = Some(end);
            t.outcome = Outcome::Cancelled { cause: CancelCause::RunEnd };
        }
    }
    let fired = fired(&requests);
    assert!(fired.contains("over_capacity") && fired.contains("censored"), "{fired:?}");
}
