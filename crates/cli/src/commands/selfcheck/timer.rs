//! How late the release thread's timer wakes on this host, without load.

use super::report::Timer;
use crate::exit::Failure;
use goodput_core::time::Nanos;
use goodput_net::timer::oversleeps;
use std::time::Duration;

/// Waits of the trial.
const WAITS: u32 = 300;
/// Time between two instants: a thousand arrivals a second.
const GAP: Duration = Duration::from_millis(1);

/// Makes the trial.
pub(super) fn trial() -> Result<Timer, Failure> {
    oversleeps(WAITS, GAP)
        .map(figures)
        .map_err(|e| Failure::invalid(format!("the timer could not be tried: {e}")))
}

/// Nearest-rank percentiles. Zeros for no wait.
fn figures(mut late: Vec<Nanos>) -> Timer {
    late.sort_unstable();
    let at = |percent: usize| {
        let rank = (late.len() * percent).div_ceil(100).max(1);
        late.get(rank - 1).map_or(0.0, |late| late.0 as f64 / 1e3)
    };
    Timer { n: late.len() as u64, late_p50_us: at(50), late_p99_us: at(99), late_max_us: at(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let timer = figures((1..=200).rev().map(Nanos::from_micros).collect());
        assert_eq!(
            (timer.n, timer.late_p50_us, timer.late_p99_us, timer.late_max_us),
            (200, 100.0, 198.0, 200.0)
        );
        assert_eq!(figures(vec![Nanos(1_500)]).late_p99_us, 1.5);
        assert_eq!(figures(Vec::new()).late_max_us, 0.0);
    }
}
