//! One run in real time: starts the threads, keeps the caller the only writer of records, and says afterwards what
//! the client itself did.

use crate::clock::RunClock;
use crate::connection::Connection;
use crate::feed::{Feed, FeedBounds, RequestSource};
use crate::inbox::{Inbox, Outbox, inbox};
use crate::limits;
use crate::receive::{Channels, Finished, ReceiveStats, ReceiveThread, Shared};
use crate::records::{RecordReceiver, RecordSender, WAITING_BYTES_MAX, records};
use crate::release::{Lines, Outlet, ReleaseStats, ReleaseThread, ToRelease};
use crate::target::Target;
use crate::{http2, warm};
use goodput_core::plan::{HttpVersion, Timeouts};
use goodput_core::time::Nanos;
use goodput_drive::driver::{Driver, DriverConfig, Progress};
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often the caller hears from a run in which nothing ends.
const TICK: Duration = Duration::from_millis(50);
/// Time between the start of the threads and the run's epoch, so that the first arrivals find everything in place.
const RUN_UP: Duration = Duration::from_millis(5);

/// What a run needs to know beside its requests.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Where requests go.
    pub targets: Vec<Target>,
    /// When they go.
    pub driver: DriverConfig,
    /// Limits on each.
    pub timeouts: Timeouts,
    /// HTTP version.
    pub http: HttpVersion,
    /// Connections opened beforehand, over all targets.
    pub connections: usize,
    /// How long opening them may take.
    pub opening_limit: Duration,
    /// Receive threads.
    pub receive_threads: usize,
    /// What the feeder keeps ready.
    pub feed: FeedBounds,
    /// CPU time that a receive thread uses up for every event it parses: artificial work, to prove that its own work does
    /// not change what is measured.
    pub receive_work: Option<Duration>,
}

/// Why a run could not be made.
#[derive(Debug, Error)]
pub enum RunError {
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// Too few files may be open.
    #[error(transparent)]
    Files(#[from] limits::FileLimit),
    /// The caller could not keep the records.
    #[error("the record of the run cannot be written: {0}")]
    Sink(String),
    /// A thread of the run ended in a way that it never should.
    #[error("the {0} thread failed; the records so far are kept")]
    Thread(&'static str),
}

/// What the client did, for the manifest and for judging the client itself.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// Unix time of the run's epoch, in nanoseconds.
    pub wall_at_epoch_ns: u64,
    /// The run's time at its end, with the Unix time of the same moment.
    pub end_anchor: (Nanos, u64),
    /// What reading the clock costs, in nanoseconds.
    pub clock_cost_ns: f64,
    /// The release thread.
    pub release: ReleaseStats,
    /// The receive threads, added up.
    pub receive: ReceiveStats,
    /// Receive threads.
    pub receive_threads: usize,
    /// Connections that were ready before the start.
    pub warm_connections: usize,
    /// How long opening each took, in order of completion.
    pub opening: Vec<Duration>,
    /// Why fewer were ready than asked, if so.
    pub opening_failure: Option<String>,
    /// CPU time of the whole process during the run, over the run's time: cores used.
    pub cores_used: f64,
    /// The same CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Whether the server refused to report usage.
    pub usage_refused: bool,
    /// CPU time used up for every event on purpose.
    pub receive_work: Option<Duration>,
    /// The driver's last word.
    pub progress: Option<Progress>,
}

/// What the caller is told while a run goes on.
pub enum Record {
    /// A request is over.
    Finished(Box<Finished>),
    /// Nothing new; a good moment to flush.
    Tick,
}

/// A handle on a run for other threads: progress and Ctrl-C.
#[derive(Clone)]
pub struct RunHandle {
    release: Outbox<ToRelease>,
    progress: Arc<Mutex<Progress>>,
}

impl RunHandle {
    /// Asks the run to end: the first call cancels what is running, a second one stops waiting for it.
    pub fn interrupt(&self) {
        // A run that is already over needs no interrupt.
        self.release.send(ToRelease::Interrupt);
    }

