//! A receive thread: owns the sockets of running requests.
//!
//! Every turn of its loop has two halves. First all readable sockets are read into one arena, each read with its
//! arrival stamp; then the bytes are decrypted, parsed and judged. So even where the kernel gives no stamps,
//! parsing one stream never delays the stamp of another that was readable at the same time.
//!
//! It never waits for the caller: finished records leave through a deep channel, and a full one is counted.
//!
//! Here are the loop, the slots and what the thread hears; `read` and `digest` are the two halves of a turn,
//! `send` and `finish` the beginning and the end of a request.

mod digest;
mod finish;
mod read;
mod send;

pub(crate) use finish::never_connected;
pub(crate) use send::send_some;

use crate::clock::RunClock;
use crate::connection::Connection;
use crate::feed::{Feed, Prepared};
use crate::inbox::Outbox;
use crate::records::RecordSender;
use crate::release::ToRelease;
use crate::run_delay::RunDelay;
use crate::sys;
use crate::target::Target;
use crate::turn::Turns;
use goodput_core::outcome::{CancelCause, ConnectFault};
use goodput_core::time::Nanos;
use goodput_core::timeline::Timeline;
use goodput_drive::deadline::Deadlines;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{ChoiceText, End};
use mio::{Events, Interest, Poll, Token, Waker};
use read::{Arrival, Stamper};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::Receiver;
use std::time::Duration;

const WAKE: Token = Token(usize::MAX);
/// The arena of one turn. Only as much of it is touched as a turn really reads.
const ARENA: usize = 4 << 20;
/// Readiness events taken in one turn.
const EVENTS: usize = 1_024;

/// A request on its way.
pub(crate) struct Running {
    pub(crate) timeline: Timeline,
    pub(crate) prepared: Prepared,
    pub(crate) exchange: Exchange,
    pub(crate) deadlines: Deadlines,
    /// Request bytes the kernel has taken.
    pub(crate) written: usize,
    /// Latest arrival so far; stamps never go back behind it.
    pub(crate) latest: Nanos,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// TCP (and TLS) under way.
    Opening,
    /// The request is being written.
    Sending,
    /// The answer is awaited.
    Waiting,
}

/// A connection with its request, handed to a receive thread.
pub(crate) struct Assignment {
    pub(crate) connection: Connection,
    pub(crate) running: Box<Running>,
    pub(crate) stage: Stage,
}

/// What the release thread tells a receive thread.
pub(crate) enum ToReceive {
    /// Take over this connection.
    Adopt(Assignment),
    /// Take over this request and find it a stream (HTTP/2).
    AdoptStream(Box<Running>),
    /// Give up every running request.
    CancelAll(CancelCause),
    /// The run is over.
    Stop,
}

/// A finished request: its record, and its text in case the tokens must be counted from it.
#[derive(Debug)]
pub struct Finished {
    /// The record.
    pub timeline: Timeline,
    /// The generated text, one entry a choice.
    pub texts: Vec<ChoiceText>,
}

/// Everything a receive thread shares with the rest of the run.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) clock: RunClock,
    pub(crate) feed: Arc<Feed>,
    pub(crate) targets: Arc<[Target]>,
    pub(crate) next_connection: Arc<AtomicU32>,
    /// CPU time to use up for every event that is parsed.
    pub(crate) receive_work: Option<Duration>,
}

/// What one receive thread saw of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiveStats {
    /// Times the poll returned with something to do.
    pub wakeups: u64,
    /// Reads that carried data.
    pub reads: u64,
    /// Of those, with a kernel stamp.
    pub stamped_reads: u64,
    /// Stamps that a stepped clock had made useless; the time of the read was taken.
    pub rejected_stamps: u64,
    /// Times the channel of finished records was full and this thread had to wait.
    pub sink_stalls: u64,
    /// CPU time used by this thread, in nanoseconds.
    pub cpu_ns: u64,
}

struct Slot {
    assignment: Assignment,
    /// Tells this occupant of the slot from an earlier one whose alarm or last bytes are still to be handled.
    serial: u64,
    /// Since when the poll has watched its socket.
    watched: Nanos,
    /// The last known instant at which its socket held nothing.
    emptied: Nanos,
}

/// A slot and the serial of the connection that was in it.
type Occupant = (usize, u64);

/// One receive thread.
pub(crate) struct ReceiveThread {
    poll: Poll,
    inbox: Receiver<ToReceive>,
    release: Outbox<ToRelease>,
    /// What the release thread is told at the end of this turn.
    ended: Vec<ToRelease>,
    finished: RecordSender,
    shared: Shared,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    serial: u64,
    alarms: BinaryHeap<Reverse<(Nanos, Occupant)>>,
    arena: Vec<u8>,
    used: usize,
    arrivals: Vec<(Occupant, Arrival)>,
    plain: Vec<u8>,
    stamper: Stamper,
    quiet: Quiet,
    /// Kept alive here: a wake-up that is still on its way is lost when the last handle closes.
    _waker: Arc<Waker>,
    stats: ReceiveStats,
    stopping: bool,
}

/// The channels of a receive thread.
pub(crate) struct Channels {
    pub(crate) inbox: Receiver<ToReceive>,
    pub(crate) release: Outbox<ToRelease>,
    pub(crate) finished: RecordSender,
}

