//! The virtual-time loop: the driver against a simulated server, in exact integer time.
//!
//! A discrete-event loop over three sources: the server, the limits of the requests in flight, and the driver's own
//! instants. Of several events at one instant the server's come first, then limits, then the driver's, each in order
//! of their making; so a departure frees its slot before an arrival asks for one, and what arrives exactly at a limit
//! is in time. Nothing sleeps and nothing is rounded: the same input gives the same timelines on every machine.
//!
//! What a network adds is not imitated: a request is sent at the instant of its release, connections cost nothing,
//! and there are no bytes. What the workload knows (lengths, session) is for the caller to add to the timelines.

use crate::deadline::Deadlines;
use crate::driver::{Action, Driver, Event, RequestId};
use goodput_core::outcome::{CancelCause, Outcome};
use goodput_core::plan::Timeouts;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, ServerSaid, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A simulated server. Time only moves forward, and only to instants that [`Self::next_event`] named or at which
/// something is submitted or cancelled.
pub trait SimServer {
    /// A request reaches the server.
    fn submit(&mut self, now: Nanos, id: RequestId);
    /// The client gave a request up: nothing more is said about it.
    fn cancel(&mut self, now: Nanos, id: RequestId);
    /// When the server will next do something; `None` if only a submission can make it.
    fn next_event(&self) -> Option<Nanos>;
    /// Does all that is due at `now` (an instant named by [`Self::next_event`]) and appends what a client sees of it.
    fn advance(&mut self, now: Nanos, out: &mut Vec<SimEvent>);
}

/// What a client sees of a simulated server, at the instant at which it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimEvent {
    /// A stream event.
    Chunk {
        /// Of which request.
        id: RequestId,
        /// Generated tokens carried.
        tokens: u32,
        /// What the event is.
        flags: ChunkFlags,
    },
    /// The end of the answer.
    End {
        /// Of which request.
        id: RequestId,
        /// How it ended.
        outcome: Outcome,
        /// What the server said about the request.
        said: ServerSaid,
    },
}

/// Nothing is left to happen, but the run is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "at {at} nothing is left to happen but {in_flight} requests still run: set a total timeout or a drain limit"
)]
pub struct Stuck {
    /// The instant of the last event.
    pub at: Nanos,
    /// Requests that never end.
    pub in_flight: usize,
}

/// Runs the driver against the server until the run is over, hands each timeline to `sink` when its request ends, and
/// returns the instant at which the run was over.
///
/// # Errors
/// [`Stuck`] if the server leaves requests unanswered and no limit ends them.
///
/// # Panics
/// If the server speaks of a request that is not in flight, or the driver was used before.
pub fn run<S: SimServer, F: FnMut(Timeline)>(
    driver: &mut Driver,
    server: &mut S,
    timeouts: &Timeouts,
    sink: F,
) -> Result<Nanos, Stuck> {
    let mut world = World {
        driver,
        server,
        timeouts,
        sink,
        now: Nanos::ZERO,
        live: BTreeMap::new(),
        limits: BinaryHeap::new(),
        limits_made: 0,
        actions: Vec::new(),
    };
    while !world.act() {
        world.step()?;
    }
    Ok(world.now)
}

/// A request in flight.
struct Live {
    timeline: Timeline,
    deadlines: Deadlines,
}

/// An instant at which a request's limits are to be looked at, and a number that orders equal instants.
type LimitCheck = Reverse<(Nanos, u64, RequestId)>;

struct World<'a, S, F> {
    driver: &'a mut Driver,
    server: &'a mut S,
    timeouts: &'a Timeouts,
    sink: F,
    now: Nanos,
    /// Ordered, so that cancelling all of them has one order.
    live: BTreeMap<RequestId, Live>,
    /// At most one check a request. A limit that moved away is put back when its check comes up: cheaper than moving
    /// it with every chunk, and right because the next limit of a request that was sent never comes nearer.
    limits: BinaryHeap<LimitCheck>,
    limits_made: u64,
    actions: Vec<Action>,
}

