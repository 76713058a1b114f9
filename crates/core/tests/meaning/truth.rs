//! A run held against what the server itself did.

use crate::build::{ok, text};
use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Phase, Timeline};
use goodput_core::truth::{RequestTruth, ServerTruth, TruthReport, join};
use proptest::prelude::*;

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

/// A successful request that was sent at an instant and got one token at each of the others, in microseconds.
fn request(index: u64, sent: u64, tokens: &[u64]) -> Timeline {
    let mut t = ok(0.0, tokens.iter().map(|_| text(0.0, 1)).collect());
    t.index = index;
    t.instants.sent = Some(us(sent));
    for (chunk, at) in t.chunks.iter_mut().zip(tokens) {
        chunk.at = us(*at);
    }
    t
}

fn truth(due: &[u64], written: &[u64]) -> RequestTruth {
    let spans = |list: &[u64]| list.iter().map(|at| us(*at)).collect();
    RequestTruth { due: spans(due), written: spans(written), chunks: written.len() as u64 }
}

fn server(requests: &[(&str, RequestTruth)]) -> ServerTruth {
    let mut server = ServerTruth::default();
    for (id, truth) in requests {
        server.add(Some((*id).to_owned()), truth.clone());
    }
    server
}

fn joined(server: &ServerTruth, requests: Vec<Timeline>) -> TruthReport {
    let Ok(report) = join(server, &requests, |t| format!("{:?}{}", t.phase, t.index));
    report
}

/// Two requests on clocks that have nothing in common. TTFT: 50,060 against 50,020 and 50,200 against 50,100 us;
/// gaps: 9,990 against 10,000 and 10,030 against 10,010, then 10,000 twice.
#[test]
fn only_spans_are_compared() {
    let server = server(&[
        ("Measured0", truth(&[50_000, 60_000, 70_000], &[50_020, 60_020, 70_030])),
        ("Measured1", truth(&[50_000, 60_000], &[50_100, 60_100])),
    ]);
    let requests = vec![
        request(0, 1_000_000, &[1_050_060, 1_060_050, 1_070_080]),
        request(1, 7_000_000, &[7_050_200, 7_060_200]),
    ];
    let report = joined(&server, requests);
    assert_eq!((report.matched, report.without_truth, report.server_only), (2, 0, 0));
    let ttft = report.ttft_ms.unwrap();
    assert_eq!((ttft.n, ttft.p50, ttft.p99, ttft.max, ttft.signed_p50), (2, 0.04, 0.1, 0.1, 0.04));
    assert_eq!((ttft.client_p99, ttft.server_p99), (50.2, 50.1));
    let gap = report.chunk_gap_ms.unwrap();
    assert_eq!((gap.n, gap.p50, gap.p99, gap.max, gap.signed_p50), (3, 0.01, 0.02, 0.02, 0.0));
    let late = report.server_late_ms.unwrap();
    assert_eq!((late.p50, late.p99, late.max), (0.03, 0.1, 0.1));
}

#[test]
fn every_request_is_counted_under_one_name() {
    let known = || truth(&[10], &[10]);
    let mut server = server(&[
        ("Measured0", known()),
        ("Measured1", known()),
        ("Measured2", known()),
        ("Measured2", known()),
        ("Warmup0", known()),
        ("somebody else's", known()),
    ]);
    server.add(None, known());
    let mut failed = request(1, 0, &[10]);
    failed.outcome = Outcome::Timeout { phase: TimeoutPhase::Total };
    let mut warmup = request(0, 0, &[10]);
    warmup.phase = Phase::Warmup;
    let report = joined(
        &server,
        vec![request(0, 0, &[10]), failed, request(2, 0, &[10]), request(3, 0, &[10]), warmup],
    );
    assert_eq!((report.matched, report.failed, report.ambiguous, report.without_truth), (1, 1, 1, 1));
    assert_eq!(report.server_only, 2, "one of somebody else and one without an id");
    assert_eq!(report.chunk_gap_ms, None, "one token has no gap");
    assert_eq!((server.len(), server.some_id()), (6, Some("Measured0")));
}

#[test]
fn events_that_are_not_the_servers_writes_have_no_gap_error() {
    let mut bundled = truth(&[10, 20], &[10, 20]);
    bundled.chunks = 4;
    let server = server(&[("Measured0", bundled), ("Measured1", truth(&[10, 20], &[10, 20]))]);
    let report = joined(&server, vec![request(0, 0, &[11, 11, 21, 21]), request(1, 0, &[11, 21, 31])]);
    assert_eq!((report.matched, report.unaligned), (2, 2));
    assert_eq!(report.ttft_ms.map(|ttft| ttft.n), Some(2));
    assert_eq!(report.chunk_gap_ms, None);
}

#[test]
fn an_answer_in_one_body_has_no_first_token() {
    let server = server(&[("Measured0", truth(&[10], &[12]))]);
    let mut whole = request(0, 0, &[20]);
    whole.chunks[0].flags |= ChunkFlags::WHOLE;
    let report = joined(&server, vec![whole]);
    assert_eq!((report.matched, report.ttft_ms, report.unaligned), (1, None, 0));
    assert_eq!(report.server_late_ms.map(|late| late.max), Some(0.002));
}

#[test]
fn nothing_in_common_is_nothing() {
    let report = joined(&server(&[("else", truth(&[1], &[1]))]), vec![request(0, 0, &[1])]);
    assert_eq!((report.matched, report.without_truth, report.server_only), (0, 1, 1));
    assert_eq!((report.ttft_ms, report.server_late_ms), (None, None));
    assert!(ServerTruth::default().is_empty());
}

proptest! {
    /// Whatever the offset of the two clocks is, it is in no error.
    #[test]
    fn the_clocks_offset_does_not_matter(offset in 0_u64..1 << 40, gaps in prop::collection::vec(1_u64..90_000, 1..20)) {
        let mut at = 0;
        let written: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let tokens: Vec<u64> = written.iter().map(|at| offset + at).collect();
        let report = joined(&server(&[("Measured0", truth(&written, &written))]), vec![request(0, offset, &tokens)]);
        prop_assert_eq!(report.ttft_ms.map(|e| (e.max, e.signed_p50)), Some((0.0, 0.0)));
        prop_assert_eq!(report.chunk_gap_ms.map_or(0.0, |e| e.max), 0.0);
        prop_assert_eq!(report.chunk_gap_ms.map_or(0, |e| e.n), gaps.len() as u64 - 1);
    }
}
