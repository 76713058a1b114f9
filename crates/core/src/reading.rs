//! What this client can have added to the figures by how it read.
//!
//! With a kernel stamp an event's arrival does not depend on when it was read, so a busy client adds nothing. Two kinds
//! of events have no stamp of their own: those that are not the last of their read, and all of them where the kernel
//! gives none. By how much each can have come earlier than recorded is on record,
//! [`Chunk::early_ns`](crate::timeline::Chunk::early_ns), as the receive thread knew it; here it is only collected. A
//! latency is wrong by at most the error of its end, a gap by the larger one of its two ends.

use crate::ruler::{EventRule, Measures};
use crate::summary::{ErrorBound, Lateness};
use crate::time::Nanos;
use crate::timeline::{ChunkFlags, Timeline};
use goodput_stats::quantile::portion;
use goodput_stats::{Method, Samples};

/// Different values kept exactly; beyond, a lateness is known to better than 0.1 %.
const DISTINCT: usize = 1 << 16;
/// Nanoseconds below which a lateness is counted by the nanosecond.
const PROMPT: usize = 1 << 16;
/// The level at which errors are given.
const LEVEL: f64 = 0.99;

/// Lateness in reading, over the requests of a window.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Of every event that the kernel stamped.
    lateness: Samples,
    /// The same for those below [`PROMPT`], by nanosecond: nearly all are, and counting is cheaper than looking up.
    prompt: Vec<u64>,
    /// What reading can have added to TTFT.
    ttft_read: Errors,
    /// What reading and sending can have added to TTFT.
    ttft: Errors,
    /// What reading can have added to the gap between successive token events.
    gap: Errors,
}

impl Reading {
    pub(crate) fn new() -> Self {
        Self {
            lateness: Samples::with_distinct_limit(DISTINCT),
            prompt: vec![0; PROMPT],
            ttft_read: Errors::new(),
            ttft: Errors::new(),
            gap: Errors::new(),
        }
    }

    /// Adds a request. `sent_late` is the client's own lateness in sending as far as it is in the ruler's TTFT.
    pub(crate) fn add(&mut self, t: &Timeline, m: &Measures, rule: &EventRule, sent_late: Nanos) {
        let stamped = t.chunks.iter().filter(|chunk| chunk.flags.has(ChunkFlags::KERNEL_STAMP));
        stamped.for_each(|chunk| match self.prompt.get_mut(chunk.late_ns as usize) {
            Some(count) => *count += 1,
            None => self.lateness.push(Nanos(chunk.late_ns.into()).as_millis_f64()),
        });
        if !m.success || m.whole {
            return;
        }
        let mut before: Option<Error> = None;
        for chunk in t.chunks.iter().filter(|chunk| rule.admits(chunk)) {
            let error = chunk.early();
            if let Some(before) = before.replace(error) {
                self.gap.add(before.zip(error).map(|(a, b)| a.max(b)));
            } else {
                self.ttft_read.add(error);
                self.ttft.add(error.map(|early| early + sent_late));
            }
        }
    }

    /// Adds what was seen in another part of the run.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.lateness.merge(&other.lateness);
        self.prompt.iter_mut().zip(&other.prompt).for_each(|(count, more)| *count += more);
        self.ttft_read.merge(&other.ttft_read);
        self.ttft.merge(&other.ttft);
        self.gap.merge(&other.gap);
    }

    pub(crate) fn finish(mut self) -> ReadingReport {
        for (ns, count) in (0..).zip(&self.prompt) {
            self.lateness.push_n(Nanos(ns).as_millis_f64(), *count);
        }
        let sorted = (!self.lateness.is_empty()).then(|| self.lateness.freeze());
        let lateness = sorted.map(|sorted| {
            let at = |level| sorted.quantile(level, Method::Linear).unwrap_or_default();
            Lateness { p50: at(0.5), p99: at(0.99), max: at(1.0) }
        });
        let ttft_unknown = self.ttft.why_unknown("no answer has a first token", "first tokens");
        let itl_unknown = self.gap.why_unknown("no answer has two token events", "gaps between tokens");
        let gap_ms = self.gap.p99();
        ReadingReport {
            lateness,
            ttft_ms: self.ttft_read.p99(),
            gap_ms,
            bound: ErrorBound { ttft_p99: self.ttft.p99(), itl_p99: gap_ms, ttft_unknown, itl_unknown },
        }
    }
}

/// The answers of a [`Reading`], in milliseconds at p99; `None` where unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadingReport {
    pub(crate) lateness: Option<Lateness>,
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) gap_ms: Option<f64>,
    pub(crate) bound: ErrorBound,
}

/// What the client can have added to one figure; `None` if nothing tells.
type Error = Option<Nanos>;

/// A multiset of errors. Most are zero, so those are only counted.
#[derive(Debug, Clone)]
struct Errors {
    none: u64,
    some: Samples,
    unknown: u64,
}

impl Errors {
    fn new() -> Self {
        Self { none: 0, some: Samples::with_distinct_limit(DISTINCT), unknown: 0 }
    }

    fn merge(&mut self, other: &Self) {
        self.none += other.none;
        self.some.merge(&other.some);
        self.unknown += other.unknown;
    }

    fn add(&mut self, error: Error) {
        match error {
            None => self.unknown += 1,
            Some(Nanos::ZERO) => self.none += 1,
            Some(early) => self.some.push(early.as_millis_f64()),
        }
    }

    fn n(&self) -> u64 {
        self.none + self.some.n() + self.unknown
    }

    /// Of the p99 by inverse CDF, from the least error up.
    fn rank(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank between 0 and n")]
        let rank = portion(self.n(), LEVEL).ceil() as u64;
        rank
    }

    /// Why there is no p99, if there is none; `none` where there is nothing to be late for.
    fn why_unknown(&self, none: &str, what: &str) -> Option<String> {
        let (n, unknown) = (self.n(), self.unknown);
        if n == 0 {
            return Some(none.to_owned());
        }
        (self.rank() > n - unknown)
            .then(|| format!("{unknown} of {n} {what} came at a time that nothing bounds from below"))
    }

    /// An unknown error is larger than any other.
    fn p99(mut self) -> Option<f64> {
        let rank = self.rank();
        self.some.push_n(0.0, self.none);
        self.some.freeze().order_statistic(rank)
    }
}
