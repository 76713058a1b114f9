//! The feeder: request bytes, ready before they are due.
//!
//! Encoding a long prompt takes longer than a release may be late, so a thread of its own keeps a bounded number
//! of requests encoded ahead of the release thread. Requests leave in index order within their phase, which is
//! the order in which every load rule releases them.

use goodput_core::timeline::Phase;
use goodput_drive::driver::RequestId;
use goodput_wire::reply::ReplyConfig;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Encoded bytes kept ready at most, over both phases; one request is always allowed, however large.
const READY_BYTES_MAX: usize = 64 << 20;

/// The parts of a request head that all requests to one target share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Path and query.
    pub path: String,
    /// Headers in order, `Host` and `Content-Length` excluded.
    pub headers: Vec<(String, String)>,
}

/// One request, encoded.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Which request it is.
    pub id: RequestId,
    /// Which target it goes to.
    pub target: usize,
    /// Session number.
    pub session: u64,
    /// Turn within the session.
    pub turn: u32,
    /// The head in parts, for HTTP/2.
    pub head: Arc<Head>,
    /// Value of the `x-request-id` header.
    pub request_id: String,
    /// HTTP/1.1 head and body; `body_at` tells where the head ends.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the body begins.
    pub body_at: usize,
    /// How the answer is to be read.
    pub reply: ReplyConfig,
    /// Prompt tokens as planned.
    pub planned_input: Option<u32>,
    /// Whether the body asks for usage.
    pub asks_usage: bool,
}

/// Where encoded requests come from: a pure function of the request's identity.
pub trait RequestSource: Send + Sync {
    /// Encodes one request, with or without asking the server for its token counts.
    fn build(&self, id: RequestId, ask_usage: bool) -> Prepared;
}

/// How many requests each phase has, and how many to keep ready.
#[derive(Debug, Clone, Copy)]
pub struct FeedBounds {
    /// Warm-up requests, if their number is known; 0 if there are none.
    pub warmup: Option<u64>,
    /// Measured requests, if their number is known.
    pub measured: Option<u64>,
    /// Requests to keep ready per phase.
    pub ahead: usize,
}

#[derive(Debug, Default)]
struct Lane {
    next: u64,
    limit: Option<u64>,
    ready: VecDeque<Prepared>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    warmup: Lane,
    measured: Lane,
    stopped: bool,
}

impl State {
    fn lane(&mut self, phase: Phase) -> &mut Lane {
        match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measured => &mut self.measured,
        }
    }

    /// The next request worth encoding: warm-up first, since it is released first.
    fn wanted(&self, ahead: usize) -> Option<RequestId> {
        if self.warmup.bytes + self.measured.bytes >= READY_BYTES_MAX {
            return None;
        }
        let lanes = [(Phase::Warmup, &self.warmup), (Phase::Measured, &self.measured)];
        lanes.into_iter().find_map(|(phase, lane)| {
            let more = lane.limit.is_none_or(|limit| lane.next < limit) && lane.ready.len() < ahead;
            more.then_some(RequestId { phase, index: lane.next })
        })
    }
}

/// The queue between the feeder and the release thread.
pub struct Feed {
    source: Arc<dyn RequestSource>,
    ahead: usize,
    ask_usage: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Feed {
    /// An empty feed; start [`Feed::work`] on a thread of its own.
    #[must_use]
    pub fn new(source: Arc<dyn RequestSource>, bounds: FeedBounds) -> Self {
        let lane = |limit| Lane { limit, ..Lane::default() };
        Self {
            source,
            ahead: bounds.ahead.max(1),
            ask_usage: AtomicBool::new(true),
            state: Mutex::new(State {
                warmup: lane(bounds.warmup),
                measured: lane(bounds.measured),
                stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking feeder leaves whole entries behind; the queue itself stays usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes ahead until [`Feed::stop`]. If the source panics the feed stops as well, so that nobody waits for it.
    pub fn work(&self) {
        let _stops = StopOnPanic(self);
        let mut state = self.lock();
        while !state.stopped {
            let Some(id) = state.wanted(self.ahead) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let prepared = self.build(id);
            state = self.lock();
            let lane = state.lane(id.phase);
            // The release thread may have overtaken and built this one itself.
            if lane.next == id.index {
                lane.next += 1;
                lane.bytes += prepared.bytes.len();
                lane.ready.push_back(prepared);
                self.changed.notify_all();
            }
        }
    }

    /// Waits until as much is ready as will be kept ready, so that a run starts with full queues.
    pub fn wait_until_full(&self) {
        let mut state = self.lock();
        while !state.stopped && state.wanted(self.ahead).is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The bytes of one request: from the queue, or built on the spot if the feeder is behind.
    pub fn take(&self, id: RequestId) -> Prepared {
        let mut state = self.lock();
        let lane = state.lane(id.phase);
        let ready = lane.ready.pop_front();
        match &ready {
            Some(prepared) => lane.bytes -= prepared.bytes.len(),
            None => lane.next = lane.next.max(id.index + 1),
        }
        self.changed.notify_all();
        drop(state);
        match ready {
            Some(prepared) if prepared.id == id && prepared.asks_usage == self.asks_usage() => prepared,
            _ => self.build(id),
        }
    }

    /// Encodes one request now, under the present rule for asking usage.
    pub fn build(&self, id: RequestId) -> Prepared {
        self.source.build(id, self.asks_usage())
    }

    /// Whether requests still ask the server for its token counts.
    pub fn asks_usage(&self) -> bool {
        self.ask_usage.load(Ordering::Relaxed)
    }

    /// Stops asking for token counts: the server refuses the option.
    pub fn stop_asking_usage(&self) {
        self.ask_usage.store(false, Ordering::Relaxed);
    }

    /// Ends [`Feed::work`].
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

struct StopOnPanic<'a>(&'a Feed);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::plan::Protocol;

    struct Numbered;
    impl RequestSource for Numbered {
        fn build(&self, id: RequestId, ask_usage: bool) -> Prepared {
            Prepared {
                id,
                target: 0,
                session: id.index,
                turn: 0,
                head: Arc::new(Head { path: "/".into(), headers: vec![] }),
                request_id: String::new(),
                bytes: id.index.to_le_bytes().to_vec(),
                body_at: 0,
                reply: ReplyConfig::new(Protocol::OpenaiChat),
                planned_input: None,
                asks_usage: ask_usage,
            }
        }
    }

    fn feed(ahead: usize) -> Arc<Feed> {
        Arc::new(Feed::new(Arc::new(Numbered), FeedBounds { warmup: Some(2), measured: None, ahead }))
    }

    #[test]
    fn requests_come_in_order_whoever_builds_them() {
        let feed = feed(4);
        let worker = std::thread::spawn({
            let feed = feed.clone();
            move || feed.work()
        });
        feed.wait_until_full();
        for (phase, count) in [(Phase::Warmup, 2), (Phase::Measured, 50)] {
            for index in 0..count {
                let id = RequestId { phase, index };
                assert_eq!(feed.take(id).id, id);
            }
        }
        feed.stop();
        worker.join().unwrap();
    }

    #[test]
    fn a_feed_without_a_feeder_still_delivers() {
        let feed = feed(4);
        let id = RequestId { phase: Phase::Measured, index: 0 };
        assert_eq!(feed.take(id).id, id);
        feed.stop_asking_usage();
        assert!(!feed.take(RequestId { index: 1, ..id }).asks_usage);
    }
}
