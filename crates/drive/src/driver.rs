//! The load driver: a state machine from (time, event) to actions.
//!
//! It combines three rules that do not know each other: the loop rule (what is due), the stop rule (when offering
//! ends) and the handover from warm-up to the measured set. It never sends anything, never measures a latency and never
//! looks at a clock. Time zero of the run is the instant at which the load begins.
//!
//! How the rules meet:
//!
//! - Open loop: each arrival is released at its scheduled instant. If the machine is called late, all overdue arrivals
//!   are released at once, in order, and keep their scheduled instants.
//! - With a cap, arrivals beyond it wait in order and keep their scheduled instants. The end of a duration does not send
//!   them away: they arrived while load was offered, so they stay waiting during the drain and are released if a slot
//!   frees. Those that the drain limit (or an interrupt, or the error budget) leaves behind are counted in
//!   [`Progress::never_released`].
//! - Closed loop: every slot is filled at once, at the start and whenever a request ends. The measured part begins with
//!   the first measured release.
//! - Warm-up is handed over without draining. A burst (`inf`) of measured arrivals begins when the last warm-up request
//!   has been released, or without a cap, when the last one has ended; its arrivals are scheduled at that instant.
//! - The drain limit counts from the end of the duration, or from the release of the last request if that is earlier.
//!   It is acted on by [`Event::Tick`] alone, so that everything that ended at the same instant is heard first.

use crate::loop_rule::LoopRule;
use crate::phase::Stage;
use crate::stop::StopRule;
use goodput_core::outcome::{CancelCause, Outcome};
use goodput_core::plan::{Load, Stop, Warmup};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_core::timeline::Phase;
use std::collections::HashSet;

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverConfig {
    /// When requests start.
    pub load: Load,
    /// When offering stops.
    pub stop: Stop,
    /// Requests before the measured set. In an open loop the schedule has them already and this is not looked at.
    pub warmup: Warmup,
    /// The instants of an open loop; not looked at in a closed one.
    pub schedule: Schedule,
}

/// Names a request of the run. Each phase counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Position within the phase, in order of release.
    pub index: u64,
}

/// What the driver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Time has passed, at least to [`Driver::next_wakeup`]. The first tick starts the load.
    Tick,
    /// A request has ended, in whatever way. See [`Event::ended`].
    Ended {
        /// Which one.
        id: RequestId,
        /// Whether it counts against the error budget.
        failed: bool,
    },
    /// The user wants to stop (Ctrl-C). The first cancels what runs, a second finishes at once.
    Interrupt,
    /// The run cannot go on (its record cannot be written, say). Cancels what runs as the run's own end.
    Fatal,
}

impl Event {
    /// The end of a request. Everything but a good answer counts against the error budget, except what this program
    /// cancelled itself.
    #[must_use]
    pub const fn ended(id: RequestId, outcome: &Outcome) -> Self {
        Self::Ended { id, failed: !outcome.is_ok() && !outcome.is_censored() }
    }
}

/// What the loop around the driver has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send this request now.
    Release {
        /// Which one.
        id: RequestId,
        /// When the schedule wanted it; `None` in a closed loop.
        scheduled: Option<Nanos>,
    },
    /// End every request in flight, and report each with [`Event::Ended`] as usual.
    CancelAll {
        /// Why.
        cause: CancelCause,
    },
    /// The run is over. Comes exactly once, last.
    Finished,
}

/// How far a run is. Counts are of measured requests unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Where the run stands.
    pub stage: Stage,
    /// Phase of the request released last; warm-up before any if there is one.
    pub phase: Phase,
    /// Requests that have become due. In a closed loop the same as `released`.
    pub offered: u64,
    /// Requests that have been released.
    pub released: u64,
    /// Requests that have ended.
    pub ended: u64,
    /// Ended requests that count against the error budget.
    pub failed: u64,
    /// Warm-up requests released.
    pub warmup_released: u64,
    /// Warm-up requests ended.
    pub warmup_ended: u64,
    /// Requests of both phases that are running.
    pub in_flight: u64,
    /// Requests of both phases that are due and wait for a slot.
    pub waiting: u64,
    /// Requests that became due and will not be sent any more because the run was ended first. Together with
    /// `released` they are all that were offered.
    pub never_released: u64,
    /// Requests that will be offered if nothing ends the run early. `None` if only time decides.
    pub planned_requests: Option<u64>,
    /// When offering ends by time, once that is known.
    pub ends_at: Option<Nanos>,
    /// Why requests were cancelled, or offering broken off; `None` in a run that went to its end.
    pub cut_by: Option<CancelCause>,
}

