//! From timelines to numbers.

use crate::Task;
use crate::inputs;
use goodput_core::load_check::LoadContext;
use goodput_core::plan::Protocol;
use goodput_core::rng::Seed;
use goodput_core::ruler::CANONICAL;
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_stats::{Method, Samples};
use std::hint::black_box;

/// Requests of one run.
const REQUESTS: usize = 200;
/// Samples of one run: gaps between chunks, nearly all different.
const SAMPLES: usize = 100_000;

/// A multiset of samples that grows, is sorted and asked for three percentiles.
pub(crate) fn samples_push_freeze() -> Task {
    let stream = Seed(1).stream("micro/samples");
    let values: Vec<f64> = (0..SAMPLES as u64).map(|i| 10.0 + stream.at(i).exponential()).collect();
    Task::new("sample", SAMPLES, move || {
        let mut samples = Samples::new();
        values.iter().for_each(|&value| samples.push(black_box(value)));
        let sorted = samples.freeze();
        for level in [0.5, 0.95, 0.99] {
            black_box(sorted.quantile(level, Method::Linear));
        }
    })
}

/// The canonical ruler on each request: TTFT, ITL, TPOT and the rest.
pub(crate) fn ruler_measure() -> Task {
    let timelines = inputs::timelines(REQUESTS);
    let chunks = timelines.iter().map(|timeline| timeline.chunks.len()).sum();
    Task::new("chunk", chunks, move || {
        for timeline in &timelines {
            black_box(CANONICAL.measure(black_box(timeline), Protocol::OpenaiChat));
        }
    })
}

/// The whole summary: both passes, all pools, all intervals.
pub(crate) fn summarise_run() -> Task {
    let timelines = inputs::timelines(REQUESTS);
    let chunks = timelines.iter().map(|timeline| timeline.chunks.len()).sum();
    let plan = inputs::plan(REQUESTS, Some(64));
    Task::new("chunk", chunks, move || {
        let request = SummaryRequest::new(LoadContext::from_plan(&plan));
        drop(black_box(summarise(black_box(&timelines), &request)));
    })
}
