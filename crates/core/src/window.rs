//! What part of the run the figures cover: the whole of it, or its steady state.
//!
//! A measured request belongs to a window by its start. Nothing is dropped silently: the summary gives both
//! windows with the number of requests in each and how it was found.
//!
//! # Rules
//! - **Whole**: from the first start to the last completion of the measured set.
//! - **Steady, open loop and trace**: the start is the first request after MSER-5's truncation point of the series
//!   of TTFT (E2E where nothing was streamed) in the order of start; the end is the last arrival, so that the
//!   drain, in which load falls, is out. A warm-up chosen by hand replaces MSER-5.
//! - **Steady, closed loop**: the plateau: from the first to the last instant at which at least 95 % of the slots
//!   were taken.
//!
//! Sources: White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
//! (1997), and White, Cobb and Spratt (2000) for MSER-5.

use crate::concurrency::InFlight;
use crate::facts::Fact;
use crate::load_check::{LoadContext, LoadKind};
use crate::ruler::{DurationRule, Ruler};
use crate::summary::Window;
use crate::time::Nanos;
use goodput_stats::batch::{Truncation, mser5};
use serde::{Deserialize, Serialize};

/// Share of the slots that must be taken on the plateau of a closed loop.
const PLATEAU: f64 = 0.95;

/// Which part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// All of the measured set.
    #[default]
    Whole,
    /// Without warm-up and drain.
    Steady,
}

impl WindowKind {
    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Steady => "steady",
        }
    }
}

/// Why there is no steady window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSteady {
    /// MSER-5 would cut more than half.
    #[error("no steady state: latency was still changing in the second half of the run")]
    NotSettled,
    /// Too short a series for MSER-5.
    #[error("{requests} answers are too few to find a steady state (50 are needed)")]
    TooFew {
        /// Length of the series.
        requests: usize,
    },
    /// The window would have no length.
    #[error("all requests started at one instant: there is no steady state")]
    OneInstant,
    /// A closed loop that never had its slots taken.
    #[error("no plateau: {level} of {slots} slots were never taken at the same time")]
    NoPlateau {
        /// Slots that must be taken.
        level: u64,
        /// Slots there are.
        slots: u64,
    },
}

/// A window that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) kind: WindowKind,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) how: String,
}

impl Span {
    /// Whether a request that starts at `start` belongs to the window.
    pub(crate) fn holds(&self, start: Nanos) -> bool {
        match self.kind {
            WindowKind::Whole => true,
            // Half-open, so that n arrivals over a span count n - 1 gaps' worth of requests.
            WindowKind::Steady => self.start <= start && start < self.end,
        }
    }

    /// Whether work that is finished at `at` was done in the window.
    pub(crate) fn completes(&self, at: Nanos) -> bool {
        match self.kind {
            WindowKind::Whole => true,
            WindowKind::Steady => self.start < at && at <= self.end,
        }
    }

    /// Seconds; `None` for an empty window.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (self.end > self.start).then(|| self.end.since(self.start).as_secs_f64())
    }

    pub(crate) fn report(&self, facts: &[Fact]) -> Window {
        Window {
            kind: self.kind.name().into(),
            start_s: self.start.as_secs_f64(),
            end_s: self.end.as_secs_f64(),
            duration_s: self.end.since(self.start).as_secs_f64(),
            requests: facts.iter().filter(|f| self.holds(f.start)).count() as u64,
            how: self.how.clone(),
        }
    }
}

/// The whole window.
pub(crate) fn whole(facts: &[Fact], ruler: &Ruler, load: &LoadContext) -> Span {
    let first = facts.iter().map(|f| f.start).min().unwrap_or_default();
    let end = facts.iter().map(|f| f.end).max().unwrap_or_default();
    let (start, how) = match ruler.duration {
        DurationRule::OfferToCompletion => (
            load.offering_began.map_or(first, |began| began.min(first)),
            "from when load began to be offered to the last completion",
        ),
        DurationRule::StartToCompletion => (first, "first start to last completion of the measured set"),
    };
    Span { kind: WindowKind::Whole, start, end: end.max(start), how: how.into() }
}

/// The steady window, or why there is none.
pub(crate) fn steady(facts: &[Fact], load: &LoadContext, warmup_by_hand: bool) -> Result<Span, NoSteady> {
    match load.kind {
        LoadKind::Closed => plateau(facts, load),
        LoadKind::Open | LoadKind::Trace => after_warmup(facts, warmup_by_hand),
    }
}

fn after_warmup(facts: &[Fact], warmup_by_hand: bool) -> Result<Span, NoSteady> {
    let mut series: Vec<(Nanos, f64)> =
        facts.iter().filter_map(|f| f.settle_ms.map(|ms| (f.start, ms))).collect();
    series.sort_by_key(|(start, _)| *start);
    let values: Vec<f64> = series.iter().map(|(_, ms)| *ms).collect();
    let (cut, how) = if warmup_by_hand {
        (0, "the warm-up was chosen by hand".to_owned())
    } else {
        match mser5(&values) {
            Truncation::From(cut) => {
                (cut, format!("MSER-5 cut the first {cut} of {} requests", values.len()))
            }
            Truncation::NotSettled => {
                return Err(NoSteady::NotSettled);
            }
            Truncation::TooShort => {
                return Err(NoSteady::TooFew { requests: values.len() });
            }
        }
    };
    let start = series.get(cut).map(|(start, _)| *start);
    let end = facts.iter().map(|f| f.start).max();
    match start.zip(end) {
        Some((start, end)) if start < end => {
            let how = format!("{how}; ends at the last arrival, so the drain is out");
            Ok(Span { kind: WindowKind::Steady, start, end, how })
        }
        _ => Err(NoSteady::OneInstant),
    }
}

fn plateau(facts: &[Fact], load: &LoadContext) -> Result<Span, NoSteady> {
    let in_flight = InFlight::of(facts);
    let slots = load.concurrency.map_or(in_flight.peak(), u64::from);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is a count"
    )]
    let level = ((slots as f64 * PLATEAU).ceil() as u64).max(1);
    match in_flight.first_and_last_at_least(level) {
        Some((start, end)) if start < end => {
            let how = format!("the plateau: at least {level} of {slots} slots taken");
            Ok(Span { kind: WindowKind::Steady, start, end, how })
        }
        _ => Err(NoSteady::NoPlateau { level, slots }),
    }
}
