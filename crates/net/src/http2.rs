//! HTTP/2 as a stated condition: streams share one connection per target.
//!
//! Many streams on one connection share one TCP queue, so an arrival can be held up by another stream's data, and
//! the kernel's stamp of a read belongs to no stream in particular. Therefore this path takes the time at which
//! the library hands over a frame, says so in every chunk, and is never the default. For the same reason `sent` and
//! `sent_all` are the times at which the request was handed to the library. Framing, flow control and HPACK come from
//! the `h2` crate.
//!
//! A request that has to wait for a connection or for a stream on it is not yet sent: the wait lies between its release
//! and `sent`, where every ruler that starts at the release or the schedule sees it.

mod connections;

use crate::inbox::Outbox;
use crate::receive::{Finished, ReceiveStats, Running, Shared, ToReceive};
use crate::records::RecordSender;
use crate::release::ToRelease;
use crate::sys;
use bytes::Bytes;
use connections::{Connections, Place, SharedConnection, request_head};
use goodput_core::outcome::{CancelCause, TimeoutPhase};
use goodput_core::time::Nanos;
use goodput_wire::Stamp;
use goodput_wire::reply::{End, Reply, ReplyReader};
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet, LocalSet};
use tokio::time::{Instant, sleep_until};

/// The release thread's end of the HTTP/2 thread.
pub(crate) struct Http2Outlet {
    inbox: UnboundedSender<ToReceive>,
}

impl Http2Outlet {
    pub(crate) fn send(&self, message: ToReceive) {
        // A thread that is gone has already failed the run.
        drop(self.inbox.send(message));
    }
}

/// The thread that owns all HTTP/2 connections.
pub(crate) struct Http2Thread {
    inbox: UnboundedReceiver<ToReceive>,
    release: Outbox<ToRelease>,
    finished: RecordSender,
    shared: Shared,
}

/// What all streams share.
struct Context {
    release: Outbox<ToRelease>,
    finished: RecordSender,
    shared: Shared,
    connections: Connections,
    /// Pieces of bodies that came.
    reads: Cell<u64>,
    sink_stalls: Cell<u64>,
}

impl Http2Thread {
    pub(crate) fn new(
        release: Outbox<ToRelease>,
        finished: RecordSender,
        shared: Shared,
    ) -> (Http2Outlet, Self) {
        let (inbox, messages) = unbounded_channel();
        (Http2Outlet { inbox }, Self { inbox: messages, release, finished, shared })
    }

    /// Runs until told to stop.
    pub(crate) fn run(self) -> io::Result<ReceiveStats> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = Rc::new(Context {
            release: self.release,
            finished: self.finished,
            connections: Connections::new(self.shared.clock),
            shared: self.shared,
            reads: Cell::new(0),
            sink_stalls: Cell::new(0),
        });
        LocalSet::new().block_on(&runtime, serve(self.inbox, context.clone()));
        Ok(ReceiveStats {
            reads: context.reads.get(),
            sink_stalls: context.sink_stalls.get(),
            cpu_ns: sys::thread_cpu_ns(),
            ..ReceiveStats::default()
        })
    }
}

async fn serve(mut inbox: UnboundedReceiver<ToReceive>, context: Rc<Context>) {
    let (cancel, cancelled) = watch::channel(None);
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            message = inbox.recv() => match message {
                Some(ToReceive::AdoptStream(running)) => {
                    let stream = Stream { context: context.clone(), cancelled: cancelled.clone() };
                    streams.spawn_local(stream.carry(running));
                }
                Some(ToReceive::CancelAll(cause)) => {
                    cancel.send_replace(Some(cause));
                }
                Some(ToReceive::Stop) | None => break,
                Some(ToReceive::Adopt(_)) => unreachable!("connections go to the HTTP/1 threads"),
            },
            Some(ended) = streams.join_next() => fail_together(ended),
        }
    }
    // Streams that have been cancelled may not have had a turn since; none may end without its record.
    cancel.send_if_modified(|cause| cause.is_none() && cause.replace(CancelCause::RunEnd).is_none());
    while let Some(ended) = streams.join_next().await {
        fail_together(ended);
    }
}

