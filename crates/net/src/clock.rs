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

    /// Sleeps until the epoch has come.
    pub fn wait_for_epoch(&self) {
        std::thread::sleep(self.epoch.saturating_duration_since(Instant::now()));
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

/// How long a sampled difference of the two clocks is used. Clocks are slewed by at most 500 ppm, so it is off by
/// half a microsecond at the end.
const OFFSET_LASTS: Nanos = Nanos::from_millis(1);
/// A sample is as good as the time it took; a thread that loses its core in the middle of one takes far longer.
const GOOD_SAMPLE: Nanos = Nanos(500);
/// Samples taken in search of a good one.
const SAMPLES_MAX: usize = 5;

/// Moves wall-clock stamps to the run's clock. One for each thread that reads stamps.
#[derive(Debug)]
pub struct WallTracker {
    clock: RunClock,
    wall_minus_run_ns: i128,
    sampled_at: Option<Nanos>,
}

impl WallTracker {
    /// A tracker for stamps that arrive from now on.
    #[must_use]
    pub const fn new(clock: RunClock) -> Self {
        Self { clock, wall_minus_run_ns: 0, sampled_at: None }
    }

    /// A wall-clock stamp on the run's clock; `None` if it lies before the epoch or after `now`, which only a
    /// stepped wall clock can cause.
    pub fn to_run(&mut self, wall_ns: u64, now: Nanos) -> Option<Nanos> {
        if self.sampled_at.is_none_or(|at| now.since(at) >= OFFSET_LASTS) {
            self.sample(now);
        }
        on_run_clock(wall_ns, self.wall_minus_run_ns, now)
    }

    /// Reads the wall clock between two readings of the run's clock; the narrowest of a few tries is kept.
    fn sample(&mut self, now: Nanos) {
        let mut best: Option<(Nanos, i128)> = None;
        for _ in 0..SAMPLES_MAX {
            let before = self.clock.now();
            let wall = sys::realtime_ns();
            let width = self.clock.now().since(before);
            let middle = i128::from(before.0) + i128::from(width.0 / 2);
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, i128::from(wall) - middle));
            }
            if width <= GOOD_SAMPLE {
                break;
            }
        }
        if let Some((_, offset)) = best {
            self.wall_minus_run_ns = offset;
            self.sampled_at = Some(now);
        }
    }
}

fn on_run_clock(wall_ns: u64, wall_minus_run_ns: i128, now: Nanos) -> Option<Nanos> {
    let run = i128::from(wall_ns) - wall_minus_run_ns;
    u64::try_from(run).ok().map(Nanos).filter(|at| *at <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_stamps_move_to_the_run_clock() {
        assert_eq!(on_run_clock(1_500, 1_000, Nanos(600)), Some(Nanos(500)));
        assert_eq!(on_run_clock(1_500, 1_000, Nanos(400)), None, "a stamp from the future is no stamp");
        assert_eq!(on_run_clock(900, 1_000, Nanos(400)), None, "nor is one from before the run");
    }

    #[test]
    fn a_stamp_taken_now_is_now() {
        let clock = RunClock::start();
        let mut tracker = WallTracker::new(clock);
        for _ in 0..100 {
            let before = clock.now();
            let wall = sys::realtime_ns();
            let after = clock.now();
            let at = tracker.to_run(wall, clock.now()).unwrap_or(after);
            let slack = Nanos::from_millis(5);
            assert!(at.saturating_add(slack) >= before && at <= after.saturating_add(slack));
        }
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
