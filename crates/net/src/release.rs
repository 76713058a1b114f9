//! The release thread: runs the load driver on an absolute schedule and writes requests.
//!
//! It sleeps until the next arrival is due or a message comes, whichever is first, and never for "a gap after
//! the last one", so that lateness cannot add up. It owns the idle connections and writes each request itself;
//! only then does a receive thread take the connection over.

use crate::connection::{Connection, OpenError};
use crate::feed::Prepared;
use crate::http2::Http2Outlet;
use crate::inbox::Inbox;
use crate::receive::{Assignment, Running, Shared, Stage, ToReceive, never_connected, send_some};
use crate::records::RecordSender;
use crate::sys;
use goodput_core::outcome::{CancelCause, ConnectFault};
use goodput_core::plan::Timeouts;
use goodput_core::time::Nanos;
use goodput_core::timeline::Timeline;
use goodput_drive::deadline::Deadlines;
use goodput_drive::driver::{Action, Driver, Event, Progress, RequestId};
use goodput_wire::exchange::Exchange;
use mio::Waker;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest sleep: how soon a change of progress is published at the latest.
const PATIENCE: Duration = Duration::from_millis(100);

/// However the release thread ends, by the end of the run or by a panic, the receive threads end with it.
impl Drop for Lines {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the release thread is told.
pub(crate) enum ToRelease {
    /// A request is over; its connection, if it can be used again.
    Ended { id: RequestId, failed: bool, connection: Option<Connection> },
    /// The user wants the run to end.
    Interrupt,
    /// The run cannot go on: nobody keeps its records.
    Fatal,
    /// A receive thread has ended. Before the end of the run this means that it has failed, and that its requests will
    /// never be reported.
    ReceiverGone,
}

/// A receive thread, as the release thread sees it. The release thread is the only one that sends, so it never has to
/// wait for another sender.
pub(crate) struct Outlet {
    pub(crate) inbox: Sender<ToReceive>,
    pub(crate) waker: Arc<Waker>,
}

impl Outlet {
    pub(crate) fn send(&self, message: ToReceive) {
        // A receive thread that is gone has already failed the run.
        drop(self.inbox.send(message));
        drop(self.waker.wake());
    }
}

/// How requests leave.
pub(crate) enum Lines {
    /// One request per connection at a time.
    Http1 {
        /// Idle connections by target, most recently used last.
        idle: Vec<Vec<Connection>>,
        /// The receive threads.
        outlets: Vec<Outlet>,
    },
    /// Streams on a shared connection, all on a thread of their own.
    Http2(Http2Outlet),
}

impl Lines {
    fn cancel_all(&self, cause: CancelCause) {
        match self {
            Self::Http1 { outlets, .. } => outlets.iter().for_each(|o| o.send(ToReceive::CancelAll(cause))),
            Self::Http2(outlet) => outlet.send(ToReceive::CancelAll(cause)),
        }
    }

    fn stop(&self) {
        match self {
            Self::Http1 { outlets, .. } => outlets.iter().for_each(|o| o.send(ToReceive::Stop)),
            Self::Http2(outlet) => outlet.send(ToReceive::Stop),
        }
    }

    fn put_back(&mut self, connection: Connection) {
        if let Self::Http1 { idle, .. } = self {
            idle[connection.target].push(connection);
        }
    }

