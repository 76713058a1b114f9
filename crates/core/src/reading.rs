//! What reading late can have added to the figures.
//!
//! With a kernel stamp an event's arrival does not depend on when it was read, so a busy client adds nothing, with one
//! exception: a read has one stamp, that of its newest bytes, and an event that is not the last of its read came
//! earlier than that. Without a kernel stamp the arrival is the read, and nothing tells how long the bytes had waited.
//!
//! By event, then:
//! - stamped, alone in its read or the last one of it: nothing;
//! - stamped, and not the last one of its read: if that read came in time, its lateness. If it did not, this client may
//!   have let bytes pile up, and they may have come any time since the read before;
//! - not stamped: the lateness on record, and unknown where there is none.
//!
//! The second is a bound only as far as a read in time shows that the client was not busy. The lateness on record is
//! that of the newest bytes, so with events less than a millisecond apart a read looks in time even after a long pause
//! of the client. The record cannot tell that from a server that sends several events at once, which is not the
//! client's fault.

use crate::ruler::{EventRule, Measures};
use crate::summary::{ErrorBound, Lateness};
use crate::time::Nanos;
use crate::timeline::{Chunk, ChunkFlags, Timeline};
use goodput_stats::quantile::portion;
use goodput_stats::{Method, Samples};

/// Different values kept exactly; beyond, a lateness is known to better than 0.1 %.
const DISTINCT: usize = 1 << 16;
/// A read within this time of its newest bytes came in time.
const IN_TIME: Nanos = Nanos::from_millis(1);
/// The level at which errors are given.
const LEVEL: f64 = 0.99;

/// Lateness in reading, over the requests of a window.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Of every event for which it is known.
    lateness: Samples,
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
            ttft_read: Errors::new(),
            ttft: Errors::new(),
            gap: Errors::new(),
        }
    }

    /// Adds a request. `sent_late` is the client's own lateness in sending as far as it is in the ruler's TTFT.
    pub(crate) fn add(&mut self, t: &Timeline, m: &Measures, rule: &EventRule, sent_late: Nanos) {
        for chunk in &t.chunks {
            if let Some(late) = known_lateness(chunk) {
                self.lateness.push(late.as_millis_f64());
            }
        }
        if !m.success || m.whole {
            return;
        }
        let mut before: Option<Error> = None;
        let mut read = nothing_yet(t);
        let mut read_before = read;
        for (i, chunk) in t.chunks.iter().enumerate() {
            if !chunk.flags.has(ChunkFlags::SHARED_READ) {
                read_before = read;
            }
            read = chunk.at + Nanos(chunk.late_ns.into());
            if !rule.admits(chunk) {
                continue;
            }
            let error = error_of(chunk, t.chunks.get(i + 1), chunk.at.since(read_before));
            if let Some(before) = before.replace(error) {
                self.gap.add(before.zip(error).map(|(a, b)| a.max(b)));
            } else {
                self.ttft_read.add(error);
                self.ttft.add(error.map(|late| late + sent_late));
            }
        }
    }

    pub(crate) fn finish(self) -> ReadingReport {
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

/// How late an event was read. An unstamped event has its read's instant as arrival, so that a lateness of zero says
/// nothing.
fn known_lateness(chunk: &Chunk) -> Error {
    (chunk.flags.has(ChunkFlags::KERNEL_STAMP) || chunk.late_ns > 0).then(|| Nanos(chunk.late_ns.into()))
}

/// What reading can have added to the arrival of an event that came with or before `next`, at most `window` after the
/// read before.
fn error_of(chunk: &Chunk, next: Option<&Chunk>, window: Nanos) -> Error {
    let late = known_lateness(chunk);
    if !chunk.flags.has(ChunkFlags::KERNEL_STAMP) {
        return late;
    }
    let last_of_its_read = next.is_none_or(|next| !next.flags.has(ChunkFlags::SHARED_READ));
    if last_of_its_read {
        return Some(Nanos::ZERO);
    }
    late.map(|late| if late <= IN_TIME { late.min(window) } else { window })
}

/// The last moment at which no event can have come: the head of the answer, unless that came in one read with the
/// first event, else the request.
fn nothing_yet(t: &Timeline) -> Nanos {
    let i = &t.instants;
    i.headers
        .filter(|head| t.first_event().is_some_and(|first| *head < first))
        .or(i.sent)
        .unwrap_or(i.released)
}

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

    fn add(&mut self, error: Error) {
        match error {
            None => self.unknown += 1,
            Some(Nanos::ZERO) => self.none += 1,
            Some(late) => self.some.push(late.as_millis_f64()),
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
            .then(|| format!("{unknown} of {n} {what} have neither a kernel stamp nor a lateness on record"))
    }

    /// An unknown error is larger than any other.
    fn p99(mut self) -> Option<f64> {
        let rank = self.rank();
        self.some.push_n(0.0, self.none);
        self.some.freeze().order_statistic(rank)
    }
}
