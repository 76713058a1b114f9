//! HTTP/2 as a stated condition: streams share one connection per target.
//!
//! Many streams on one connection share one TCP queue, so an arrival can be held up by another stream's data, and
//! the kernel's stamp of a read belongs to no stream in particular. Therefore this path takes the time at which
//! the library hands over a frame, says so in every chunk, and is never the default. Framing, flow control and
//! HPACK come from the `h2` crate.

use crate::receive::{Finished, ReceiveStats, Running, Shared, ToReceive};
use crate::release::ToRelease;
use crate::sys;
use crate::target::Target;
use bytes::Bytes;
use goodput_core::outcome::{CancelCause, ConnectFault, TimeoutPhase};
use goodput_core::time::Nanos;
use goodput_drive::deadline::Deadlines;
use goodput_wire::Stamp;
use goodput_wire::reply::{End, ReplyReader};
use h2::client::{ResponseFuture, SendRequest};
use http::{Method, Request, Version};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Sender, SyncSender};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

/// Receive windows so large that flow control never paces the server.
const WINDOW: u32 = (1 << 31) - 1;

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
    context: Context,
}

struct Context {
    release: Sender<ToRelease>,
    finished: SyncSender<Finished>,
    shared: Shared,
}

impl Http2Thread {
    pub(crate) fn new(
        release: Sender<ToRelease>,
        finished: SyncSender<Finished>,
        shared: Shared,
    ) -> (Http2Outlet, Self) {
        let (inbox, messages) = unbounded_channel();
        let context = Context { release, finished, shared };
        (Http2Outlet { inbox }, Self { inbox: messages, context })
    }

    /// Runs until told to stop.
    pub(crate) fn run(self) -> io::Result<ReceiveStats> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let reads = LocalSet::new().block_on(&runtime, serve(self.inbox, Rc::new(self.context)));
        Ok(ReceiveStats { reads, cpu_ns: sys::thread_cpu_ns(), ..ReceiveStats::default() })
    }
}

async fn serve(mut inbox: UnboundedReceiver<ToReceive>, context: Rc<Context>) -> u64 {
    let (cancel, cancelled) = watch::channel(None);
    let connections = Rc::new(Connections::default());
    while let Some(message) = inbox.recv().await {
        match message {
            ToReceive::AdoptStream(running) => {
                let stream = Stream {
                    context: context.clone(),
                    connections: connections.clone(),
                    cancelled: cancelled.clone(),
                };
                tokio::task::spawn_local(stream.carry(running));
            }
            ToReceive::CancelAll(cause) => {
                cancel.send_replace(Some(cause));
            }
            ToReceive::Stop => break,
            ToReceive::Adopt(_) => unreachable!("connections go to the HTTP/1 threads"),
        }
    }
    connections.reads.get()
}

/// One shared connection per target, opened by the first stream that needs it and again after it has broken.
#[derive(Default)]
struct Connections {
    open: Mutex<HashMap<usize, Shared2>>,
    next_id: std::cell::Cell<u32>,
    reads: std::cell::Cell<u64>,
}

#[derive(Clone)]
struct Shared2 {
    id: u32,
    sender: SendRequest<Bytes>,
}

impl Connections {
    async fn get(&self, index: usize, target: &Target) -> Result<(Shared2, bool), (ConnectFault, String)> {
        // The lock is held while connecting on purpose: streams that arrive meanwhile share the new connection.
        let mut open = self.open.lock().await;
        if let Some(shared) = open.get(&index)
            && let Ok(sender) = shared.sender.clone().ready().await
        {
            return Ok((Shared2 { id: shared.id, sender }, false));
        }
        let sender = connect(target).await?;
        let shared = Shared2 { id: self.next_id.replace(self.next_id.get() + 1), sender };
        open.insert(index, shared.clone());
        Ok((shared, true))
    }
}

async fn connect(target: &Target) -> Result<SendRequest<Bytes>, (ConnectFault, String)> {
    let io_error = |e: io::Error| (crate::release::io_fault(&e), e.to_string());
    let tcp = TcpStream::connect(target.address).await.map_err(io_error)?;
    tcp.set_nodelay(true).map_err(io_error)?;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let protocol = |e: h2::Error| (ConnectFault::Other, format!("HTTP/2: {e}"));
    match &target.tls {
        None => {
            let (sender, connection) = builder.handshake(tcp).await.map_err(protocol)?;
            tokio::task::spawn_local(async move { drop(connection.await) });
            Ok(sender)
        }
        Some(tls) => {
            let connector = tokio_rustls::TlsConnector::from(tls.config.clone());
            let stream = connector
                .connect(tls.server_name.clone(), tcp)
                .await
                .map_err(|e| (ConnectFault::Tls, e.to_string()))?;
            let (sender, connection) = builder.handshake(stream).await.map_err(protocol)?;
            tokio::task::spawn_local(async move { drop(connection.await) });
            Ok(sender)
        }
    }
}

