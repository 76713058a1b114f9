//! The run's one clock: monotonic nanoseconds since the epoch, anchored once to wall time.
//!
//! Kernel arrival stamps are in CLOCK_REALTIME. They are moved to the run's clock through the difference of the
//! two clocks, sampled at every batch of reads, so that a slewed or stepped wall clock cannot bend a latency.

use crate::sys;
use goodput_core::time::Nanos;
use std::time::{Duration, Instant};

/// The run's clock. Cheap to copy; every copy tells the same time.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    epoch: Instant,
    wall_at_epoch_ns: u64,
}

impl RunClock {
    /// Starts a clock whose epoch is now.
    #[must_use]
    pub fn start() -> Self {
        Self::start_after(Duration::ZERO)
    }

    /// Starts a clock whose epoch lies ahead; until then it says zero.
    #[must_use]
    pub fn start_after(delay: Duration) -> Self {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self { epoch: Instant::now() + delay, wall_at_epoch_ns: sys::realtime_ns().saturating_add(delay_ns) }
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Unix time of the epoch in nanoseconds.
    #[must_use]
    pub const fn wall_at_epoch_ns(&self) -> u64 {
        self.wall_at_epoch_ns
    }

    /// Unix time now, paired with the run's time: an anchor for the manifest.
    #[must_use]
    pub fn anchor(&self) -> (Nanos, u64) {
        (self.now(), sys::realtime_ns())
    }

    /// The present difference between the wall clock and this one.
    #[must_use]
    pub fn wall_offset(&self) -> WallOffset {
        WallOffset { wall_minus_run_ns: i128::from(sys::realtime_ns()) - i128::from(self.now().0) }
    }

    /// What one reading of the clock costs, in nanoseconds: the median over a few batches.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        const READS: u32 = 1_000;
        let mut batches: Vec<u128> = (0..9)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..READS {
                    std::hint::black_box(self.now());
                }
                start.elapsed().as_nanos()
            })
            .collect();
        batches.sort_unstable();
        batches[batches.len() / 2] as f64 / f64::from(READS)
    }
}

/// The difference of the wall clock and the run's clock at one moment.
#[derive(Debug, Clone, Copy)]
pub struct WallOffset {
    wall_minus_run_ns: i128,
}

impl WallOffset {
    /// A wall-clock stamp on the run's clock; `None` if it lies before the epoch or after `not_after`, which only
    /// a stepped wall clock can cause.
    #[must_use]
    pub fn to_run(self, wall_ns: u64, not_after: Nanos) -> Option<Nanos> {
        let run = i128::from(wall_ns) - self.wall_minus_run_ns;
        u64::try_from(run).ok().map(Nanos).filter(|at| *at <= not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_stamps_move_to_the_run_clock() {
        let offset = WallOffset { wall_minus_run_ns: 1_000 };
        assert_eq!(offset.to_run(1_500, Nanos(600)), Some(Nanos(500)));
        assert_eq!(offset.to_run(1_500, Nanos(400)), None, "a stamp from the future is no stamp");
        assert_eq!(offset.to_run(900, Nanos(400)), None, "nor is one from before the run");
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = RunClock::start();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(clock.cost_ns() > 0.0);
    }
}
