//! Where a run stands, and how warm-up hands over to the measured set.
//!
//! The handover never drains: the load goes on as it was, only the label of new requests changes. The one exception
//! is a burst (all arrivals at once) without a cap: measuring it on top of the warm-up burst would measure both, so it
//! waits until the warm-up requests have ended.

use goodput_core::plan::Warmup;
use goodput_core::time::Nanos;
use goodput_core::timeline::Phase;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Requests are still being offered.
    Offering,
    /// Nothing new is offered; what runs or waits is given its time.
    Draining {
        /// When offering ended. The drain limit counts from here.
        since: Nanos,
    },
    /// Everything in flight has been told to end.
    Cancelling,
    /// Over.
    Finished,
}

impl Stage {
    /// Whether a request may still be released.
    pub(crate) const fn may_release(self) -> bool {
        matches!(self, Self::Offering | Self::Draining { .. })
    }
}

/// The handover of a closed loop: which phase a request released now belongs to.
#[derive(Debug)]
pub(crate) struct Handover {
    warmup: Warmup,
    begun: Option<Nanos>,
}

impl Handover {
    pub(crate) const fn new(warmup: Warmup) -> Self {
        Self { warmup, begun: None }
    }

    /// The phase of a request released at `now`, after `warmup_released` warm-up requests.
    pub(crate) fn phase(&self, now: Nanos, warmup_released: u64) -> Phase {
        let warming = match self.warmup {
            Warmup::None => false,
            Warmup::Requests(count) => warmup_released < count,
            Warmup::Duration(lasts) => now < lasts,
        };
        if warming { Phase::Warmup } else { Phase::Measured }
    }

    /// Marks the first moment at which a measured request could be released, and returns it.
    pub(crate) fn begin(&mut self, now: Nanos) -> Nanos {
        *self.begun.get_or_insert(now)
    }

    pub(crate) const fn measured_from(&self) -> Option<Nanos> {
        self.begun
    }
}

/// The handover of an open loop: where on the run's clock the measured arrivals begin.
#[derive(Debug)]
pub(crate) enum Gate {
    /// At this instant.
    Open(Nanos),
    /// A burst that follows its warm-up. Without a cap it waits for the last warm-up request to end, with a cap only
    /// for it to be released: then the cap keeps the load as it was.
    Held {
        /// Whether the warm-up requests must have ended.
        until_idle: bool,
    },
}

impl Gate {
    /// Tells the gate that all warm-up requests are released, and whether nothing is in flight any more.
    pub(crate) fn warmup_released(&mut self, now: Nanos, idle: bool) {
        if let Self::Held { until_idle } = *self
            && (idle || !until_idle)
        {
            *self = Self::Open(now);
        }
    }

    pub(crate) const fn measured_from(&self) -> Option<Nanos> {
        match self {
            Self::Open(at) => Some(*at),
            Self::Held { .. } => None,
        }
    }
}