    /// How far the run is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that is ready to start: connections open, first requests encoded.
pub struct PreparedRun {
    config: RunConfig,
    driver: Driver,
    feed: Arc<Feed>,
    feeder: JoinHandle<()>,
    warmed: warm::Warmed,
    to_release: Outbox<ToRelease>,
    release_inbox: Inbox<ToRelease>,
    progress: Arc<Mutex<Progress>>,
}

impl PreparedRun {
    /// Checks limits, opens connections and fills the feed.
    ///
    /// # Errors
    /// [`RunError`] if this machine does not allow what is asked.
    pub fn prepare(config: RunConfig, source: Arc<dyn RequestSource>) -> Result<Self, RunError> {
        let slots = config.driver.load.concurrency.map_or(0, u64::from);
        let wanted = slots.max(config.connections as u64);
        let files = limits::raise_open_files();
        limits::check_open_files(wanted, files)?;
        limits::make_room_for_files(files);
        let feed = Arc::new(Feed::new(source, config.feed));
        let feeder = spawn("feeder", {
            let feed = feed.clone();
            move || feed.work()
        })?;
        feed.wait_until_full();
        let warmed = match config.http {
            HttpVersion::Http1 => {
                warm::open_connections(&config.targets, config.connections, config.opening_limit)
                    .map_err(|source| RunError::System { what: "open connections", source })?
            }
            HttpVersion::Http2 => warm::Warmed::default(),
        };
        let (to_release, release_inbox) = inbox();
        let driver = Driver::new(config.driver.clone());
        let progress = Arc::new(Mutex::new(driver.progress()));
        Ok(Self { config, driver, feed, feeder, warmed, to_release, release_inbox, progress })
    }

    /// A handle for progress and Ctrl-C.
    #[must_use]
    pub fn handle(&self) -> RunHandle {
        RunHandle { release: self.to_release.clone(), progress: self.progress.clone() }
    }

