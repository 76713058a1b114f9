//! The simulated engines in real time: a machine of exact instants, stepped by whoever watches the clock.
//!
//! The engine's clock runs at a fixed pace of the server's. An instant of the engine is due when the server's clock
//! reaches it, and being late with it moves nothing: what happens in the engine happens at its own instants, and what
//! comes after is counted from those. It reads no clock.

use goodput_core::time::Nanos;
use goodput_model::cluster::{Cluster, Routed};
use goodput_model::request::{Request, RequestId};
use std::num::NonZeroU32;

/// How much faster the engine's clock runs than the server's, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed(NonZeroU32);

/// A number that is no speed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("expected a speed from 0.001 to 1000, found {0}")]
pub struct SpeedError(f64);

impl Speed {
    /// The engine's own pace.
    pub const REAL: Self = Self(NonZeroU32::MIN.saturating_add(999));

    /// So many times its own pace, rounded to thousandths.
    ///
    /// # Errors
    /// It is not from 0.001 to 1,000.
    pub fn new(times: f64) -> Result<Self, SpeedError> {
        let thousandths = (times * 1e3).round();
        let inside = (1.0..=1e6).contains(&thousandths);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within bounds")]
        let found = inside.then_some(thousandths as u32).and_then(NonZeroU32::new);
        found.map(Self).ok_or(SpeedError(times))
    }

    /// The engine's instant at one of the server's clock.
    pub(crate) fn engine(self, wall: Nanos) -> Nanos {
        scale(wall, self.0.get(), 1_000, u128::div_euclid)
    }

    /// The first instant of the server's clock at which the engine's has reached `engine`.
    pub(crate) fn wall(self, engine: Nanos) -> Nanos {
        scale(engine, 1_000, self.0.get(), u128::div_ceil)
    }
}

fn scale(time: Nanos, by: u32, over: u32, divide: fn(u128, u128) -> u128) -> Nanos {
    let scaled = divide(u128::from(time.0) * u128::from(by), u128::from(over));
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// Engines whose clock is the server's. All instants here are the server's.
#[derive(Debug)]
pub(crate) struct Wall {
    pub(crate) cluster: Cluster,
    pub(crate) speed: Speed,
    /// The engine's instant of the latest event: nothing can be submitted before it any more.
    floor: Nanos,
}

impl Wall {
    pub(crate) fn new(cluster: Cluster, speed: Speed) -> Self {
        Self { cluster, speed, floor: Nanos::ZERO }
    }

    /// When something next happens.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.cluster.next_event().map(|at| self.speed.wall(at))
    }

    /// Hands a request in that came at `at`, or as soon after it as the engine has not passed already, and appends what
    /// happened until then.
    pub(crate) fn submit(&mut self, at: Nanos, request: &Request, heard: &mut Vec<Routed>) {
        let at = self.speed.engine(at).max(self.floor);
        self.hear(at, heard);
        self.cluster.submit(at, request);
        self.hear(at, heard);
    }

    /// The client of a request went away.
    pub(crate) fn cancel(&mut self, at: Nanos, id: RequestId) {
        self.cluster.cancel(self.speed.engine(at).max(self.floor), id);
    }

    /// Appends what happened until `now`.
    pub(crate) fn advance(&mut self, now: Nanos, heard: &mut Vec<Routed>) {
        self.hear(self.speed.engine(now), heard);
    }

    fn hear(&mut self, until: Nanos, heard: &mut Vec<Routed>) {
        self.cluster.advance(until, heard);
        if let Some(last) = heard.last() {
            self.floor = self.floor.max(last.event.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_instant_is_due_as_soon_as_the_engines_clock_is_there(
            times in 0.001..1_000.0_f64, at in 0..u64::MAX / 1_000_000,
        ) {
            let speed = Speed::new(times).unwrap();
            let wall = speed.wall(Nanos(at));
            prop_assert!(speed.engine(wall) >= Nanos(at));
            prop_assert!(wall == Nanos::ZERO || speed.engine(Nanos(wall.0 - 1)) < Nanos(at));
        }
    }

    #[test]
    fn speeds_are_within_bounds() {
        assert_eq!(Speed::new(1.0), Ok(Speed::REAL));
        assert_eq!(Speed::new(10.0).unwrap().wall(Nanos::from_millis(20)), Nanos::from_millis(2));
        assert!(Speed::new(0.0).is_err() && Speed::new(f64::NAN).is_err() && Speed::new(1e7).is_err());
    }
}
