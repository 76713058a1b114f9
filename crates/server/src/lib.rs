//! An HTTP server whose timing is known: exact timing (`goodput sim fixed`), byte scripts (`goodput sim script`), and the
//! simulated engine in real time (`goodput sim serve`).
//!
//! It is the ground truth that clients are measured against, so it is built to be exact and to know its own error:
//! one thread, one poll, a nanosecond alarm, absolute deadlines, one write per timed chunk. A request's clock
//! starts when the kernel received its last byte, and the time of a chunk is taken right before the write that hands
//! its last byte over. It never judges a client, and it models no load except by a number of slots: what an engine does
//! is `goodput-model`'s.
//!
//! # Routes
//!
//! `POST /v1/chat/completions`, `/v1/completions`, `/generate`, `/tokenize`; `GET /v1/models`, `/health`, `/version`,
//! `/truth`, `/truth/arrivals`; `GET` or `POST /truth/reset`. In script mode every other request plays a script. The
//! simulated engine serves the routes of vLLM or SGLang besides.
//! `GET /truth` is a [`truth::Truth`] as JSON, `GET /truth/arrivals` a [`truth::Instants`]; their fields are the keys.
//!
//! # The truth file
//!
//! One JSON object per request ([`TruthLine`]), written when it ends, and on disk at the latest when the server stops or
//! has no request left.

mod answer;
mod ask;
mod clock;
mod conn;
mod engine;
mod event_loop;
mod fault;
mod fixed;
mod histogram;
mod http;
mod ledger;
mod meta;
mod order;
mod route;
mod script;
mod shape;
mod stall;
mod stream;
mod sys;
pub mod truth;
mod truth_file;

pub use engine::{EngineConfig, Speed, SpeedError};
pub use fault::{Fault, FaultError, FaultRule, parse_rules};
pub use fixed::FixedConfig;
pub use script::ScriptPlan;
pub use stall::{Stall, StallError};
pub use truth::Truth;
pub use truth_file::{EngineInstants, Fate, TruthFileError, TruthLine, read_truth};

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What is served.
#[derive(Debug, Clone)]
pub enum Service {
    /// Exact timing.
    Fixed(FixedConfig),
    /// Byte scripts.
    Script(ScriptPlan),
    /// The simulated engine.
    Engine(Box<EngineConfig>),
}

/// What is served and where the truth goes.
pub struct Setup {
    /// What is served.
    pub service: Service,
    /// Receives one JSON line per request; see the crate's page. Slow writers delay the server.
    pub truth_file: Option<Box<dyn Write + Send>>,
}

impl From<Service> for Setup {
    fn from(service: Service) -> Self {
        Self { service, truth_file: None }
    }
}

/// Ends a server from another thread or a signal handler's flag. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Asks the server to end; it does within a few tens of milliseconds.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A handle on a flag that something else sets, such as a signal handler.
impl From<Arc<AtomicBool>> for StopHandle {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// Serves on `listener` until stopped, on this thread, and returns the account of the run. The process's limit on
/// open files is raised as far as it may be, for thousands of connections.
///
/// # Errors
/// If there is no script to play, or if the poll, the alarm or the truth file fails. A connection that fails is
/// only closed.
pub fn serve(listener: TcpListener, setup: impl Into<Setup>, stop: &StopHandle) -> io::Result<Truth> {
    event_loop::EventLoop::new(listener, setup.into())?.run(stop)
}

/// A server on a thread of its own.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<io::Result<Truth>>>,
}

/// Serves on an ephemeral port of 127.0.0.1, on a new thread.
///
/// # Errors
/// If no port can be had or the service cannot start.
pub fn spawn(setup: impl Into<Setup>) -> io::Result<Running> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    let stop = StopHandle::default();
    let (setup, flag) = (setup.into(), stop.clone());
    let thread = std::thread::Builder::new()
        .name("goodput-server".to_owned())
        .spawn(move || serve(listener, setup, &flag))?;
    Ok(Running { addr, stop, thread: Some(thread) })
}

impl Running {
    /// The account so far, asked over HTTP as any client would.
    ///
    /// # Errors
    /// If the server does not answer, or not with its account.
    pub fn truth(&self) -> io::Result<Truth> {
        let mut stream = TcpStream::connect(self.addr)?;
        stream.write_all(b"GET /truth HTTP/1.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let body = memchr::memmem::find(&answer, b"\r\n\r\n").map_or(&[][..], |end| &answer[end + 4..]);
        serde_json::from_slice(body).map_err(io::Error::other)
    }

    /// Ends the server and returns its account.
    ///
    /// # Errors
    /// What [`serve`] returned.
    pub fn stop(mut self) -> io::Result<Truth> {
        self.stop.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(io::Error::other("the server thread ended by a panic")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
