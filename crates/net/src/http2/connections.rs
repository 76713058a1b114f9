//! The connections that HTTP/2 streams share: one per target, opened by the first stream that needs it and again
//! after it has broken.

use crate::clock::RunClock;
use crate::feed::Head;
use crate::release::io_fault;
use crate::source::REQUEST_ID;
use crate::target::Target;
use bytes::Bytes;
use goodput_core::outcome::ConnectFault;
use goodput_core::time::Nanos;
use goodput_wire::reply::End;
use h2::Ping;
use h2::client::{Builder, SendRequest};
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// Receive windows so large that flow control never paces the server.
const WINDOW: u32 = (1 << 31) - 1;

/// Why there is no connection: whose fault it is, and the system's words.
type NoConnection = (ConnectFault, String);

/// All open connections, by target.
pub(super) struct Connections {
    clock: RunClock,
    open: Mutex<HashMap<usize, Rc<SharedConnection>>>,
    next_id: Cell<u32>,
}

impl Connections {
    pub(super) fn new(clock: RunClock) -> Self {
        Self { clock, open: Mutex::default(), next_id: Cell::new(0) }
    }

    /// The living connection to a target, and the instants of its opening if this call has opened it.
    pub(super) async fn get(
        &self,
        index: usize,
        target: &Target,
    ) -> Result<(Rc<SharedConnection>, Option<(Nanos, Nanos)>), NoConnection> {
        // The lock is held while connecting on purpose: streams that arrive meanwhile share the new connection.
        let mut open = self.open.lock().await;
        if let Some(connection) = open.get(&index)
            && connection.is_alive().await
        {
            return Ok((connection.clone(), None));
        }
        let started = self.clock.now();
        let id = self.next_id.replace(self.next_id.get() + 1);
        let connection = Rc::new(SharedConnection::open(id, target).await?);
        open.insert(index, connection.clone());
        Ok((connection, Some((started, self.clock.now()))))
    }
}

/// One connection with its streams.
pub(super) struct SharedConnection {
    /// Number within the run.
    pub(super) id: u32,
    /// Streams the server allowed at once when the connection was opened. Where it lowers this later, which servers of
    /// models do not do, the library itself holds streams back.
    pub(super) most_streams: usize,
    sender: SendRequest<Bytes>,
    permits: Arc<Semaphore>,
    begun: Cell<u32>,
}

/// The right to one stream on a connection.
pub(super) struct Place {
    pub(super) sender: SendRequest<Bytes>,
    /// Streams the connection had carried before.
    pub(super) uses_before: u32,
    _permit: OwnedSemaphorePermit,
}

impl SharedConnection {
    async fn open(id: u32, target: &Target) -> Result<Self, NoConnection> {
        let io_error = |e: io::Error| (io_fault(&e), e.to_string());
        let tcp = TcpStream::connect(target.address).await.map_err(io_error)?;
        tcp.set_nodelay(true).map_err(io_error)?;
        let Some(tls) = &target.tls else { return Self::agree(id, tcp).await };
        let connector = tokio_rustls::TlsConnector::from(tls.config.clone());
        let stream = connector
            .connect(tls.server_name.clone(), tcp)
            .await
            .map_err(|e| (ConnectFault::Tls, e.to_string()))?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            let message = "the server does not offer HTTP/2 over TLS (ALPN); expected `h2`".to_owned();
            return Err((ConnectFault::Tls, message));
        }
        Self::agree(id, stream).await
    }

    /// Exchanges settings. A server sends its own before anything else, so that they are known once it has answered a
    /// ping; until then the library would assume a limit of streams.
    async fn agree<T>(id: u32, stream: T) -> Result<Self, NoConnection>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let protocol = |e: h2::Error| (ConnectFault::Other, format!("HTTP/2: {e}"));
        let (sender, mut connection) = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(stream)
            .await
            .map_err(protocol)?;
        let mut pings = connection.ping_pong().expect("nobody else has taken the pings");
        tokio::task::spawn_local(async move { drop(connection.await) });
        pings.ping(Ping::opaque()).await.map_err(protocol)?;
        let most_streams = sender.current_max_send_streams().min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(most_streams));
        Ok(Self { id, most_streams, sender, permits, begun: Cell::new(0) })
    }

    /// Whether new streams can be opened. A sender that has sent nothing itself never waits for this answer.
    async fn is_alive(&self) -> bool {
        self.sender.clone().ready().await.is_ok()
    }

    /// A permit for a stream, if one is free.
    pub(super) fn free_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// A permit for a stream, once one is free; first come, first served.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        self.permits.clone().acquire_owned().await.expect("the permits are never withdrawn")
    }

    /// The place that comes with a permit; `None` if the connection has broken.
    pub(super) async fn place(&self, permit: OwnedSemaphorePermit) -> Option<Place> {
        let sender = self.sender.clone().ready().await.ok()?;
        let uses_before = self.begun.replace(self.begun.get() + 1);
        Some(Place { sender, uses_before, _permit: permit })
    }
}

/// The pseudo-headers and headers of a request, from the parts that the HTTP/1 head is made of. As there, a `host` or
/// `content-type` among the given headers replaces ours.
pub(super) fn request_head(target: &Target, head: &Head, request_id: &str) -> Result<Request<()>, End> {
    let unfit = |e: &dyn std::error::Error| End::Protocol { message: format!("HTTP/2 request: {e}") };
    let given = |wanted: &str| head.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let uri = Uri::builder()
        .scheme(if target.tls.is_some() { "https" } else { "http" })
        .authority(given("host").map_or(target.host.as_str(), |(_, value)| value))
        .path_and_query(head.path.as_str())
        .build()
        .map_err(|e| unfit(&e))?;
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri;
    let mut own = vec![(REQUEST_ID, request_id)];
    if given("content-type").is_none() {
        own.push(("content-type", "application/json"));
    }
    let others = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.into_iter().chain(others) {
        let name = HeaderName::try_from(name).map_err(|e| unfit(&e))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|e| unfit(&e))?;
        if name != header::HOST {
            request.headers_mut().append(name, value);
        }
    }
    Ok(request)
}