/// Requests of one phase.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    released: u64,
    ended: u64,
    failed: u64,
}

/// The load driver. See the module's text for its rules.
#[derive(Debug)]
pub struct Driver {
    rule: LoopRule,
    stop: StopRule,
    slots: Option<usize>,
    stage: Stage,
    /// Phase of the newest release.
    phase: Phase,
    /// Time of the newest event.
    clock: Option<Nanos>,
    in_flight: HashSet<RequestId>,
    warmup: Counts,
    measured: Counts,
    interrupted: bool,
    cut_by: Option<CancelCause>,
}

impl Driver {
    /// A driver that has not begun.
    ///
    /// # Panics
    /// If the load has neither arrivals nor slots, has zero slots, or its schedule is out of order: a plan is checked
    /// before it gets here.
    #[must_use]
    pub fn new(config: DriverConfig) -> Self {
        let DriverConfig { load, stop, warmup, schedule } = config;
        assert!(load.arrivals.is_some() || load.concurrency.is_some(), "a load has arrivals or slots");
        assert_ne!(load.concurrency, Some(0), "at least one slot is needed to send anything");
        let stop = StopRule::new(stop);
        let warms_up = match &load.arrivals {
            Some(_) => !schedule.warmup.is_empty(),
            None => !matches!(warmup, Warmup::None | Warmup::Requests(0)),
        };
        Self {
            slots: load.concurrency.map(|slots| slots as usize),
            rule: LoopRule::new(&load, warmup, schedule, stop),
            stop,
            stage: Stage::Offering,
            phase: if warms_up { Phase::Warmup } else { Phase::Measured },
            clock: None,
            in_flight: HashSet::new(),
            warmup: Counts::default(),
            measured: Counts::default(),
            interrupted: false,
            cut_by: None,
        }
    }

    /// Takes one event at `now` and appends what is to be done. All that is due is released in one call.
    ///
    /// # Panics
    /// If time goes back, or a request ends that is not in flight: errors of the surrounding loop.
    pub fn on(&mut self, now: Nanos, event: Event, actions: &mut Vec<Action>) {
        let earlier = self.clock.replace(now);
        assert!(
            earlier.is_none_or(|earlier| earlier <= now),
            "time never goes back: {now} after {earlier:?}"
        );
        match event {
            Event::Tick => {}
            Event::Ended { id, failed } => self.ended(id, failed, actions),
            Event::Interrupt => self.interrupt(actions),
            Event::Fatal => self.cancel(CancelCause::RunEnd, actions),
        }
        if self.stage.may_release() {
            self.offer(now, actions);
            self.end_offering(now);
        }
        if event == Event::Tick
            && self.drain_ends_at().is_some_and(|limit| limit <= now)
            && !self.is_drained()
        {
            self.cancel(CancelCause::RunEnd, actions);
        }
        if self.is_drained() {
            self.finish(actions);
        }
    }