    /// The most recently used idle connection that is still alive.
    fn ready_connection(&mut self, target: usize, stats: &mut ReleaseStats) -> Option<Connection> {
        let Self::Http1 { idle, .. } = self else { return None };
        while let Some(connection) = idle[target].pop() {
            if !connection.is_stale() {
                return Some(connection);
            }
            stats.stale_dropped += 1;
        }
        None
    }
}

/// The release thread's state.
pub(crate) struct ReleaseThread {
    pub(crate) driver: Driver,
    pub(crate) inbox: Inbox<ToRelease>,
    pub(crate) lines: Lines,
    pub(crate) finished: RecordSender,
    pub(crate) shared: Shared,
    pub(crate) timeouts: Timeouts,
    pub(crate) progress: Arc<Mutex<Progress>>,
    /// Requests whose connection could not even be begun; the driver hears of them in its next turn.
    pub(crate) failed_at_once: Vec<RequestId>,
}

/// What the release thread saw of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReleaseStats {
    /// Requests written on a connection that was ready.
    pub reused: u64,
    /// Requests that had to wait for a new connection.
    pub opened: u64,
    /// Idle connections found dead before use and dropped.
    pub stale_dropped: u64,
    /// Whether it had real-time priority, which the system may deny.
    pub real_time: bool,
    /// CPU time used by this thread, in nanoseconds.
    pub cpu_ns: u64,
    /// First measured instant.
    pub measured_from: Option<Nanos>,
}

impl ReleaseThread {
    /// Runs the driver to its end.
    pub(crate) fn run(mut self) -> ReleaseStats {
        let real_time = sys::be_punctual();
        self.shared.clock.wait_for_epoch();
        let mut stats = ReleaseStats { real_time, ..ReleaseStats::default() };
        let mut actions = Vec::new();
        let mut over = false;
        self.driver.on(self.shared.clock.now(), Event::Tick, &mut actions);
        loop {
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Release { id, scheduled } => self.release(id, scheduled, &mut stats),
                    Action::CancelAll { cause } => self.lines.cancel_all(cause),
                    Action::Finished => over = true,
                }
            }
            self.publish();
            if over {
                break;
            }
            self.wait(&mut actions);
        }
        stats.measured_from = self.driver.measured_from();
        stats.cpu_ns = sys::thread_cpu_ns();
        stats
    }

    /// Sleeps until something is due or somebody speaks, then lets the driver react.
    fn wait(&mut self, actions: &mut Vec<Action>) {
        if !self.failed_at_once.is_empty() {
            let now = self.shared.clock.now();
            for id in std::mem::take(&mut self.failed_at_once) {
                self.driver.on(now, Event::Ended { id, failed: true }, actions);
            }
            return;
        }
        let now = self.shared.clock.now();
        let patience = self
            .driver
            .next_wakeup()
            .map_or(PATIENCE, |at| Duration::from_nanos(at.since(now).0).min(PATIENCE));
        let mut message = self.inbox.recv_timeout(patience);
        while let Some(heard) = message {
            self.hear(heard, actions);
            message = self.inbox.try_recv();
        }
        let now = self.shared.clock.now();
        if self.driver.next_wakeup().is_some_and(|at| at <= now) {
            self.driver.on(now, Event::Tick, actions);
        }
    }

    fn hear(&mut self, message: ToRelease, actions: &mut Vec<Action>) {
        let now = self.shared.clock.now();
        match message {
            ToRelease::Ended { id, failed, connection } => {
                if let Some(connection) = connection {
                    self.lines.put_back(connection);
                }
                self.driver.on(now, Event::Ended { id, failed }, actions);
            }
            ToRelease::Interrupt => self.driver.on(now, Event::Interrupt, actions),
            ToRelease::Fatal => self.driver.on(now, Event::Fatal, actions),
            ToRelease::ReceiverGone => actions.push(Action::Finished),
        }
    }

    fn publish(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.driver.progress();
    }

    // ----- one request ---------------------------------------------------------------------------------------

    fn release(&mut self, id: RequestId, scheduled: Option<Nanos>, stats: &mut ReleaseStats) {
        let released = self.shared.clock.now();
        let prepared = self.shared.feed.take(id);
        let running = Box::new(start_record(prepared, scheduled, released, &self.timeouts));
        if let Lines::Http2(outlet) = &self.lines {
            return outlet.send(ToReceive::AdoptStream(running));
        }
        match self.lines.ready_connection(running.prepared.target, stats) {
            Some(connection) => {
                stats.reused += 1;
                self.write_now(connection, running);
            }
            None => {
                stats.opened += 1;
                self.open_for(running);
            }
        }
    }

    fn write_now(&self, mut connection: Connection, mut running: Box<Running>) {
        let now = self.shared.clock.now();
        let used = &mut running.timeline.connection;
        used.id = connection.id;
        used.uses_before = connection.uses;
        used.idle = now.since(connection.idle_since);
        connection.uses += 1;
        let stage = match send_some(&mut connection, &mut running, &self.shared.clock) {
            Ok(true) => Stage::Waiting,
            // A failed write shows up again when the receive thread tries, which knows what to do about it.
            Ok(false) | Err(_) => Stage::Sending,
        };
        self.hand_over(Assignment { connection, running, stage });
    }

    fn open_for(&mut self, mut running: Box<Running>) {
        let target = running.prepared.target;
        let id = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        running.timeline.connection.id = id;
        running.timeline.instants.connect_start = Some(self.shared.clock.now());
        match Connection::begin(id, target, &self.shared.targets[target]) {
            Ok(mut connection) => {
                connection.uses = 1;
                self.hand_over(Assignment { connection, running, stage: Stage::Opening });
            }
            Err(error) => {
                self.failed_at_once.push(running.prepared.id);
                self.finished.send_at_once(never_connected(*running, &error, self.shared.clock.now()));
            }
        }
    }

    fn hand_over(&self, assignment: Assignment) {
        if let Lines::Http1 { outlets, .. } = &self.lines {
            let turn = assignment.connection.id as usize % outlets.len();
            outlets[turn].send(ToReceive::Adopt(assignment));
        }
    }
}

