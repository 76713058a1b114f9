//! The inbox of the release thread: a queue behind a lock, with a limit in time on waiting.
//!
//! It is no lock-free channel on purpose. Where such a channel finds a sender in the middle of a message it spins until
//! that is done; a thread at real-time priority that spins keeps the core from the sender, and both stand still until
//! the system takes the core away from it, most of a second later. Behind a lock the waiting one sleeps.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An empty inbox, and the first of those who may write to it.
pub(crate) fn inbox<T>() -> (Outbox<T>, Inbox<T>) {
    let state = State { messages: VecDeque::new(), is_waited_for: false, is_closed: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), arrived: Condvar::new() });
    (Outbox(shared.clone()), Inbox(shared))
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

struct State<T> {
    messages: VecDeque<T>,
    /// The reader sleeps and has not been woken.
    is_waited_for: bool,
    /// The reader is gone.
    is_closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to an inbox.
pub(crate) struct Outbox<T>(Arc<Shared<T>>);

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Outbox<T> {
    /// Leaves a message. If the reader is gone nobody wants it, and it is dropped.
    pub(crate) fn send(&self, message: T) {
        self.put([message]);
    }

    /// Leaves them all, with one wake-up.
    pub(crate) fn send_all(&self, messages: &mut Vec<T>) {
        if !messages.is_empty() {
            self.put(messages.drain(..));
        }
    }

    fn put(&self, messages: impl IntoIterator<Item = T>) {
        let mut state = self.0.lock();
        if state.is_closed {
            return;
        }
        state.messages.extend(messages);
        let wakes = std::mem::take(&mut state.is_waited_for);
        drop(state);
        if wakes {
            self.0.arrived.notify_one();
        }
    }
}

/// Reads the messages, in the order in which they came.
pub(crate) struct Inbox<T>(Arc<Shared<T>>);

impl<T> Inbox<T> {
    /// The next message; waits for it no longer than `patience`.
    pub(crate) fn recv_timeout(&self, patience: Duration) -> Option<T> {
        let mut state = self.0.lock();
        if state.messages.is_empty() {
            state.is_waited_for = true;
            let waited = self.0.arrived.wait_timeout_while(state, patience, |s| s.messages.is_empty());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_waited_for = false;
        }
        state.messages.pop_front()
    }

    /// The next message, if there is one.
    pub(crate) fn try_recv(&self) -> Option<T> {
        self.0.lock().messages.pop_front()
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let unread = std::mem::take(&mut state.messages);
        drop(state);
        // Connections among them are closed here, and not under the lock.
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_order_and_nobody_waits_for_none() {
        let (outbox, inbox) = inbox();
        assert_eq!(inbox.try_recv(), None);
        assert_eq!(inbox.recv_timeout(Duration::ZERO), None);
        outbox.send(1);
        outbox.clone().send_all(&mut vec![2, 3]);
        outbox.send_all(&mut Vec::new());
        assert_eq!(inbox.recv_timeout(Duration::from_secs(600)), Some(1));
        assert_eq!((inbox.try_recv(), inbox.try_recv(), inbox.try_recv()), (Some(2), Some(3), None));
    }

    #[test]
    fn a_message_ends_the_wait() {
        let (outbox, inbox) = inbox();
        let reader = std::thread::spawn(move || inbox.recv_timeout(Duration::from_secs(600)));
        outbox.send("here");
        assert_eq!(reader.join().ok(), Some(Some("here")));
    }

    #[test]
    fn what_nobody_reads_is_dropped() {
        let (outbox, inbox) = inbox();
        let message = Arc::new(());
        outbox.send(message.clone());
        drop(inbox);
        outbox.send(message.clone());
        assert_eq!(Arc::strong_count(&message), 1);
    }
}
