//! Open loops: whether arrivals leave when they are due.

use super::bench::{Answers, Bench};
use super::report::Pacing;
use super::verdict::judge_pacing;
use crate::exit::Failure;
use goodput_core::time::Nanos;

/// Short answers, so that it is the arrivals that make the load.
const ANSWERS: Answers = Answers { ttft: Nanos::from_millis(20), itl: Nanos::from_millis(5), tokens: 4 };

/// Poisson arrivals at `rate` per second for `duration`.
pub(super) fn measure(bench: &Bench, rate: f64, duration: Nanos) -> Result<Pacing, Failure> {
    let summary = bench.measure(ANSWERS, &format!("--rate {rate}"), duration)?.summary;
    let (load, counts) = (summary.load, summary.counts);
    Ok(judge_pacing(Pacing {
        asked_rps: rate,
        scheduled_rps: load.scheduled_rps,
        sent_rps: load.offered_rps,
        scheduled: counts.issued + counts.never_released,
        sent: counts.issued - counts.outcomes.get("connect").copied().unwrap_or(0),
        late_ms: load.lateness_ms,
        gaps: load.gaps.map(|gaps| gaps.verdict),
        good: false,
        reasons: Vec::new(),
    }))
}
