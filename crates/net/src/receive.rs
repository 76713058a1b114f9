//! A receive thread: owns the sockets of running requests.
//!
//! Every turn of its loop has two halves. First all readable sockets are read into one arena, each read with its
//! arrival stamp; then the bytes are decrypted, parsed and judged. So even where the kernel gives no stamps,
//! parsing one stream never delays the stamp of another that was readable at the same time.
//!
//! It never waits for the caller: finished records leave through a deep channel, and a full one is counted.

use crate::clock::{RunClock, WallTracker};
use crate::connection::{Connection, OpenError};
use crate::feed::{Feed, Prepared};
use crate::release::ToRelease;
use crate::sys;
use crate::target::Target;
use goodput_core::outcome::{CancelCause, ConnectFault};
use goodput_core::time::Nanos;
use goodput_core::timeline::{ConnectionUse, Timeline};
use goodput_drive::deadline::Deadlines;
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{ChoiceText, End};
use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use std::time::Duration;

const WAKE: Token = Token(usize::MAX);
/// Bytes taken in one read. A batching server fills it; a paced one never does.
const READ_MAX: usize = 64 << 10;
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
}

/// What one receive thread saw of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiveStats {
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

#[derive(Clone, Copy)]
enum Arrival {
    Bytes {
        start: usize,
        len: usize,
        stamp: Stamp,
    },
    Closed,
    /// The socket failed with this error of the operating system.
    Broken {
        code: i32,
    },
}

struct Slot {
    assignment: Assignment,
    /// Tells this occupant of the slot from an earlier one whose alarm or last bytes are still to be handled.
    serial: u64,
}

/// A slot and the serial of the connection that was in it.
type Occupant = (usize, u64);

/// One receive thread.
pub(crate) struct ReceiveThread {
    poll: Poll,
    inbox: Receiver<ToReceive>,
    release: Sender<ToRelease>,
    finished: SyncSender<Finished>,
    shared: Shared,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    serial: u64,
    alarms: BinaryHeap<Reverse<(Nanos, Occupant)>>,
    arena: Vec<u8>,
    used: usize,
    arrivals: Vec<(Occupant, Arrival)>,
    plain: Vec<u8>,
    wall: WallTracker,
    /// Kept alive here: a wake-up that is still on its way is lost when the last handle closes.
    _waker: Arc<Waker>,
    stats: ReceiveStats,
    stopping: bool,
}

/// The channels of a receive thread.
pub(crate) struct Channels {
    pub(crate) inbox: Receiver<ToReceive>,
    pub(crate) release: Sender<ToRelease>,
    pub(crate) finished: SyncSender<Finished>,
}

impl ReceiveThread {
    /// A thread's state and the waker that makes it look into its inbox.
    pub(crate) fn new(channels: Channels, shared: Shared) -> io::Result<(Self, Arc<Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let wall = WallTracker::new(shared.clock);
        let thread = Self {
            poll,
            inbox: channels.inbox,
            release: channels.release,
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
            wall,
            _waker: waker.clone(),
            stats: ReceiveStats::default(),
            stopping: false,
        };
        Ok((thread, waker))
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) -> io::Result<ReceiveStats> {
        sys::sharpen_timers();
        let mut events = Events::with_capacity(EVENTS);
        while !self.stopping {
            let now = self.shared.clock.now();
            let patience = self.alarms.peek().map(|Reverse((at, ..))| Duration::from_nanos(at.since(now).0));
            match self.poll.poll(&mut events, patience) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            for event in events.iter().filter(|e| e.token() != WAKE) {
                self.read_slot(event);
            }
            self.digest();
            for event in events.iter().filter(|e| e.token() != WAKE && e.is_writable()) {
                self.advance(event.token().0);
            }
            self.take_messages();
            self.expire();
        }
        self.stats.cpu_ns = sys::thread_cpu_ns();
        Ok(self.stats)
    }

    // ----- first half: read and stamp ------------------------------------------------------------------------

