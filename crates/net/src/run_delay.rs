//! How long the calling thread has waited for a core, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The open counter of one thread. Only that thread may read it: what counts is that the reading has every wait up to
/// now, and a thread that runs is not waiting.
#[derive(Debug)]
pub(crate) struct RunDelay(Option<File>);

impl RunDelay {
    /// The counter of the calling thread, if the system has one.
    pub(crate) fn of_this_thread() -> Self {
        let counter = Self(File::open("/proc/thread-self/schedstat").ok());
        if counter.total_ns().is_some() { counter } else { Self(None) }
    }

    /// Nanoseconds on a run queue since the thread began; `None` where the system does not count them.
    pub(crate) fn total_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let read = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        run_delay(&text[..read])
    }
}

/// The second of three numbers: time on a core, time waiting for one, times on a core. A thread that runs has been on a
/// core at least once, so a zero there means that nobody counts.
fn run_delay(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse::<u64>);
    let (_, delay, times) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    (times > 0).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_delay() {
        assert_eq!(run_delay(b"8123 44500 17\n"), Some(44_500));
        assert_eq!(run_delay(b"8123 0 17\n"), Some(0));
        for unknown in [&b"0 0 0\n"[..], b"", b"1 2\n", b"1 x 3\n", b"\xff"] {
            assert_eq!(run_delay(unknown), None);
        }
    }

    #[test]
    fn it_never_goes_back() {
        let counter = RunDelay::of_this_thread();
        let before = counter.total_ns();
        std::thread::yield_now();
        assert!(counter.total_ns() >= before);
    }
}
