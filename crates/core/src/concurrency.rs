//! Requests in flight, by an event sweep.
//!
//! A request is in flight over the half-open interval from `sent` to the end of its body, so a departure comes
//! before an arrival at the same instant and strictly sequential requests peak at 1. What a request waits inside
//! this client is not in flight: the server does not see it.
//!
//! Source: Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961).

use crate::facts::Fact;
use crate::ruler::{PeakConcurrencyRule, Ruler};
use crate::summary::Concurrency;
use crate::time::Nanos;
use crate::window::Span;

/// The step function of requests in flight.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    /// Instants at which it changes, ascending, each with the number in flight from then on.
    steps: Vec<(Nanos, u64)>,
}

impl InFlight {
    /// From the requests that were sent.
    pub(crate) fn of(facts: &[Fact]) -> Self {
        let busy =
            facts.iter().filter_map(|f| f.sent.map(|sent| (sent, f.end))).filter(|(from, to)| from < to);
        let mut events: Vec<(Nanos, i64)> = busy.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
        events.sort_unstable();
        let mut steps: Vec<(Nanos, u64)> = Vec::new();
        let mut level = 0_i64;
        for (at, change) in events {
            level += change;
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = level.unsigned_abs(),
                _ => steps.push((at, level.unsigned_abs())),
            }
        }
        Self { steps }
    }

    /// The largest number in flight.
    pub(crate) fn peak(&self) -> u64 {
        self.steps.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// The pieces between changes, clipped to a window: (length in nanoseconds, level).
    fn pieces(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (u64, u64)> {
        self.steps.windows(2).filter_map(move |pair| {
            let (from, to) = (pair[0].0.max(start), pair[1].0.min(end));
            (from < to).then(|| (to.since(from).0, pair[0].1))
        })
    }

    /// The largest number in flight within a window.
    pub(crate) fn peak_within(&self, start: Nanos, end: Nanos) -> u64 {
        self.pieces(start, end).map(|(_, level)| level).max().unwrap_or(0)
    }

    /// The time integral over a window, in request-seconds.
    pub(crate) fn integral(&self, start: Nanos, end: Nanos) -> f64 {
        let nanos: u128 =
            self.pieces(start, end).map(|(length, level)| u128::from(length) * u128::from(level)).sum();
        nanos as f64 / 1e9
    }

    /// The first instant at which at least `level` were in flight, and the last at which they still were.
    pub(crate) fn first_and_last_at_least(&self, level: u64) -> Option<(Nanos, Nanos)> {
        let first = self.steps.iter().position(|(_, l)| *l >= level)?;
        let last = self.steps.iter().rposition(|(_, l)| *l >= level)?;
        // The step function ends at zero, so there is a change after the last piece.
        self.steps.get(last + 1).map(|(end, _)| (self.steps[first].0, *end))
    }
}

/// Concurrency of the window: mean by integrating the step function, peak by the ruler's rule, and Little's law
/// from independent counts.
pub(crate) fn report(facts: &[Fact], span: &Span, ruler: &Ruler) -> Concurrency {
    let in_flight = InFlight::of(facts);
    let mean = span.seconds().map(|s| in_flight.integral(span.start, span.end) / s);
    let peak = match ruler.peak_concurrency {
        PeakConcurrencyRule::Events => in_flight.peak_within(span.start, span.end),
        PeakConcurrencyRule::SecondBins => second_bins(facts),
    };
    Concurrency { mean, peak, little_ratio: little_ratio(facts, span, mean) }
}

/// lambda * W / L: arrivals per second in the window, times the mean time in flight of those requests, over the
/// integral. 1 over the whole run, where nothing is cut; off 1 where the window's edges matter.
fn little_ratio(facts: &[Fact], span: &Span, mean: Option<f64>) -> Option<f64> {
    let seconds = span.seconds()?;
    let residence: Vec<f64> = facts
        .iter()
        .filter(|f| span.holds(f.start))
        .filter_map(|f| f.sent.map(|sent| f.end.since(sent).as_secs_f64()))
        .collect();
    let n = residence.len() as f64;
    let (lambda, w) = (n / seconds, residence.iter().sum::<f64>() / n);
    mean.filter(|l| *l > 0.0 && n > 0.0).map(|l| lambda * w / l)
}

/// What vLLM's and SGLang's clients print: the most successful requests that touch one whole second, counted from
/// the first start.
fn second_bins(facts: &[Fact]) -> u64 {
    let ok = || facts.iter().filter(|f| f.success);
    let Some(first) = ok().map(|f| f.start).min() else { return 0 };
    let second = |at: Nanos| at.since(first).0 / 1_000_000_000;
    let mut changes: Vec<(u64, i64)> =
        ok().flat_map(|f| [(second(f.start), 1), (second(f.e2e_end.unwrap_or(f.start)) + 1, -1)]).collect();
    changes.sort_unstable();
    let (mut level, mut peak) = (0_i64, 0_i64);
    for (_, change) in changes {
        level += change;
        peak = peak.max(level);
    }
    peak.unsigned_abs()
}
