//! The loop rule: what makes the next request due.
//!
//! In an open loop it is the schedule, whatever the server does; in a closed loop it is a free slot. A rule numbers
//! its requests and knows when none is left. It never looks at what runs: the driver asks for the next request only
//! when there is room for one.

use crate::driver::RequestId;
use crate::phase::{Gate, Handover};
use crate::stop::StopRule;
use goodput_core::plan::{Load, RateProfile, Warmup};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_core::timeline::Phase;

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) id: RequestId,
    pub(crate) scheduled: Option<Nanos>,
}

/// The loop rule of a plan.
#[derive(Debug)]
pub(crate) enum LoopRule {
    Open(OpenLoop),
    Closed(ClosedLoop),
}

impl LoopRule {
    pub(crate) fn new(load: &Load, warmup: Warmup, schedule: Schedule, stop: StopRule) -> Self {
        match &load.arrivals {
            Some(arrivals) => {
                let burst = arrivals.rate == RateProfile::Infinite;
                Self::Open(OpenLoop::new(schedule, burst, load.concurrency.is_some(), stop))
            }
            None => Self::Closed(ClosedLoop::new(warmup)),
        }
    }

    /// Notes everything that has become due by `now`. `idle` says that nothing is in flight.
    pub(crate) fn arrive(&mut self, now: Nanos, idle: bool) {
        match self {
            Self::Open(open) => open.arrive(now, idle),
            Self::Closed(_) => {}
        }
    }

    /// Takes the next request that is due at `now`, in order.
    pub(crate) fn take(&mut self, now: Nanos, stop: StopRule) -> Option<Due> {
        match self {
            Self::Open(open) => open.take(),
            Self::Closed(closed) => closed.take(now, stop),
        }
    }

    /// When the schedule makes the next request due.
    pub(crate) fn next_arrival(&self) -> Option<Nanos> {
        match self {
            Self::Open(open) => open.instant(open.arrived),
            Self::Closed(_) => None,
        }
    }

    /// Whether every request has been taken. A duration ends a closed loop without this.
    pub(crate) fn is_exhausted(&self, stop: StopRule) -> bool {
        match self {
            Self::Open(open) => open.taken == open.total(),
            Self::Closed(closed) => stop.counted_out(closed.measured),
        }
    }

    /// Requests that are due and not taken.
    pub(crate) fn waiting(&self) -> u64 {
        match self {
            Self::Open(open) => (open.arrived - open.taken) as u64,
            Self::Closed(_) => 0,
        }
    }

    /// Measured requests that have become due.
    pub(crate) fn offered(&self) -> u64 {
        match self {
            Self::Open(open) => open.arrived.saturating_sub(open.schedule.warmup.len()) as u64,
            Self::Closed(closed) => closed.measured,
        }
    }

    /// Measured requests that will be offered if nothing ends the run early; `None` if time decides.
    pub(crate) fn planned(&self, stop: StopRule) -> Option<u64> {
        match self {
            Self::Open(open) => Some(open.schedule.measured.len() as u64),
            Self::Closed(_) => stop.requests(),
        }
    }

    /// When the measured part began or will begin, once that is known.
    pub(crate) fn measured_from(&self) -> Option<Nanos> {
        match self {
            Self::Open(open) => open.gate.measured_from(),
            Self::Closed(closed) => closed.handover.measured_from(),
        }
    }
}

/// Arrivals on an absolute schedule: warm-up first, then the measured ones, as one sequence. Those that are due and
/// not yet taken wait in order; nothing drops out of the sequence.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    schedule: Schedule,
    gate: Gate,
    /// How many of the sequence have become due.
    arrived: usize,
    /// How many of the sequence have been taken.
    taken: usize,
}

impl OpenLoop {
    fn new(mut schedule: Schedule, burst: bool, capped: bool, stop: StopRule) -> Self {
        assert_eq!(schedule.check_order(), Ok(()), "a schedule is in order");
        let from = schedule.measured_from;
        let admitted = schedule
            .measured
            .iter()
            .zip(0..)
            .take_while(|(at, index)| stop.admits(*index, **at - from))
            .count();
        schedule.measured.truncate(admitted);
        let gate = if burst && !schedule.warmup.is_empty() {
            Gate::Held { until_idle: !capped }
        } else {
            Gate::Open(from)
        };
        Self { schedule, gate, arrived: 0, taken: 0 }
    }

    fn total(&self) -> usize {
        self.schedule.warmup.len() + self.schedule.measured.len()
    }

    /// The instant of the arrival at `position` of the sequence; `None` past its end or behind a closed gate.
    fn instant(&self, position: usize) -> Option<Nanos> {
        match position.checked_sub(self.schedule.warmup.len()) {
            None => Some(self.schedule.warmup[position]),
            Some(index) => {
                let offset = *self.schedule.measured.get(index)? - self.schedule.measured_from;
                Some(self.gate.measured_from()?.saturating_add(offset))
            }
        }
    }

    fn arrive(&mut self, now: Nanos, idle: bool) {
        if self.taken >= self.schedule.warmup.len() {
            self.gate.warmup_released(now, idle);
        }
        while self.instant(self.arrived).is_some_and(|at| at <= now) {
            self.arrived += 1;
        }
    }

    fn take(&mut self) -> Option<Due> {
        if self.taken == self.arrived {
            return None;
        }
        let position = self.taken;
        self.taken += 1;
        let scheduled = self.instant(position);
        let id = match position.checked_sub(self.schedule.warmup.len()) {
            None => RequestId { phase: Phase::Warmup, index: position as u64 },
            Some(index) => RequestId { phase: Phase::Measured, index: index as u64 },
        };
        Some(Due { id, scheduled })
    }
}

/// Slots that are filled again at once.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    handover: Handover,
    /// Warm-up requests taken.
    warmup: u64,
    /// Measured requests taken.
    measured: u64,
}

impl ClosedLoop {
    const fn new(warmup: Warmup) -> Self {
        Self { handover: Handover::new(warmup), warmup: 0, measured: 0 }
    }

    fn take(&mut self, now: Nanos, stop: StopRule) -> Option<Due> {
        let phase = self.handover.phase(now, self.warmup);
        let taken = match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measured => {
                let from = self.handover.begin(now);
                if !stop.admits(self.measured, now - from) {
                    return None;
                }
                &mut self.measured
            }
        };
        let index = *taken;
        *taken += 1;
        Some(Due { id: RequestId { phase, index }, scheduled: None })
    }
}
