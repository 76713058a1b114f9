//! Laws that hold for every run.

use crate::build::{by_name, closed, due, failed, ms, near, ok, open, stream, summary, text};
use goodput_core::metric::Metric;
use goodput_core::outcome::{CancelCause, Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::ruler::{CANONICAL, RULERS};
use goodput_core::slo::Slo;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::Summary;
use goodput_core::timeline::Timeline;
use proptest::prelude::*;

/// A stream by its chunks: gap in whole microseconds before each, and its tokens.
fn chunked(chunks: &[(u32, u32)]) -> Timeline {
    let mut at = 0.0;
    let events = chunks.iter().map(|(gap_us, tokens)| {
        at += f64::from(*gap_us) / 1e3;
        text(at, *tokens)
    });
    ok(0.0, events.collect())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Ok),
        1 => Just(Outcome::Reset),
        1 => any::<bool>().prop_map(|inside_body| Outcome::Truncated { inside_body }),
        1 => Just(Outcome::HttpError { status: 503, message: "busy".into() }),
        1 => Just(Outcome::Timeout { phase: TimeoutPhase::Idle }),
        1 => Just(Outcome::Cancelled { cause: CancelCause::RunEnd }),
    ]
}

/// Any request: due, sent a little later, some chunks, and some end.
fn request() -> impl Strategy<Value = Timeline> {
    let chunks = prop::collection::vec((0_u32..400_000, 0_u32..4), 0..8);
    (0_u32..5_000, 0_u32..30, chunks, outcome()).prop_map(|(start_ms, late_ms, chunks, outcome)| {
        let mut t = chunked(&chunks);
        let due_at = f64::from(start_ms);
        let sent_at = ms(due_at + f64::from(late_ms));
        for c in &mut t.chunks {
            c.at += sent_at;
        }
        t.instants.released = sent_at;
        t.instants.sent = Some(sent_at);
        t.instants.headers = Some(sent_at);
        t.instants.closed = Some(t.chunks.last().map_or(sent_at, |c| c.at) + ms(1.0));
        t.outcome = if outcome.is_ok() && chunks.is_empty() { Outcome::NoTokens } else { outcome };
        due(t, due_at)
    })
}

fn slo() -> Slo {
    Slo::parse("ttft:300ms,tpot:100ms,e2e:1s,max_itl:300ms,fluidity:0.5,ttft.p90:400ms").expect("valid")
}

fn summarised(requests: &[Timeline], ruler: &str) -> Summary {
    let slo = slo();
    let request = SummaryRequest { ruler: by_name(ruler), slo: Some(&slo), ..SummaryRequest::new(open()) };
    summary(requests, &request)
}