/// A stream that panics takes the thread with it, as a connection does on an HTTP/1 thread.
fn fail_together(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// One request on its stream.
struct Stream {
    context: Rc<Context>,
    cancelled: watch::Receiver<Option<CancelCause>>,
}

impl Stream {
    async fn carry(mut self, mut running: Box<Running>) {
        let feed = self.context.shared.feed.clone();
        let mut reply = self.attempt(&mut running).await;
        if reply.refused_usage && running.prepared.asks_usage && self.cancelled.borrow().is_none() {
            feed.stop_asking_usage();
            let note = "the server refuses to report usage; sent again without asking";
            running.timeline.notes.push(note.to_owned());
            running.prepared = feed.build(running.prepared.id);
            reply = self.attempt(&mut running).await;
        }
        let Running { mut timeline, prepared, latest, .. } = *running;
        let texts = std::mem::take(&mut reply.text);
        reply.apply_to(&mut timeline);
        timeline.instants.closed = Some(self.now().max(latest));
        let failed = !timeline.outcome.is_ok() && !timeline.outcome.is_censored();
        // The release thread outlives this one; if it has panicked the run is over anyway.
        self.context.release.send(ToRelease::Ended { id: prepared.id, failed, connection: None });
        self.context.deliver(Finished { timeline, texts });
    }

    async fn attempt(&mut self, running: &mut Running) -> Reply {
        let mut reader = ReplyReader::new(running.prepared.reply);
        let end = self.exchange(running, &mut reader).await.unwrap_or_else(|end| end);
        reader.finish(end)
    }

    /// Sends the request and reads the answer. How it ended is the result either way.
    async fn exchange(&mut self, running: &mut Running, reader: &mut ReplyReader) -> Result<End, End> {
        let context = self.context.clone();
        let prepared = &mut running.prepared;
        let target = &context.shared.targets[prepared.target];
        let head = request_head(target, &prepared.head, &prepared.request_id)?;
        let body = Bytes::from(std::mem::take(&mut prepared.bytes)).slice(prepared.body_at..);
        // The place is held until the stream is over.
        let place = self.open(running).await?;
        let now = self.now();
        running.latest = running.latest.max(now);
        running.deadlines.on_sent(now);
        let sent = &mut running.timeline.instants.sent;
        *sent = sent.or(Some(now));
        let response = send(&place.sender, head, body)?;
        running.timeline.instants.sent_all = Some(self.now());
        self.listen(response, running, reader).await
    }

    fn now(&self) -> Nanos {
        self.context.shared.clock.now()
    }

    /// Finds a connection and a place on it, opening a connection if there is none that lives.
    async fn open(&mut self, running: &mut Running) -> Result<Place, End> {
        loop {
            let context = self.context.clone();
            let index = running.prepared.target;
            let getting = context.connections.get(index, &context.shared.targets[index]);
            let (connection, opening) = self
                .before(running.deadlines.next(), getting)
                .await?
                .map_err(|(fault, message)| End::Connect { fault, message })?;
            running.deadlines.connected();
            // A request sent once more keeps the instants of its first attempt.
            if running.timeline.instants.sent.is_none()
                && let Some((started, connected)) = opening
            {
                running.timeline.instants.connect_start = Some(started);
                running.timeline.instants.connected = Some(connected);
            }
            if let Some(place) = self.place(&connection, running).await? {
                running.timeline.connection.id = connection.id;
                running.timeline.connection.uses_before = place.uses_before;
                return Ok(place);
            }
        }
    }

    /// A place on this connection; `None` if it broke meanwhile.
    async fn place(
        &mut self,
        connection: &SharedConnection,
        running: &mut Running,
    ) -> Result<Option<Place>, End> {
        let permit = match connection.free_permit() {
            Some(permit) => permit,
            None => {
                let most = connection.most_streams;
                running.timeline.notes.push(format!("waited for a stream: the server allows {most} at once"));
                self.before(running.deadlines.next(), connection.permit()).await?
            }
        };
        Ok(connection.place(permit).await)
    }

    /// Waits for `work`, but not beyond the limit or the run's end.
    async fn before<T>(
        &mut self,
        limit: Option<(Nanos, TimeoutPhase)>,
        work: impl Future<Output = T>,
    ) -> Result<T, End> {
        let (at, phase) = limit.unwrap_or((Nanos::MAX, TimeoutPhase::Total));
        let left = at.since(self.now()).0.min(u64::from(u32::MAX) * 1_000_000);
        let limit = Instant::now() + Duration::from_nanos(left);
        tokio::select! {
            biased;
            done = work => Ok(done),
            cause = self.cancelled.wait_for(Option::is_some) => {
                Err(End::Cancelled(cause.ok().and_then(|c| *c).unwrap_or(CancelCause::RunEnd)))
            }
            () = sleep_until(limit) => Err(End::Timeout(phase)),
        }
    }

    async fn listen(
        &mut self,
        response: ResponseFuture,
        running: &mut Running,
        reader: &mut ReplyReader,
    ) -> Result<End, End> {
        let response = self.before(running.deadlines.next(), response).await?.map_err(|e| broken(&e))?;
        running.latest = self.now().max(running.latest);
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        reader.head(running.latest, response.status().as_u16(), header(http::header::CONTENT_TYPE));
        if let Some(value) = header(http::header::RETRY_AFTER) {
            reader.retry_after(value);
        }
        let mut body = response.into_body();
        while let Some(data) = self.before(running.deadlines.next(), body.data()).await? {
            let data = data.map_err(|e| broken(&e))?;
            let at = self.now().max(running.latest);
            running.latest = at;
            self.context.reads.set(self.context.reads.get() + 1);
            reader.body(Stamp::of_read(at), &data);
            if reader.is_broken() {
                break;
            }
            running.deadlines.on_byte(at);
            if reader.has_token() {
                running.deadlines.on_token(at);
            }
            // The windows are as large as they can be; giving capacity back keeps them so.
            drop(body.flow_control().release_capacity(data.len()));
        }
        Ok(End::Complete)
    }
}

impl Context {
    fn deliver(&self, finished: Finished) {
        let stalls = u64::from(self.finished.send(finished));
        self.sink_stalls.set(self.sink_stalls.get() + stalls);
    }
}

fn send(sender: &SendRequest<Bytes>, head: Request<()>, body: Bytes) -> Result<ResponseFuture, End> {
    let (response, mut stream) = sender.clone().send_request(head, false).map_err(|e| broken(&e))?;
    stream.reserve_capacity(body.len());
    stream.send_data(body, true).map_err(|e| broken(&e))?;
    Ok(response)
}

/// What the peer did ends as a reset, like its counterpart on HTTP/1; what `h2` objects to is a broken protocol.
fn broken(error: &h2::Error) -> End {
    if error.is_remote() || error.is_io() {
        End::Reset
    } else {
        End::Protocol { message: format!("HTTP/2: {error}") }
    }
}
