//! The stop rule: what ends offering, what ends waiting, and how many failures are too many.
//!
//! It answers questions and holds no state, so that every loop rule stops by the same words of the plan.

use goodput_core::plan::Stop;
use goodput_core::time::Nanos;

/// The stop rule of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopRule(Stop);

impl StopRule {
    pub(crate) const fn new(stop: Stop) -> Self {
        Self(stop)
    }

    /// Measured requests to offer, if they are counted.
    pub(crate) const fn requests(self) -> Option<u64> {
        self.0.requests
    }

    /// Whether the measured request `index` may still be offered `elapsed` after the measured part began. The end of
    /// a duration belongs to it no more.
    pub(crate) fn admits(self, index: u64, elapsed: Nanos) -> bool {
        !self.counted_out(index) && self.0.duration.is_none_or(|lasts| elapsed < lasts)
    }

    /// Whether `offered` measured requests are all that were asked for.
    pub(crate) fn counted_out(self, offered: u64) -> bool {
        self.0.requests.is_some_and(|count| offered >= count)
    }

    /// When offering ends by time, once it is known when the measured part began.
    pub(crate) fn ends_at(self, measured_from: Option<Nanos>) -> Option<Nanos> {
        Some(measured_from?.saturating_add(self.0.duration?))
    }

    /// When waiting for running requests ends.
    pub(crate) fn drain_ends_at(self, offering_ended: Nanos) -> Option<Nanos> {
        Some(offering_ended.saturating_add(self.0.drain?))
    }

    /// Whether this many failed measured requests are more than the budget.
    pub(crate) fn overspent(self, failed: u64) -> bool {
        self.0.error_budget.is_some_and(|budget| failed > budget)
    }
}