proptest! {
    #[test]
    fn the_mean_itl_is_the_tpot_for_any_chunking(chunks in prop::collection::vec((0_u32..2_000_000, 0_u32..7), 1..60)) {
        let t = chunked(&chunks);
        let n: u64 = chunks.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        prop_assume!(n >= 2);
        let (mut count, mut sum) = (0_u64, 0.0);
        CANONICAL.each_itl(&t, Protocol::OpenaiChat, |gap, k| {
            count += k;
            sum += gap * k as f64;
        });
        prop_assert_eq!(count, n - 1);
        let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
        let tpot = m.get(Metric::Tpot).expect("n >= 2");
        prop_assert!((sum / count as f64 - tpot).abs() <= 1e-9 * tpot.max(1.0), "{sum} / {count} is not {tpot}");
        prop_assert!(!m.tokens_mismatch);
    }

    #[test]
    fn failures_never_improve_anything(
        requests in prop::collection::vec(request(), 1..20),
        extra in prop::collection::vec(request(), 1..10),
    ) {
        let extra = extra.into_iter().map(|mut t| {
            t.outcome = Outcome::Reset;
            t
        });
        let with: Vec<Timeline> = requests.iter().cloned().chain(extra).collect();
        let (before, after) = (summarised(&requests, "canonical"), summarised(&with, "canonical"));
        prop_assert_eq!(&before.metrics["ttft"], &after.metrics["ttft"]);
        prop_assert_eq!(&before.metrics["itl"], &after.metrics["itl"]);
        prop_assert_eq!(&before.metrics["e2e"], &after.metrics["e2e"]);
        prop_assert_eq!(before.counts.ok, after.counts.ok);
        let (b, a) = (before.goodput.expect("given"), after.goodput.expect("given"));
        prop_assert_eq!(b.good, a.good);
        prop_assert!(a.attainment.value <= b.attainment.value || b.attainment.value.is_none());
        prop_assert!(a.verdicts[0].verdict != "pass" || b.verdicts[0].verdict != "fail");
    }

    #[test]
    fn the_books_balance(requests in prop::collection::vec(request(), 0..25)) {
        for ruler in RULERS {
            let s = summarised(&requests, ruler.name);
            let outcomes: u64 = s.counts.outcomes.values().sum();
            prop_assert_eq!(s.counts.issued, outcomes);
            prop_assert_eq!(s.counts.issued, requests.len() as u64);
            let g = s.goodput.as_ref().expect("given");
            prop_assert_eq!(g.evaluated + g.censored + g.not_evaluable, s.counts.issued);
            for d in s.metrics.values() {
                if d.sample == "request" && d.n + d.undefined > 0 {
                    prop_assert!(d.n + d.undefined >= s.counts.ok);
                }
                prop_assert!(d.min <= d.mean && d.mean <= d.max || d.n == 0 || d.mean.is_none());
            }
            // Strict JSON: every number is finite, so the file reads back as it was.
            let json = serde_json::to_string(&s).expect("a summary is JSON");
            let back: Summary = serde_json::from_str(&json).expect("and reads back");
            prop_assert_eq!(back.counts.issued, s.counts.issued);
            prop_assert_eq!(serde_json::to_string(&back).expect("again"), json);
        }
    }

    #[test]
    fn little_holds_over_the_whole_run(requests in prop::collection::vec(request(), 1..25)) {
        let s = summarised(&requests, "canonical");
        if let Some(ratio) = s.concurrency.little_ratio {
            prop_assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        }
        if let Some(mean) = s.concurrency.mean {
            prop_assert!(mean <= s.concurrency.peak as f64 + 1e-9);
        }
        prop_assert!(s.concurrency.peak <= requests.len() as u64);
    }
}

#[test]
fn one_read_that_ends_all_events_is_no_error() {
    // Everything in one read: N tokens at one instant.
    let t = chunked(&[(1000, 3), (0, 1), (0, 1)]);
    let m = CANONICAL.measure(&t, Protocol::OpenaiChat);
    assert_eq!((m.get(Metric::Tpot), m.get(Metric::MaxItl)), (Some(0.0), Some(0.0)));
}

#[test]
fn a_run_without_requests_is_all_null() {
    let s = summary(&[], &SummaryRequest::new(closed()));
    assert_eq!((s.counts.issued, s.window.duration_s), (0, 0.0));
    assert_eq!(
        (s.throughput.requests_per_s, s.concurrency.mean, s.concurrency.little_ratio),
        (None, None, None)
    );
    assert!(s.metrics.values().all(|d| d.n == 0 && d.mean.is_none()));
}

#[test]
fn warm_up_is_in_no_figure() {
    let mut warm = stream(0.0, 900.0, &[10.0]);
    warm.phase = goodput_core::timeline::Phase::Warmup;
    let s = summary(&[warm, stream(1000.0, 100.0, &[10.0])], &SummaryRequest::new(closed()));
    assert_eq!((s.counts.issued, s.counts.warmup), (1, 1));
    near(s.metrics["ttft"].mean, 100.0);
    near(Some(s.window.start_s), 1.0);
}

#[test]
fn a_request_that_was_never_sent_is_not_in_flight() {
    let mut t = failed(0.0, 50.0, Outcome::Reset);
    t.instants.sent = None;
    let s = summary(&[t], &SummaryRequest::new(closed()));
    assert_eq!((s.concurrency.peak, s.counts.issued), (0, 1));
}