impl<S: SimServer, F: FnMut(Timeline)> World<'_, S, F> {
    /// Goes to the next instant and lets the first of its sources act.
    fn step(&mut self) -> Result<(), Stuck> {
        let server = self.server.next_event();
        let limit = self.limits.peek().map(|Reverse((at, ..))| *at);
        let wakeup = self.driver.next_wakeup();
        let Some(next) = [server, limit, wakeup].into_iter().flatten().min() else {
            return Err(Stuck { at: self.now, in_flight: self.live.len() });
        };
        // A driver that was busy until now may name an instant that has passed; it is due at once.
        self.now = self.now.max(next);
        if server == Some(next) {
            self.hear_server();
        } else if limit == Some(next) {
            self.check_limit();
        } else {
            self.driver.on(self.now, Event::Tick, &mut self.actions);
        }
        Ok(())
    }

    /// Does what the driver asked for, and what it asks for meanwhile. Whether the run is over.
    fn act(&mut self) -> bool {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Release { id, scheduled } => self.release(id, scheduled),
                    Action::CancelAll { cause } => self.cancel_all(cause),
                    Action::Finished => return true,
                }
            }
        }
        false
    }

    fn release(&mut self, id: RequestId, scheduled: Option<Nanos>) {
        let mut timeline = Timeline::released(id.index, id.phase, scheduled, self.now);
        timeline.instants.sent = Some(self.now);
        timeline.instants.sent_all = Some(self.now);
        let mut deadlines = Deadlines::new(self.timeouts, self.now);
        deadlines.on_sent(self.now);
        self.put_limit(id, &deadlines);
        self.live.insert(id, Live { timeline, deadlines });
        self.server.submit(self.now, id);
    }

    fn put_limit(&mut self, id: RequestId, deadlines: &Deadlines) {
        if let Some((at, _)) = deadlines.next() {
            self.limits.push(Reverse((at, self.limits_made, id)));
            self.limits_made += 1;
        }
    }

    fn cancel_all(&mut self, cause: CancelCause) {
        let all: Vec<RequestId> = self.live.keys().copied().collect();
        for id in all {
            self.server.cancel(self.now, id);
            self.end(id, Outcome::Cancelled { cause }, ServerSaid::default());
        }
    }

    fn hear_server(&mut self) {
        let mut heard = Vec::new();
        self.server.advance(self.now, &mut heard);
        for event in heard {
            match event {
                SimEvent::Chunk { id, tokens, flags } => self.chunk(id, tokens, flags),
                SimEvent::End { id, outcome, said } => self.end(id, outcome, said),
            }
        }
    }

    fn chunk(&mut self, id: RequestId, tokens: u32, flags: ChunkFlags) {
        let now = self.now;
        let live = self.live.get_mut(&id).expect("a server speaks of requests in flight only");
        let chunk = Chunk {
            at: now,
            late_ns: 0,
            early_ns: 0,
            bytes: 0,
            tokens,
            flags,
            choice: 0,
            token_source: TokenSource::Server,
        };
        if chunk.carries_token() {
            live.deadlines.on_token(now);
        } else {
            live.deadlines.on_byte(now);
        }
        let instants = &mut live.timeline.instants;
        instants.headers.get_or_insert(now);
        if flags.has(ChunkFlags::DONE) {
            instants.done = Some(now);
        }
        live.timeline.status = Some(200);
        live.timeline.chunks.push(chunk);
    }

    fn check_limit(&mut self) {
        let Some(Reverse((_, _, id))) = self.limits.pop() else { return };
        let Some(live) = self.live.get(&id) else { return };
        let deadlines = live.deadlines;
        match deadlines.next() {
            Some((at, phase)) if at <= self.now => {
                self.server.cancel(self.now, id);
                self.end(id, Outcome::Timeout { phase }, ServerSaid::default());
            }
            _ => self.put_limit(id, &deadlines),
        }
    }

    fn end(&mut self, id: RequestId, outcome: Outcome, said: ServerSaid) {
        let Live { mut timeline, .. } = self.live.remove(&id).expect("a request ends once");
        timeline.instants.closed = Some(self.now);
        match outcome {
            Outcome::HttpError { status, .. } => timeline.status = Some(status),
            Outcome::Ok => timeline.status = Some(200),
            _ => {}
        }
        let heard: u32 = timeline.chunks.iter().map(|chunk| chunk.tokens).sum();
        let count = said.completion_tokens.unwrap_or(heard);
        timeline.output = (count > 0).then_some(TokenCount { count, source: TokenSource::Server });
        timeline.server = said;
        self.driver.on(self.now, Event::ended(id, &outcome), &mut self.actions);
        timeline.outcome = outcome;
        (self.sink)(timeline);
    }
}
