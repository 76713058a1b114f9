//! Rates: the four throughputs and the peak output rate.
//!
//! Token counts, never chunks. A rate counts work by when it was completed: over the whole run that is every
//! successful request; over a steady window those whose body ended inside it, whenever they started, because above
//! capacity the arrivals of a window say nothing about what the server gets done.

use crate::facts::Fact;
use crate::plan::Protocol;
use crate::ruler::{Measures, PeakOutputRule, Ruler};
use crate::summary::Throughput;
use crate::time::Nanos;
use crate::timeline::Timeline;
use crate::window::Span;

/// Most bins kept, so that a run of days stays in memory.
const MOST_BINS: u64 = 4_000_000;
const SECOND: u64 = 1_000_000_000;

/// The four throughputs over a window.
pub(crate) fn report(facts: &[Fact], span: &Span, peak: Option<f64>) -> Throughput {
    let (mut requests, mut input, mut output) = (0_u64, 0_u64, 0_u64);
    for f in facts.iter().filter(|f| f.success && span.completes(f.end)) {
        requests += 1;
        input += f.input_tokens;
        output += f.output_tokens;
    }
    let per_second = |n: u64| span.seconds().map(|s| n as f64 / s);
    Throughput {
        requests_per_s: per_second(requests),
        input_tokens_per_s: per_second(input),
        output_tokens_per_s: per_second(output),
        total_tokens_per_s: per_second(input + output),
        peak_output_tokens_per_s: peak,
    }
}

/// Output over time, in bins.
///
/// [`PeakOutputRule::SlidingTokens`] slides a second in steps of one bin: 1 ms, and coarser only for runs of more
/// than about an hour. The other rules use whole seconds.
#[derive(Debug, Clone)]
pub(crate) struct PeakOutput {
    rule: PeakOutputRule,
    start: Nanos,
    end: Nanos,
    width: u64,
    bins: Vec<u64>,
}

impl PeakOutput {
    pub(crate) fn new(ruler: &Ruler, span: &Span, facts: &[Fact]) -> Self {
        let length = span.end.since(span.start).0;
        let (start, width) = match ruler.peak_output {
            PeakOutputRule::SlidingTokens => (span.start, sliding_width(length)),
            PeakOutputRule::BinnedEvents | PeakOutputRule::BinnedItlSamples => {
                (facts.iter().filter(|f| f.success).map(|f| f.start).min().unwrap_or(span.start), SECOND)
            }
        };
        Self { rule: ruler.peak_output, start, end: span.end, width, bins: Vec::new() }
    }

    /// Adds a successful request.
    pub(crate) fn add(&mut self, ruler: &Ruler, t: &Timeline, protocol: Protocol, m: &Measures) {
        match self.rule {
            PeakOutputRule::SlidingTokens => {
                ruler.each_event(t, protocol, |_, chunk| self.put(chunk.at, u64::from(chunk.tokens)));
            }
            PeakOutputRule::BinnedEvents => ruler.each_event(t, protocol, |_, chunk| self.put(chunk.at, 1)),
            PeakOutputRule::BinnedItlSamples => {
                let Some(first) = m.first_token else { return };
                self.put(first, 1);
                let mut ms = first.as_millis_f64();
                ruler.each_itl(t, protocol, |gap, n| {
                    for _ in 0..n {
                        ms += gap;
                        self.put(Nanos::from_secs_f64(ms / 1e3), 1);
                    }
                });
            }
        }
    }

    /// Adds what was put out in another part of the run, under the same rule and over the same window.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| *bin += more);
    }

    fn put(&mut self, at: Nanos, tokens: u64) {
        if at < self.start || at > self.end || tokens == 0 {
            return;
        }
        let Ok(bin) = usize::try_from((at.0 - self.start.0) / self.width) else { return };
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += tokens;
    }

    /// Most per second; `None` where nothing came.
    pub(crate) fn peak(&self) -> Option<f64> {
        let wide = usize::try_from(SECOND / self.width).unwrap_or(1).max(1);
        let mut sum = 0_u64;
        let mut peak = 0_u64;
        for (i, tokens) in self.bins.iter().enumerate() {
            sum += tokens;
            if i >= wide {
                sum -= self.bins[i - wide];
            }
            peak = peak.max(sum);
        }
        (peak > 0).then_some(peak as f64)
    }
}

/// A width that divides the second and keeps the number of bins bounded.
fn sliding_width(length: u64) -> u64 {
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        .into_iter()
        .map(|ms| ms * 1_000_000)
        .find(|width| length / width < MOST_BINS)
        .unwrap_or(SECOND)
}
