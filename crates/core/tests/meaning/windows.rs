//! Whole and steady windows, and what is in flight in them.

use crate::build::{closed, due, near, open, stream, summary};
use goodput_core::load_check::LoadContext;
use goodput_core::slo::Slo;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::Summary;
use goodput_core::timeline::Timeline;
use goodput_core::window::WindowKind;

fn steady(requests: &[Timeline], load: LoadContext) -> Summary {
    summary(requests, &SummaryRequest { window: WindowKind::Steady, ..SummaryRequest::new(load) })
}

/// 400 requests at 10/s; the first 50 are slow, as from a cold cache. A little noise keeps MSER honest.
fn cold_start() -> Vec<Timeline> {
    (0..400)
        .map(|i| {
            let at = f64::from(i) * 100.0;
            let warm = 100.0 + f64::from(i * 7 % 11);
            due(stream(at, if i < 50 { 1000.0 - f64::from(i) * 10.0 } else { warm }, &[10.0]), at)
        })
        .collect()
}

#[test]
fn an_open_loop_loses_its_warm_up_and_its_drain() {
    let s = steady(&cold_start(), open());
    assert_eq!(s.window.kind, "steady");
    assert!((4.9..=5.5).contains(&s.window.start_s), "{:?}", s.window);
    near(Some(s.window.end_s), 39.9);
    assert!(s.window.how.contains("MSER-5"), "{}", s.window.how);
    assert!(s.metrics["ttft"].max.is_some_and(|max| max < 600.0));
    assert!(s.metrics["ttft"].n == s.window.requests && s.window.requests < 400);
    // The whole run is given beside it, with its own count.
    assert_eq!((s.windows[0].kind.as_str(), s.windows[0].requests), ("whole", 400));
    let rate = s.throughput.requests_per_s.expect("defined");
    assert!((rate - 10.0).abs() < 0.2, "some answers of the cut requests end inside: {rate}");
}

#[test]
fn a_warm_up_by_hand_replaces_the_rule() {
    let request =
        SummaryRequest { window: WindowKind::Steady, warmup_by_hand: true, ..SummaryRequest::new(open()) };
    let s = summary(&cold_start(), &request);
    near(Some(s.window.start_s), 0.0);
    assert_eq!(s.window.requests, 399, "half-open: the last arrival bounds the window");
}

#[test]
fn a_growing_queue_has_no_steady_state() {
    let requests: Vec<Timeline> = (0..200)
        .map(|i| {
            let at = f64::from(i) * 100.0;
            due(stream(at, 100.0 + f64::from(i * i) * 0.5, &[10.0]), at)
        })
        .collect();
    let s = steady(&requests, open());
    assert_eq!((s.window.kind.as_str(), s.window.requests), ("whole", 200));
    let finding = s.findings.iter().find(|f| f.rule == "no_steady_window").expect("said");
    assert!(finding.message.contains("no steady state"), "{}", finding.message);
}

#[test]
fn too_few_requests_for_a_steady_state() {
    let requests: Vec<Timeline> =
        (0..10).map(f64::from).map(|at| due(stream(at, 10.0, &[1.0]), at)).collect();
    let s = steady(&requests, open());
    assert_eq!(s.window.kind, "whole");
    assert!(s.findings.iter().any(|f| f.message.contains("too few")));
}

#[test]
fn a_closed_loop_has_its_plateau() {
    // Four slots that open 1 s apart and then run 100 requests of 100 ms each, one after another.
    let requests: Vec<Timeline> = (0..4)
        .flat_map(|slot| (0..100).map(move |i| f64::from(slot).mul_add(1000.0, f64::from(i) * 100.0)))
        .map(|at| stream(at, 50.0, &[50.0]))
        .collect();
    let s = steady(&requests, LoadContext { concurrency: Some(4), ..closed() });
    assert_eq!(s.window.kind, "steady");
    near(Some(s.window.start_s), 3.0);
    near(Some(s.window.end_s), 10.0);
    near(s.concurrency.mean, 4.0);
    near(s.throughput.requests_per_s, 40.0);
    near(s.concurrency.little_ratio, 1.0);
    assert_eq!(s.concurrency.peak, 4);
}

#[test]
fn a_closed_loop_without_a_plateau() {
    let s = steady(&[stream(0.0, 50.0, &[10.0])], LoadContext { concurrency: Some(4), ..closed() });
    assert_eq!(s.window.kind, "whole");
    assert!(s.findings.iter().any(|f| f.message.contains("no plateau")));
}

#[test]
fn littles_law() {
    // Oracle: 240 requests/s that stay 12 s each are 2,880 in the system.
    let requests: Vec<Timeline> = (0..240 * 30)
        .map(|i| {
            let at = f64::from(i) * 1000.0 / 240.0;
            due(stream(at, 6000.0, &[6000.0]), at)
        })
        .collect();
    let s = summary(&requests, &SummaryRequest::new(open()));
    assert_eq!(s.concurrency.peak, 2880);
    near(s.concurrency.little_ratio, 1.0);
    let residence = s.metrics["e2e"].mean.expect("all ok") / 1e3;
    assert!((s.load.offered_rps.expect("many") * residence - 2880.0).abs() < 1e-3);
}

#[test]
fn above_capacity_throughput_is_what_gets_done() {
    // 20 requests/s arrive, 10/s are served: in the window of arrivals half of them are still in the queue.
    let requests: Vec<Timeline> = (0..400)
        .map(f64::from)
        .map(|i| due(stream(i * 50.0, i.mul_add(50.0, 100.0), &[]), i * 50.0))
        .collect();
    let request =
        SummaryRequest { window: WindowKind::Steady, warmup_by_hand: true, ..SummaryRequest::new(open()) };
    let s = summary(&requests, &request);
    let rate = s.throughput.requests_per_s.expect("defined");
    assert!((rate - 10.0).abs() < 0.1, "{rate}");
}

/// Above capacity requests start faster than they complete. Goodput counts what is done, as throughput does.
#[test]
fn goodput_never_exceeds_the_throughput_of_its_window() {
    let slow_answers: Vec<Timeline> = (0..200)
        .map(|i| {
            let at = f64::from(i) * 100.0;
            due(stream(at, 50.0, &[3_000.0]), at)
        })
        .collect();
    let slo = Slo::parse("ttft:1s").expect("an SLO");
    let request = SummaryRequest {
        window: WindowKind::Steady,
        warmup_by_hand: true,
        slo: Some(&slo),
        ..SummaryRequest::new(open())
    };
    let s = summary(&slow_answers, &request);
    let goodput = s.goodput.expect("asked for");
    near(goodput.attainment.value, 1.0);
    near(goodput.request_per_s, s.throughput.requests_per_s.expect("defined"));
    near(goodput.token_per_s, s.throughput.output_tokens_per_s.expect("defined"));
}