    /// Runs to the end, giving each record to `sink` on the calling thread. If the sink fails the run is ended and
    /// its error returned; records that come after that are dropped.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn execute(self, mut sink: impl FnMut(Record) -> Result<(), String>) -> Result<RunFacts, RunError> {
        let clock = RunClock::start_after(RUN_UP);
        let cpu_before = limits::process_cpu_ns();
        let (finished, records) = records(WAITING_BYTES_MAX);
        let shared = Shared {
            clock,
            feed: self.feed.clone(),
            targets: self.config.targets.clone().into(),
            next_connection: Arc::new(AtomicU32::new(self.warmed.ready.len() as u32)),
            receive_work: self.config.receive_work,
        };
        let mut facts = RunFacts {
            wall_at_epoch_ns: clock.wall_at_epoch_ns(),
            clock_cost_ns: clock.cost_ns(),
            receive_threads: self.config.receive_threads.max(1),
            receive_work: self.config.receive_work,
            warm_connections: self.warmed.ready.len(),
            opening: self.warmed.opening,
            opening_failure: self.warmed.failure,
            ..RunFacts::default()
        };
        let (lines, receivers) = match self.config.http {
            HttpVersion::Http1 => {
                let idle = sort_by_target(self.warmed.ready, self.config.targets.len());
                start_http1(facts.receive_threads, idle, &self.to_release, &finished, &shared)?
            }
            HttpVersion::Http2 => start_http2(&self.to_release, &finished, &shared)?,
        };
        let release = ReleaseThread {
            driver: self.driver,
            inbox: self.release_inbox,
            lines,
            finished,
            shared,
            timeouts: self.config.timeouts,
            progress: self.progress.clone(),
            failed_at_once: Vec::new(),
        };
        let releaser = spawn("release", move || release.run())?;
        let sunk = pump(&records, &self.to_release, &mut sink);
        let released = releaser.join();
        self.feed.stop();
        facts.release = released.map_err(|_| RunError::Thread("release"))?;
        for receiver in receivers {
            let stats = receiver.join().map_err(|_| RunError::Thread("receive"))?;
            add(
                &mut facts.receive,
                stats.map_err(|source| RunError::System { what: "wait for sockets", source })?,
            );
        }
        self.feeder.join().map_err(|_| RunError::Thread("feeder"))?;
        facts.end_anchor = clock.anchor();
        let elapsed = facts.end_anchor.0.0.max(1);
        facts.cpu_ns = limits::process_cpu_ns() - cpu_before;
        facts.cores_used = facts.cpu_ns as f64 / elapsed as f64;
        facts.usage_refused = !self.feed.asks_usage();
        facts.progress = Some(*self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        sunk.map(|()| facts)
    }
}

/// Moves records to the caller until every sender is gone.
fn pump(
    records: &RecordReceiver,
    to_release: &Outbox<ToRelease>,
    sink: &mut impl FnMut(Record) -> Result<(), String>,
) -> Result<(), RunError> {
    let mut failure = None;
    loop {
        let record = match records.recv_timeout(TICK) {
            Ok(finished) => Record::Finished(finished),
            Err(RecvTimeoutError::Timeout) => Record::Tick,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if failure.is_none()
            && let Err(message) = sink(record)
        {
            failure = Some(message);
            to_release.send(ToRelease::Fatal);
        }
    }
    failure.map_or(Ok(()), |message| Err(RunError::Sink(message)))
}

type Receivers = Vec<JoinHandle<io::Result<ReceiveStats>>>;

fn start_http1(
    threads: usize,
    idle: Vec<Vec<Connection>>,
    to_release: &Outbox<ToRelease>,
    finished: &RecordSender,
    shared: &Shared,
) -> Result<(Lines, Receivers), RunError> {
    let (mut outlets, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..threads {
        let (inbox, messages) = channel();
        let channels = Channels { inbox: messages, release: to_release.clone(), finished: finished.clone() };
        let (thread, waker) = ReceiveThread::new(channels, shared.clone())
            .map_err(|source| RunError::System { what: "watch sockets", source })?;
        let farewell = Farewell(to_release.clone());
        receivers.push(spawn("receive", move || farewell.after(|| thread.run()))?);
        outlets.push(Outlet { inbox, waker });
    }
    Ok((Lines::Http1 { idle, outlets }, receivers))
}

fn start_http2(
    to_release: &Outbox<ToRelease>,
    finished: &RecordSender,
    shared: &Shared,
) -> Result<(Lines, Receivers), RunError> {
    let (outlet, thread) = http2::Http2Thread::new(to_release.clone(), finished.clone(), shared.clone());
    let farewell = Farewell(to_release.clone());
    let receiver = spawn("receive", move || farewell.after(|| thread.run()))?;
    Ok((Lines::Http2(outlet), vec![receiver]))
}

/// Tells the release thread that a receive thread is gone, however it ended: by an error or a panic, too.
struct Farewell(Outbox<ToRelease>);

impl Farewell {
    /// Does the work and then says farewell.
    fn after<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // At the proper end of a run the release thread has gone first.
        self.0.send(ToRelease::ReceiverGone);
    }
}

fn sort_by_target(ready: Vec<Connection>, targets: usize) -> Vec<Vec<Connection>> {
    let mut idle: Vec<Vec<Connection>> = (0..targets).map(|_| Vec::new()).collect();
    for connection in ready {
        idle[connection.target].push(connection);
    }
    idle
}

fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| RunError::System { what: "start a thread", source })
}

fn add(sum: &mut ReceiveStats, one: ReceiveStats) {
    sum.wakeups += one.wakeups;
    sum.reads += one.reads;
    sum.stamped_reads += one.stamped_reads;
    sum.rejected_stamps += one.rejected_stamps;
    sum.sink_stalls += one.sink_stalls;
    sum.cpu_ns += one.cpu_ns;
}