    /// When the next thing is due by time: an arrival, the end of the duration, the end of the drain. `None` if only
    /// events matter. Zero before the first tick.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        if self.clock.is_none() {
            return Some(Nanos::ZERO);
        }
        match self.stage {
            Stage::Offering => [self.rule.next_arrival(), self.ends_at()].into_iter().flatten().min(),
            Stage::Draining { .. } => self.drain_ends_at(),
            Stage::Cancelling | Stage::Finished => None,
        }
    }

    /// How far the run is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let waiting = if self.stage.may_release() { self.rule.waiting() } else { 0 };
        let offered = self.rule.offered();
        let never_released = if self.stage.may_release() { 0 } else { offered - self.measured.released };
        Progress {
            stage: self.stage,
            phase: self.phase,
            offered,
            released: self.measured.released,
            ended: self.measured.ended,
            failed: self.measured.failed,
            warmup_released: self.warmup.released,
            warmup_ended: self.warmup.ended,
            in_flight: self.in_flight.len() as u64,
            waiting,
            never_released,
            planned_requests: self.rule.planned(self.stop),
            ends_at: self.ends_at(),
            cut_by: self.cut_by,
        }
    }

    /// When the measured part began or will begin: the schedule's own instant in an open loop, the first measured
    /// release in a closed one. `None` while it is not known.
    #[must_use]
    pub fn measured_from(&self) -> Option<Nanos> {
        self.rule.measured_from()
    }

    fn ends_at(&self) -> Option<Nanos> {
        self.stop.ends_at(self.rule.measured_from())
    }

    fn drain_ends_at(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Draining { since } => self.stop.drain_ends_at(since),
            Stage::Offering | Stage::Cancelling | Stage::Finished => None,
        }
    }

    /// Whether nothing is left to run although the run is not yet finished. Nothing waits then either: a request waits
    /// only while every slot is taken.
    fn is_drained(&self) -> bool {
        matches!(self.stage, Stage::Draining { .. } | Stage::Cancelling) && self.in_flight.is_empty()
    }

    fn counts(&mut self, phase: Phase) -> &mut Counts {
        match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measured => &mut self.measured,
        }
    }

    /// Releases what is due, as far as there are slots.
    fn offer(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        self.rule.arrive(now, self.in_flight.is_empty());
        while self.has_slot()
            && let Some(due) = self.rule.take(now, self.stop)
        {
            let added = self.in_flight.insert(due.id);
            assert!(added, "request {:?} is released once", due.id);
            self.phase = due.id.phase;
            self.counts(due.id.phase).released += 1;
            actions.push(Action::Release { id: due.id, scheduled: due.scheduled });
            // The release of the last warm-up request can let the measured burst in.
            self.rule.arrive(now, false);
        }
        assert!(self.slots.is_none_or(|slots| self.in_flight.len() <= slots), "a cap is never exceeded");
    }

    fn has_slot(&self) -> bool {
        self.slots.is_none_or(|slots| self.in_flight.len() < slots)
    }

    fn end_offering(&mut self, now: Nanos) {
        let ends_at = self.ends_at().unwrap_or(Nanos::MAX);
        if self.stage == Stage::Offering && (now >= ends_at || self.rule.is_exhausted(self.stop)) {
            self.stage = Stage::Draining { since: now.min(ends_at) };
        }
    }

    fn ended(&mut self, id: RequestId, failed: bool, actions: &mut Vec<Action>) {
        let known = self.in_flight.remove(&id);
        assert!(known, "request {id:?} ends once, and only after its release");
        let counts = self.counts(id.phase);
        counts.ended += 1;
        counts.failed += u64::from(failed);
        if self.stop.overspent(self.measured.failed) {
            self.cancel(CancelCause::ErrorBudget, actions);
        }
    }

    fn interrupt(&mut self, actions: &mut Vec<Action>) {
        if self.interrupted {
            self.finish(actions);
        } else {
            self.interrupted = true;
            self.cancel(CancelCause::Interrupt, actions);
        }
    }

    /// Ends offering and waiting for good. Only the first cause counts.
    fn cancel(&mut self, cause: CancelCause, actions: &mut Vec<Action>) {
        if self.stage.may_release() {
            self.stage = Stage::Cancelling;
            self.cut_by = Some(cause);
            if !self.in_flight.is_empty() {
                actions.push(Action::CancelAll { cause });
            }
        }
    }

    fn finish(&mut self, actions: &mut Vec<Action>) {
        if self.stage != Stage::Finished {
            self.stage = Stage::Finished;
            actions.push(Action::Finished);
        }
    }
}