impl ReceiveThread {
    /// A thread's state and the waker that makes it look into its inbox.
    pub(crate) fn new(channels: Channels, shared: Shared) -> io::Result<(Self, Arc<Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let stamper = Stamper::new(shared.clock);
        let thread = Self {
            poll,
            inbox: channels.inbox,
            release: channels.release,
            ended: Vec::new(),
            finished: channels.finished,
            shared,
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            alarms: BinaryHeap::new(),
            arena: vec![0; ARENA],
            used: 0,
            arrivals: Vec::new(),
            plain: Vec::new(),
            stamper,
            quiet: Quiet::default(),
            _waker: waker.clone(),
            stats: ReceiveStats::default(),
            stopping: false,
        };
        Ok((thread, waker))
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) -> io::Result<ReceiveStats> {
        sys::sharpen_timers();
        self.quiet.counter = Some(RunDelay::of_this_thread());
        let mut events = Events::with_capacity(EVENTS);
        while !self.stopping {
            self.wait(&mut events)?;
            for event in events.iter().filter(|e| e.token() != WAKE) {
                self.read_slot(event);
            }
            self.digest();
            for event in events.iter().filter(|e| e.token() != WAKE && e.is_writable()) {
                self.advance(event.token().0);
            }
            self.take_messages();
            self.expire();
            self.tell_all();
        }
        let Stamper { reads, stamped, rejected, .. } = self.stamper;
        let stats = ReceiveStats { reads, stamped_reads: stamped, rejected_stamps: rejected, ..self.stats };
        Ok(ReceiveStats { cpu_ns: sys::thread_cpu_ns(), ..stats })
    }

    /// Sleeps until a socket is ready, a message comes or an alarm rings, whichever is first.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let called = self.shared.clock.now();
        self.quiet.before_poll(called);
        let patience = self.alarms.peek().map(|Reverse((at, ..))| Duration::from_nanos(at.since(called).0));
        let interrupted = match self.poll.poll(events, patience) {
            Ok(()) => false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => true,
            Err(e) => return Err(e),
        };
        let returned = self.shared.clock.now();
        let found = events.iter().count();
        let left_behind = interrupted || found >= EVENTS;
        self.stats.wakeups += u64::from(found > 0);
        self.quiet.turns.polled(called, returned, left_behind);
        self.stamper.turn_begins(returned);
        Ok(())
    }

    // ----- slots, messages, alarms ---------------------------------------------------------------------------

    fn adopt(&mut self, mut assignment: Assignment) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let interest = match assignment.stage {
            Stage::Waiting => Interest::READABLE,
            Stage::Opening | Stage::Sending => Interest::READABLE | Interest::WRITABLE,
        };
        let registered =
            self.poll.registry().register(&mut assignment.connection.stream, Token(index), interest);
        self.serial += 1;
        if let Some((at, _)) = assignment.running.deadlines.next() {
            self.alarms.push(Reverse((at, (index, self.serial))));
        }
        let watched = self.shared.clock.now();
        self.slots[index] = Some(Slot { assignment, serial: self.serial, watched, emptied: Nanos::ZERO });
        if let Err(error) = registered {
            self.connect_failed(index, ConnectFault::ClientLimit, error.to_string());
        }
    }

    fn remove(&mut self, index: usize) -> Option<Slot> {
        let mut slot = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        // Failing to deregister leaves an event for an empty slot, which is skipped.
        drop(self.poll.registry().deregister(&mut slot.assignment.connection.stream));
        Some(slot)
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                ToReceive::Adopt(assignment) => self.adopt(assignment),
                ToReceive::CancelAll(cause) => self.cancel_all(cause),
                ToReceive::Stop => self.stopping = true,
                ToReceive::AdoptStream(_) => unreachable!("streams go to the HTTP/2 thread"),
            }
        }
    }

    fn cancel_all(&mut self, cause: CancelCause) {
        let now = self.shared.clock.now();
        for index in 0..self.slots.len() {
            self.finish(index, End::Cancelled(cause), now, false);
        }
    }

    fn expire(&mut self) {
        let now = self.shared.clock.now();
        while let Some(&Reverse((at, (index, serial)))) = self.alarms.peek() {
            if at > now {
                return;
            }
            self.alarms.pop();
            let Some(slot) = self.slots.get(index).and_then(Option::as_ref) else { continue };
            if slot.serial == serial {
                self.ring(index, now);
            }
        }
    }

    /// An alarm of a live slot: either a limit has run out, or bytes have moved it on.
    fn ring(&mut self, index: usize, now: Nanos) {
        let Some(slot) = self.slots.get(index).and_then(Option::as_ref) else { return };
        let Some((at, phase)) = slot.assignment.running.deadlines.next() else { return };
        if at > now {
            self.alarms.push(Reverse((at, (index, slot.serial))));
        } else {
            self.finish(index, End::Timeout(phase), now, false);
        }
    }
}

/// What tells how long bytes can have been waiting unseen.
#[derive(Default)]
struct Quiet {
    turns: Turns,
    counter: Option<RunDelay>,
}

impl Quiet {
    /// Reads the run delay if the last reading is old. A poll is about to be called, at `now`.
    fn before_poll(&mut self, now: Nanos) {
        if self.turns.wants_run_delay(now) {
            self.read_run_delay(now);
        }
    }

    /// An instant before which nothing can have come that this turn found on a socket, which the poll has watched since
    /// `watched`. The kernel is asked once a turn, and only in turns in which somebody wants to know.
    fn until(&mut self, watched: Nanos, clock: &RunClock) -> Option<Nanos> {
        if self.turns.run_delay().is_none() {
            self.read_run_delay(clock.now());
        }
        self.turns.quiet_until(watched)
    }

    fn read_run_delay(&mut self, now: Nanos) {
        if let Some(total) = self.counter.as_ref().and_then(RunDelay::total_ns) {
            self.turns.run_delay_is(total, now);
        }
    }
}
