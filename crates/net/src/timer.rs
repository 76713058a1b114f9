//! How well this machine keeps an instant: a trial of the release thread's own way to wait, without a run.

use crate::inbox::inbox;
use crate::sys;
use goodput_core::time::Nanos;
use std::io;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Waits for `count` instants that are `gap` apart, on a thread of its own and as the release thread waits, and says
/// how late it was at each: the instant of going on minus the instant that was due. Takes `count` times `gap`.
///
/// # Errors
/// If the system gives no thread.
pub fn oversleeps(count: u32, gap: Duration) -> io::Result<Vec<Nanos>> {
    let trial = Builder::new().name("timer".to_owned()).spawn(move || {
        sys::be_punctual();
        let start = Instant::now();
        (1..=count).map(|i| wait_until(start + gap * i)).collect()
    })?;
    trial.join().map_err(|_| io::Error::other("the trial of the timer ended by a panic"))
}

/// Waits on an inbox with a limit in time, to which nobody writes, and returns how late it went on.
fn wait_until(due: Instant) -> Nanos {
    let (_nobody, inbox) = inbox::<()>();
    loop {
        let now = Instant::now();
        let left = due.saturating_duration_since(now);
        if left.is_zero() {
            return Nanos(u64::try_from((now - due).as_nanos()).unwrap_or(u64::MAX));
        }
        inbox.recv_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_ends_early() {
        let began = Instant::now();
        let late = oversleeps(5, Duration::from_millis(1)).unwrap_or_default();
        assert_eq!(late.len(), 5);
        let last = Duration::from_nanos(late[4].0);
        assert!(
            began.elapsed() >= Duration::from_millis(5) + last,
            "the last instant and its lateness have passed"
        );
    }
}