/// One request on its stream.
struct Stream {
    context: Rc<Context>,
    connections: Rc<Connections>,
    cancelled: watch::Receiver<Option<CancelCause>>,
}

impl Stream {
    async fn carry(mut self, running: Box<Running>) {
        let Running { mut timeline, prepared, mut deadlines, latest, .. } = *running;
        let mut reader = ReplyReader::new(prepared.reply);
        let mut at = latest;
        let body = Bytes::from(prepared.bytes).slice(prepared.body_at..);
        let end = match self.open(prepared.target, &mut timeline, &deadlines).await {
            Err(end) => end,
            Ok(shared) => {
                let target = &self.context.shared.targets[prepared.target];
                let head = request_head(target, &prepared.head, &prepared.request_id);
                let now = self.now();
                timeline.instants.sent = Some(now);
                at = at.max(now);
                deadlines.on_sent(now);
                match send(shared.sender, head, body) {
                    Err(end) => end,
                    Ok(response) => {
                        timeline.instants.sent_all = Some(self.now());
                        self.listen(response, &mut reader, &mut deadlines, &mut at).await
                    }
                }
            }
        };
        let mut reply = reader.finish(end);
        let texts = std::mem::take(&mut reply.text);
        reply.apply_to(&mut timeline);
        timeline.instants.closed = Some(self.now().max(at));
        let failed = !timeline.outcome.is_ok() && !timeline.outcome.is_censored();
        drop(self.context.release.send(ToRelease::Ended { id: prepared.id, failed, connection: None }));
        drop(self.context.finished.send(Finished { timeline, texts }));
    }

    fn now(&self) -> Nanos {
        self.context.shared.clock.now()
    }

    async fn open(
        &mut self,
        target: usize,
        timeline: &mut goodput_core::timeline::Timeline,
        deadlines: &Deadlines,
    ) -> Result<Shared2, End> {
        let started = self.now();
        let connections = self.connections.clone();
        let context = self.context.clone();
        let getting = connections.get(target, &context.shared.targets[target]);
        let (shared, new) = self
            .before_limits(deadlines, getting)
            .await?
            .map_err(|(fault, message)| End::Connect { fault, message })?;
        timeline.connection.id = shared.id;
        if new {
            timeline.instants.connect_start = Some(started);
            timeline.instants.connected = Some(self.now());
        }
        Ok(shared)
    }

    /// Waits for `work`, but not beyond the request's limits or the run's end.
    async fn before_limits<T>(
        &mut self,
        deadlines: &Deadlines,
        work: impl Future<Output = T>,
    ) -> Result<T, End> {
        let (at, phase) = deadlines.next().unwrap_or((Nanos::MAX, TimeoutPhase::Total));
        let left = at.since(self.now()).0.min(u64::from(u32::MAX) * 1_000_000);
        let limit = Instant::now() + std::time::Duration::from_nanos(left);
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
        reader: &mut ReplyReader,
        deadlines: &mut Deadlines,
        at: &mut Nanos,
    ) -> End {
        let response = match self.before_limits(deadlines, response).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return broken(&error),
            Err(end) => return end,
        };
        *at = self.now().max(*at);
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        reader.head(*at, response.status().as_u16(), header(http::header::CONTENT_TYPE));
        if let Some(value) = header(http::header::RETRY_AFTER) {
            reader.retry_after(value);
        }
        let mut body = response.into_body();
        loop {
            let data = match self.before_limits(deadlines, body.data()).await {
                Ok(Some(Ok(data))) => data,
                Ok(Some(Err(error))) => return broken(&error),
                Ok(None) => return End::Complete,
                Err(end) => return end,
            };
            *at = self.now().max(*at);
            self.connections.reads.set(self.connections.reads.get() + 1);
            reader.body(Stamp { at: *at, late_ns: 0, kernel: false }, &data);
            deadlines.on_byte(*at);
            if reader.has_token() {
                deadlines.on_token(*at);
            }
            // The windows are as large as they can be; giving capacity back keeps them so.
            drop(body.flow_control().release_capacity(data.len()));
        }
    }
}

fn send(mut sender: SendRequest<Bytes>, head: Request<()>, body: Bytes) -> Result<ResponseFuture, End> {
    let (response, mut stream) = sender.send_request(head, false).map_err(|e| broken(&e))?;
    stream.reserve_capacity(body.len());
    stream.send_data(body, true).map_err(|e| broken(&e))?;
    Ok(response)
}

fn broken(_error: &h2::Error) -> End {
    End::Reset
}

/// The pseudo-headers and headers of a request, from the parts that the HTTP/1 head is made of.
fn request_head(target: &Target, head: &crate::feed::Head, request_id: &str) -> Request<()> {
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = format!("{scheme}://{}{}", target.host, head.path).parse().unwrap_or_default();
    let own = [("content-type", "application/json"), (crate::source::REQUEST_ID, request_id)];
    let given = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.into_iter().chain(given) {
        let name = http::HeaderName::try_from(name);
        let value = http::HeaderValue::try_from(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    request
}
