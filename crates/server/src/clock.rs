//! The server's clock: whole nanoseconds since the server started, and their place in Unix time.
//!
//! Deadlines and write times are monotonic. A client on the same machine stamps with the wall clock, so the
//! anchor between the two is kept: both clocks are slewed alike, hence one anchor holds for the whole run, and
//! [`Clock::wall_step`] tells when somebody set the wall clock meanwhile.

use goodput_core::time::Nanos;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock with a Unix anchor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    /// Unix time of `start`, ns.
    anchor: u64,
}

impl Clock {
    /// Starts at zero now.
    pub(crate) fn start() -> Self {
        let start = Instant::now();
        Self { start, anchor: anchor_of(start) }
    }

    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// An instant of this clock as Unix time, ns.
    pub(crate) fn unix(&self, at: Nanos) -> u64 {
        self.anchor.saturating_add(at.0)
    }

    /// A Unix time as an instant of this clock, if it is not in the future and less than a second ago: anything
    /// else means that the wall clock was set.
    pub(crate) fn at_unix(&self, unix: u64) -> Option<Nanos> {
        let at = Nanos(unix.checked_sub(self.anchor)?);
        let now = self.now();
        (at <= now && now.since(at) < Nanos::from_secs(1)).then_some(at)
    }

    /// How far the wall clock has been set since the start, ns (positive: forwards), within a few
    /// hundred ns.
    pub(crate) fn wall_step(&self) -> i64 {
        i64::try_from(i128::from(anchor_of(self.start)) - i128::from(self.anchor)).unwrap_or(i64::MAX)
    }
}

/// Unix time of `start`. The wall clock is read between two monotonic readings, and the tightest of several such pairs
/// counts, because a thread can lose its core between them.
fn anchor_of(start: Instant) -> u64 {
    let pair = || {
        let (before, wall, after) = (start.elapsed(), unix_now(), start.elapsed());
        let middle = u64::try_from((before + after).as_nanos() / 2).unwrap_or(u64::MAX);
        (after - before, wall.saturating_sub(middle))
    };
    (0..16).map(|_| pair()).min().map_or(0, |(_, anchor)| anchor)
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_and_monotonic_times_agree() {
        let clock = Clock::start();
        let now = clock.now();
        assert_eq!(clock.at_unix(clock.unix(now)), Some(now));
        assert_eq!(clock.at_unix(clock.unix(clock.now() + Nanos::from_secs(60))), None, "the future");
        assert_eq!(clock.at_unix(0), None, "before the start");
    }
}
