//! The way of finished requests to the recorder: a queue that is bounded by bytes.
//!
//! Records differ in size by a factor of thousands, so a bound on their number bounds nothing. A receive thread waits
//! here only when records of [`WAITING_BYTES_MAX`] wait for the recorder, which is some million and a half chunks that
//! the disk is behind; that it had to is told to it, counted and reported, because reads are late then. A record larger
//! than all of that is let through alone.

use crate::receive::Finished;
use goodput_core::timeline::Chunk;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of records that may wait for the recorder before a receive thread has to wait too.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// A queue of records for one recorder.
pub(crate) fn records(limit: usize) -> (RecordSender, RecordReceiver) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(Waiting { limit, state: Mutex::default(), room: Condvar::new() });
    (RecordSender { sender, waiting: waiting.clone() }, RecordReceiver { receiver, waiting })
}

/// What is on its way.
struct Waiting {
    limit: usize,
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Default)]
struct State {
    bytes: usize,
    /// Senders that wait for room.
    senders: usize,
    /// Nobody takes records any more.
    closed: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that receive threads hold.
#[derive(Clone)]
pub(crate) struct RecordSender {
    sender: Sender<Box<Finished>>,
    waiting: Arc<Waiting>,
}

impl RecordSender {
    /// Hands a record over, and says whether that had to wait for room.
    pub(crate) fn send(&self, finished: Finished) -> bool {
        let bytes = bytes_of(&finished);
        let mut state = self.waiting.lock();
        let full =
            |state: &State| !state.closed && state.bytes > 0 && state.bytes + bytes > self.waiting.limit;
        let stalls = full(&state);
        state.senders += usize::from(stalls);
        while full(&state) {
            state = self.waiting.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.senders -= usize::from(stalls);
        self.put(state, bytes, finished);
        stalls
    }

    /// Hands a record over however many wait: for the release thread, which must not wait, and whose records are those
    /// of requests that could not even begin.
    pub(crate) fn send_at_once(&self, finished: Finished) {
        self.put(self.waiting.lock(), bytes_of(&finished), finished);
    }

    fn put(&self, mut state: MutexGuard<'_, State>, bytes: usize, finished: Finished) {
        state.bytes += bytes;
        drop(state);
        // The recorder is gone only when the run is being torn down; then nobody wants the record.
        drop(self.sender.send(Box::new(finished)));
    }
}

/// The recorder's end.
pub(crate) struct RecordReceiver {
    receiver: Receiver<Box<Finished>>,
    waiting: Arc<Waiting>,
}

impl RecordReceiver {
    /// The next record, if one comes in time.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<Box<Finished>, RecvTimeoutError> {
        let finished = self.receiver.recv_timeout(timeout)?;
        let mut state = self.waiting.lock();
        state.bytes -= bytes_of(&finished);
        if state.senders > 0 {
            self.waiting.room.notify_all();
        }
        drop(state);
        Ok(finished)
    }
}

impl Drop for RecordReceiver {
    fn drop(&mut self) {
        self.waiting.lock().closed = true;
        self.waiting.room.notify_all();
    }
}

/// Memory that a record holds, but for short texts.
fn bytes_of(finished: &Finished) -> usize {
    let texts =
        finished.texts.iter().map(|text| text.text.len() + text.reasoning.len() + text.tool_args.len());
    size_of::<Finished>() + finished.timeline.chunks.capacity() * size_of::<Chunk>() + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::time::Nanos;
    use goodput_core::timeline::{Phase, Timeline};

    fn record(index: u64) -> Finished {
        let mut timeline = Timeline::released(index, Phase::Measured, None, Nanos(0));
        timeline.chunks = Vec::with_capacity(100);
        Finished { timeline, texts: Vec::new() }
    }

    fn next(receiver: &RecordReceiver) -> u64 {
        receiver.recv_timeout(Duration::MAX).expect("a record is on its way").timeline.index
    }

    #[test]
    fn a_sender_waits_when_the_buffer_is_full_and_not_before() {
        let (sender, receiver) = records(3 * bytes_of(&record(0)));
        // A recorder that takes nothing costs nobody anything as long as there is room.
        assert_eq!([0, 1, 2].map(|index| sender.send(record(index))), [false; 3]);
        std::thread::scope(|scope| {
            let fourth = scope.spawn(|| sender.send(record(3)));
            while sender.waiting.lock().senders == 0 {
                std::thread::yield_now();
            }
            assert!(!fourth.is_finished());
            assert_eq!(next(&receiver), 0);
            assert!(fourth.join().expect("the sender does not panic"), "that it waited is told");
        });
        assert_eq!([next(&receiver), next(&receiver), next(&receiver)], [1, 2, 3]);
        assert!(!sender.send(record(4)), "once there is room again nobody waits");
    }

    #[test]
    fn a_record_larger_than_the_buffer_goes_alone() {
        let (sender, receiver) = records(1);
        assert!(!sender.send(record(0)));
        assert_eq!(next(&receiver), 0);
        assert!(!sender.send(record(1)));
    }

    #[test]
    fn who_must_not_wait_does_not() {
        let (sender, receiver) = records(1);
        (0..5).for_each(|index| sender.send_at_once(record(index)));
        assert_eq!([0; 5].map(|_| next(&receiver)), [0, 1, 2, 3, 4]);
        assert_eq!(sender.waiting.lock().bytes, 0);
    }

    #[test]
    fn nobody_waits_for_a_recorder_that_is_gone() {
        let (sender, receiver) = records(1);
        assert!(!sender.send(record(0)));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| sender.send(record(1)));
            while sender.waiting.lock().senders == 0 {
                std::thread::yield_now();
            }
            drop(receiver);
            assert!(second.join().expect("the sender does not panic"));
        });
    }
}