    fn read_slot(&mut self, event: &Event) {
        let index = event.token().0;
        let to_the_end = event.is_read_closed() || event.is_error();
        if !event.is_readable() && !to_the_end {
            return;
        }
        loop {
            if self.arena.len() - self.used < READ_MAX {
                self.digest();
            }
            let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
            if slot.assignment.stage == Stage::Opening && !slot.assignment.connection.is_encrypted() {
                return; // Nothing can arrive before the request is sent; `advance` reports a failed connect.
            }
            let occupant = (index, slot.serial);
            let room = &mut self.arena[self.used..self.used + READ_MAX];
            let read = match slot.assignment.connection.receive(room) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    let code = e.raw_os_error().unwrap_or_default();
                    return self.arrivals.push((occupant, Arrival::Broken { code }));
                }
            };
            if read.bytes == 0 {
                return self.arrivals.push((occupant, Arrival::Closed));
            }
            let stamp = self.stamp(read.realtime_ns);
            self.arrivals.push((occupant, Arrival::Bytes { start: self.used, len: read.bytes, stamp }));
            self.used += read.bytes;
            // With edge-triggered readiness a short read means that the socket is empty.
            if read.bytes < READ_MAX && !to_the_end {
                return;
            }
        }
    }

    fn stamp(&mut self, realtime_ns: Option<u64>) -> Stamp {
        self.stats.reads += 1;
        let now = self.shared.clock.now();
        let arrived = realtime_ns.and_then(|wall| self.wall.to_run(wall, now));
        self.stats.stamped_reads += u64::from(arrived.is_some());
        self.stats.rejected_stamps += u64::from(realtime_ns.is_some() && arrived.is_none());
        let at = arrived.unwrap_or(now);
        let early_ns = if arrived.is_some() { 0 } else { Stamp::NOT_EXACT };
        let late_ns = u32::try_from(now.since(at).0).unwrap_or(u32::MAX);
        Stamp { at, late_ns, early_ns, kernel: arrived.is_some() }
    }

    // ----- second half: decrypt, parse, judge ----------------------------------------------------------------

    fn digest(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        let arena = std::mem::take(&mut self.arena);
        for &((index, serial), arrival) in &arrivals {
            // A request that is sent again may already have taken the slot of its first attempt.
            if self.slots[index].as_ref().is_none_or(|slot| slot.serial != serial) {
                continue;
            }
            match arrival {
                Arrival::Bytes { start, len, stamp } => self.bytes(index, stamp, &arena[start..start + len]),
                Arrival::Closed => self.end_of_stream(index, End::Eof),
                Arrival::Broken { code } => self.broken(index, &io::Error::from_raw_os_error(code)),
            }
        }
        self.arena = arena;
        self.used = 0;
        self.arrivals = arrivals;
        self.arrivals.clear();
    }

    fn bytes(&mut self, index: usize, stamp: Stamp, raw: &[u8]) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let connection = &mut slot.assignment.connection;
        if !connection.is_encrypted() {
            return self.answer(index, stamp, raw);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let decrypted = connection.decrypt(raw, &mut plain);
        if slot.assignment.stage == Stage::Opening {
            match &decrypted {
                Ok(_) => self.advance(index),
                Err(e) => self.connect_failed(index, ConnectFault::Tls, e.to_string()),
            }
        } else {
            if !plain.is_empty() {
                self.answer(index, stamp, &plain);
            }
            match &decrypted {
                Ok(false) => {}
                Ok(true) => self.end_of_stream(index, End::Eof),
                Err(_) => self.end_of_stream(index, End::Reset),
            }
        }
        self.plain = plain;
    }

    fn answer(&mut self, index: usize, mut stamp: Stamp, bytes: &[u8]) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let running = &mut slot.assignment.running;
        stamp.at = stamp.at.max(running.latest);
        running.latest = stamp.at;
        let progress = running.exchange.push(stamp, bytes);
        // Once an answer has begun the request is never sent again, and long prompts would fill the memory.
        if slot.assignment.stage == Stage::Waiting {
            running.prepared.bytes = Vec::new();
        }
        if progress.saw_byte {
            running.deadlines.on_byte(stamp.at);
        }
        if progress.first_token {
            running.deadlines.on_token(stamp.at);
        }
        if progress.complete {
            self.finish(index, End::Complete, stamp.at, progress.keep_alive);
        }
    }

    fn broken(&mut self, index: usize, error: &io::Error) {
        match self.slots[index].as_ref().map(|slot| slot.assignment.stage) {
            Some(Stage::Opening) => {
                self.connect_failed(index, crate::release::io_fault(error), error.to_string());
            }
            _ => self.end_of_stream(index, End::Reset),
        }
    }

    fn end_of_stream(&mut self, index: usize, end: End) {
        let now = self.shared.clock.now();
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        if slot.assignment.stage == Stage::Opening {
            let message = "the connection was closed before it was usable".to_owned();
            return self.connect_failed(index, ConnectFault::Other, message);
        }
        match end {
            End::Reset => slot.assignment.running.exchange.reset(),
            _ => slot.assignment.running.exchange.eof(),
        }
        self.finish(index, end, now, false);
    }

    // ----- opening and sending -------------------------------------------------------------------------------

    /// Moves a connection on as far as the kernel allows: TCP, TLS, request.
    fn advance(&mut self, index: usize) {
        let now = self.shared.clock.now();
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        if slot.assignment.stage == Stage::Opening {
            match open(&mut slot.assignment.connection) {
                Ok(false) => return,
                Ok(true) => {}
                Err((fault, message)) => return self.connect_failed(index, fault, message),
            }
            let running = &mut slot.assignment.running;
            running.deadlines.connected();
            // A request sent once more keeps the instants of its first attempt.
            if running.timeline.instants.sent.is_none() {
                running.timeline.instants.connected = Some(now);
            }
            slot.assignment.stage = Stage::Sending;
        }
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let connection = &mut slot.assignment.connection;
        if slot.assignment.stage != Stage::Sending {
            // Only TLS has something left to say after the request: key updates and alerts.
            if connection.write(&[]).is_err() {
                self.end_of_stream(index, End::Reset);
            }
            return;
        }
        let running = &mut slot.assignment.running;
        match send_some(connection, running, &self.shared.clock) {
            Ok(true) => {
                slot.assignment.stage = Stage::Waiting;
                let token = Token(index);
                let readable =
                    self.poll.registry().reregister(&mut connection.stream, token, Interest::READABLE);
                if let Some((at, _)) = running.deadlines.next() {
                    self.alarms.push(Reverse((at, (index, slot.serial))));
                }
                if readable.is_err() {
                    self.end_of_stream(index, End::Reset);
                }
            }
            Ok(false) => {}
            Err(_) => self.end_of_stream(index, End::Reset),
        }
    }

    fn connect_failed(&mut self, index: usize, fault: ConnectFault, message: String) {
        let now = self.shared.clock.now();
        self.finish(index, End::Connect { fault, message }, now, false);
    }

    // ----- the end of a request ------------------------------------------------------------------------------

    fn finish(&mut self, index: usize, end: End, at: Nanos, keep_alive: bool) {
        let Some(slot) = self.remove(index) else { return };
        let Assignment { mut connection, mut running, .. } = slot.assignment;
        connection.idle_since = at;
        if deserves_fresh_connection(&running, &end) {
            running.timeline.connection.stale_retries += 1;
            return self.resend(running, connection.target);
        }
        let Running { mut timeline, prepared, exchange, deadlines, latest, .. } = *running;
        let ended_by_us = matches!(end, End::Cancelled(_) | End::Timeout(_));
        let mut reply = exchange.finish(end);
        if reply.refused_usage && prepared.asks_usage && !ended_by_us {
            self.shared.feed.stop_asking_usage();
            timeline.notes.push("the server refuses to report usage; sent again without asking".to_owned());
            let prepared = self.shared.feed.build(prepared.id);
            let exchange = Exchange::new(prepared.reply);
            let again = Running { timeline, prepared, exchange, deadlines, written: 0, latest };
            return self.resend(Box::new(again), connection.target);
        }
        let id = prepared.id;
        let texts = std::mem::take(&mut reply.text);
        reply.apply_to(&mut timeline);
        timeline.instants.closed = Some(at.max(latest));
        let failed = !timeline.outcome.is_ok() && !timeline.outcome.is_censored();
        let connection = keep_alive.then_some(connection);
        self.tell(ToRelease::Ended { id, failed, connection });
        self.deliver(Finished { timeline, texts });
    }

    /// Sends the request once more on a connection of its own. The start times stay.
    fn resend(&mut self, mut running: Box<Running>, target: usize) {
        let id = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        let now = self.shared.clock.now();
        running.written = 0;
        running.exchange = Exchange::new(running.prepared.reply);
        running.timeline.instants.connect_start = None;
        running.timeline.instants.connected = None;
        let stale_retries = running.timeline.connection.stale_retries;
        running.timeline.connection = ConnectionUse { id, stale_retries, ..ConnectionUse::default() };
        match Connection::begin(id, target, &self.shared.targets[target]) {
            Ok(mut connection) => {
                connection.uses = 1;
                running.latest = now.max(running.latest);
                self.adopt(Assignment { connection, running, stage: Stage::Opening });
            }
            Err(error) => {
                let id = running.prepared.id;
                let finished = never_connected(*running, &error, now);
                self.tell(ToRelease::Ended { id, failed: true, connection: None });
                self.deliver(finished);
            }
        }
    }

    fn deliver(&mut self, finished: Finished) {
        if let Err(TrySendError::Full(finished)) = self.finished.try_send(finished) {
            self.stats.sink_stalls += 1;
            // The caller is gone only when the run is being torn down; then nobody wants the record.
            drop(self.finished.send(finished));
        }
    }

    fn tell(&self, message: ToRelease) {
        // The release thread outlives its receivers; if it has panicked the run is over anyway.
        drop(self.release.send(message));
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
        self.slots[index] = Some(Slot { assignment, serial: self.serial });
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

/// The record of a request whose connection could not even be begun.
pub(crate) fn never_connected(running: Running, error: &OpenError, now: Nanos) -> Finished {
    let Running { mut timeline, exchange, .. } = running;
    let (fault, message) = crate::release::open_fault(error);
    exchange.finish(End::Connect { fault, message }).apply_to(&mut timeline);
    timeline.instants.closed = Some(now);
    Finished { timeline, texts: Vec::new() }
}

/// Whether TCP and TLS are up, or why they never will be.
fn open(connection: &mut Connection) -> Result<bool, (ConnectFault, String)> {
    match connection.tcp_is_up() {
        Ok(false) => return Ok(false),
        Ok(true) => {}
        Err(e) => return Err((crate::release::io_fault(&e), e.to_string())),
    }
    connection.is_open().map_err(|e| (ConnectFault::Tls, e.to_string()))
}

/// Writes what the kernel takes; `true` when the whole request is out.
pub(crate) fn send_some(
    connection: &mut Connection,
    running: &mut Running,
    clock: &RunClock,
) -> io::Result<bool> {
    let rest = &running.prepared.bytes[running.written..];
    if running.timeline.instants.sent.is_none() {
        let now = clock.now();
        running.timeline.instants.sent = Some(now);
        running.latest = running.latest.max(now);
        running.deadlines.on_sent(now);
    }
    running.written += connection.write(rest)?;
    let all = running.written == running.prepared.bytes.len() && !connection.wants_write();
    if all {
        running.timeline.instants.sent_all = Some(clock.now());
    }
    Ok(all)
}

/// A connection that had been idle and died before any byte of the answer was already dead when it was taken: the
/// server never saw the request. It is sent once more, and the first start time is kept. The same holds for a
/// connection that was opened ahead and never used: servers close these, too.
fn deserves_fresh_connection(running: &Running, end: &End) -> bool {
    matches!(end, End::Eof | End::Reset)
        && running.timeline.connection.idle > Nanos::ZERO
        && running.timeline.connection.stale_retries == 0
        && !running.exchange.has_response_bytes()
}