fn start_record(
    prepared: Prepared,
    scheduled: Option<Nanos>,
    released: Nanos,
    timeouts: &Timeouts,
) -> Running {
    let mut timeline = Timeline::released(prepared.id.index, prepared.id.phase, scheduled, released);
    timeline.session = prepared.session;
    timeline.turn = prepared.turn;
    timeline.target = u32::try_from(prepared.target).unwrap_or(u32::MAX);
    timeline.request_bytes = (prepared.bytes.len() - prepared.body_at) as u64;
    timeline.planned_input = prepared.planned_input;
    timeline.max_tokens = prepared.reply.max_tokens;
    timeline.ignore_eos = prepared.reply.ignore_eos;
    timeline.choices = prepared.reply.choices;
    let exchange = Exchange::new(prepared.reply);
    let deadlines = Deadlines::new(timeouts, released);
    Running { timeline, prepared, exchange, deadlines, written: 0, latest: released }
}

/// How a connection attempt that failed at once is reported.
pub(crate) fn open_fault(error: &OpenError) -> (ConnectFault, String) {
    match error {
        OpenError::Io(e) => (io_fault(e), e.to_string()),
        OpenError::Tls(e) => (ConnectFault::Tls, e.to_string()),
    }
}

/// Whose fault a failed connection is.
pub(crate) fn io_fault(error: &io::Error) -> ConnectFault {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::EADDRNOTAVAIL | libc::ENOBUFS | libc::ENOMEM) => {
            ConnectFault::ClientLimit
        }
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN) => ConnectFault::Unreachable,
        _ if error.kind() == io::ErrorKind::ConnectionRefused => ConnectFault::Refused,
        _ => ConnectFault::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_ports_is_our_own_fault() {
        let fault = |code| io_fault(&io::Error::from_raw_os_error(code));
        assert_eq!(fault(libc::EADDRNOTAVAIL), ConnectFault::ClientLimit);
        assert_eq!(fault(libc::EMFILE), ConnectFault::ClientLimit);
        assert_eq!(fault(libc::ECONNREFUSED), ConnectFault::Refused);
        assert_eq!(fault(libc::ENETUNREACH), ConnectFault::Unreachable);
        assert_eq!(fault(libc::ECONNABORTED), ConnectFault::Other);
    }
}
