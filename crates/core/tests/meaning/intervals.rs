//! Which interval a percentile gets, and what it is worth.

use crate::build::{closed, due, near, open, stream, summary};
use goodput_core::interval::IntervalMethod;
use goodput_core::slo::Slo;
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::{Quantile, Summary};
use goodput_core::timeline::Timeline;

/// `n` requests 100 ms apart; all gaps of one request are equal, and differ from request to request.
fn requests(n: u32) -> Vec<Timeline> {
    (0..n)
        .map(|i| (f64::from(i) * 100.0, 10.0 + f64::from(i * 7 % 23)))
        .map(|(at, gap)| due(stream(at, 50.0 + gap, &[gap; 40]), at))
        .collect()
}

fn read(requests: &[Timeline], intervals: Option<IntervalMethod>) -> Summary {
    summary(requests, &SummaryRequest { intervals, ..SummaryRequest::new(open()) })
}

fn of<'a>(s: &'a Summary, metric: &str, percentile: &str) -> &'a Quantile {
    &s.metrics[metric].percentiles[percentile]
}

fn width(q: &Quantile) -> f64 {
    q.high.expect("upper end") - q.low.expect("lower end")
}

#[test]
fn requests_count_as_independent_and_gaps_do_not() {
    let s = read(&requests(200), None);
    for metric in ["ttft", "tpot", "e2e", "max_itl"] {
        assert_eq!(of(&s, metric, "p50").method, "linear, order statistics 95 %", "{metric}");
    }
    for metric in ["itl", "chunk_gap"] {
        assert_eq!(of(&s, metric, "p50").method, "linear, time-block bootstrap 95 %, 50 blocks", "{metric}");
    }
}

#[test]
fn either_method_can_be_had_for_all() {
    let requests = requests(200);
    let (order, blocks) = (IntervalMethod::OrderStatistics, IntervalMethod::TimeBlocks);
    let as_independent = read(&requests, Some(order));
    assert_eq!(
        of(&as_independent, "itl", "p95").method,
        "linear, order statistics 95 %, samples taken as independent"
    );
    let by_blocks = read(&requests, Some(blocks));
    assert!(of(&by_blocks, "ttft", "p95").method.contains(blocks.name()));
    // 200 levels, each 40 times: 8,000 samples that are worth 200.
    let ratio = width(of(&by_blocks, "chunk_gap", "p50")) / width(of(&as_independent, "chunk_gap", "p50"));
    assert!(ratio >= 2.0, "{ratio}");
    for metric in as_independent.metrics.keys() {
        let (a, b) = (of(&as_independent, metric, "p95"), of(&by_blocks, metric, "p95"));
        assert_eq!((a.value, &a.support), (b.value, &b.support), "{metric}: only the interval differs");
    }
}

#[test]
fn too_few_blocks_fall_back_and_say_so() {
    let words = "linear, order statistics 95 %, samples taken as independent";
    let few = read(&requests(9), Some(IntervalMethod::TimeBlocks));
    assert_eq!(of(&few, "itl", "p50").method, words);
    assert_eq!(of(&few, "ttft", "p50").method, words);
    assert!(of(&read(&requests(10), None), "itl", "p50").method.ends_with("10 blocks"));
    let at_once: Vec<Timeline> = (0..100).map(|_| due(stream(0.0, 50.0, &[10.0]), 0.0)).collect();
    assert_eq!(of(&read(&at_once, None), "itl", "p50").method, words, "one instant is one block");
    let none = summary(&[], &SummaryRequest::new(closed()));
    assert_eq!(of(&none, "itl", "p50").method, words);
}

#[test]
fn an_interval_holds_its_value_and_repeats() {
    let s = read(&requests(137), Some(IntervalMethod::TimeBlocks));
    for (metric, d) in &s.metrics {
        for (name, q) in &d.percentiles {
            let value = q.value.expect("samples");
            assert!(q.low.is_none_or(|low| low <= value), "{metric} {name}");
            assert!(q.high.is_none_or(|high| high >= value), "{metric} {name}");
        }
    }
    assert_eq!(s.metrics, read(&requests(137), Some(IntervalMethod::TimeBlocks)).metrics);
    // Gaps that never differ have no spread, to the last bit.
    let even: Vec<Timeline> = (0..60).map(|i| stream(f64::from(i) * 100.0, 50.0, &[20.0; 9])).collect();
    let s = summary(&even, &SummaryRequest::new(closed()));
    let q = of(&s, "itl", "p50");
    near(q.low, 20.0);
    assert_eq!((q.low, q.high), (q.value, q.value));
}

#[test]
fn a_verdict_on_gaps_has_the_interval_of_the_gaps() {
    let requests = requests(200);
    let verdict = |intervals| {
        let slo = Slo::parse("itl.p50:21.5ms").expect("valid");
        let request = SummaryRequest { slo: Some(&slo), intervals, ..SummaryRequest::new(open()) };
        summary(&requests, &request).goodput.expect("an SLO").verdicts[0].clone()
    };
    let (dependent, independent) = (verdict(None), verdict(Some(IntervalMethod::OrderStatistics)));
    assert_eq!(dependent.value, independent.value);
    assert!(dependent.low < independent.low && independent.high < dependent.high);
    assert_eq!((dependent.verdict.as_str(), independent.verdict.as_str()), ("undecided", "pass"));
}
