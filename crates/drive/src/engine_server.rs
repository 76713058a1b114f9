//! The simulated engine as a server of the virtual-time loop: one engine, or replicas behind a router.
//!
//! What a request is (lengths, content) is asked of the caller when it arrives; what a client would see of the engine is
//! told as the chunks of an OpenAI completion: tokens, the finish reason on the last of them, usage, the end mark. A
//! rejection is an HTTP status, as the engines give it. Network and API server cost nothing here.

use crate::driver::RequestId;
use crate::virtual_time::{SimEvent, SimServer};
use goodput_core::outcome::Outcome;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Phase, ServerSaid};
use goodput_model::cluster::{Cluster, Routed};
use goodput_model::event::EventKind;
use goodput_model::request::{End, Reject, Request, RequestId as Name, Truth};
use std::sync::Arc;

/// What a request asks of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Priority, in the engine's own sense.
    pub priority: i32,
    /// What the prompt is: hashes of its blocks.
    pub prefix: Arc<[u64]>,
}

/// Engines in the place of a server. `ask` says what a request is; `observe` hears every event of every replica, the
/// ground truth of each request and the figures of each step among them.
#[derive(Debug)]
pub struct EngineServer<A, O> {
    cluster: Cluster,
    ask: A,
    observe: O,
    heard: Vec<Routed>,
    /// Requests given up since the engines were last heard.
    given_up: Vec<Name>,
}

impl<A: FnMut(RequestId) -> Ask, O: FnMut(&Routed)> EngineServer<A, O> {
    /// A server over `cluster`, which no other has used.
    pub fn new(cluster: Cluster, ask: A, observe: O) -> Self {
        Self { cluster, ask, observe, heard: Vec::new(), given_up: Vec::new() }
    }

    /// The engines.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl<A: FnMut(RequestId) -> Ask, O: FnMut(&Routed)> SimServer for EngineServer<A, O> {
    fn submit(&mut self, now: Nanos, id: RequestId) {
        let Ask { prompt_tokens, output_tokens, priority, prefix } = (self.ask)(id);
        self.cluster.submit(now, &Request { id: name(id), prompt_tokens, output_tokens, priority, prefix });
    }

    fn cancel(&mut self, now: Nanos, id: RequestId) {
        self.cluster.cancel(now, name(id));
        self.given_up.push(name(id));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.cluster.next_event()
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<SimEvent>) {
        self.cluster.advance(now, &mut self.heard);
        let mut heard = self.heard.drain(..).peekable();
        while let Some(routed) = heard.next() {
            (self.observe)(&routed);
            match &routed.event.kind {
                EventKind::Tokens { id, tokens } => {
                    // A request's end follows its last tokens at once.
                    let is_last = heard.peek().is_some_and(|next| ends(&next.event.kind, *id));
                    let text = ChunkFlags::CHOICES | ChunkFlags::TEXT;
                    let flags = if is_last { text | ChunkFlags::FINISH } else { text };
                    out.push(SimEvent::Chunk { id: client_id(*id), tokens: *tokens, flags });
                }
                EventKind::Finished(truth) if truth.end == End::Length => say_end(truth, out),
                // One that was turned away and given up at the same instant is given up.
                EventKind::Rejected { id, reason } if !self.given_up.contains(id) => {
                    let outcome = Outcome::HttpError { status: status(reason), message: reason.to_string() };
                    out.push(SimEvent::End { id: client_id(*id), outcome, said: ServerSaid::default() });
                }
                _ => {}
            }
        }
        self.given_up.clear();
    }
}

/// The end of a stream with `stream_options.include_usage`, and what the server said in it.
fn say_end(truth: &Truth, out: &mut Vec<SimEvent>) {
    let id = client_id(truth.id);
    let said = ServerSaid {
        prompt_tokens: Some(truth.prompt_tokens),
        completion_tokens: Some(truth.generated()),
        cached_tokens: Some(truth.cached_tokens),
        queue: truth.admitted.map(|admitted| admitted - truth.queued),
        first_token: truth.first_token().map(|first| first - truth.arrived),
        ..ServerSaid::default()
    };
    out.push(SimEvent::Chunk { id, tokens: 0, flags: ChunkFlags::USAGE });
    out.push(SimEvent::Chunk { id, tokens: 0, flags: ChunkFlags::DONE });
    out.push(SimEvent::End { id, outcome: Outcome::Ok, said });
}

fn ends(kind: &EventKind, id: Name) -> bool {
    matches!(kind, EventKind::Finished(truth) if truth.id == id)
}

/// A malformed request is 400, a full queue 503.
fn status(reason: &Reject) -> u16 {
    match reason {
        Reject::TooLong { .. } | Reject::Empty => 400,
        Reject::QueueFull { .. } | Reject::QueueTokens { .. } => 503,
    }
}

/// The engine's name of a request: its number, with the phase in the lowest bit.
fn name(id: RequestId) -> Name {
    Name(id.index << 1 | u64::from(id.phase == Phase::Measured))
}

/// The request of a name.
fn client_id(name: Name) -> RequestId {
    let phase = if name.0 & 1 == 1 { Phase::Measured } else { Phase::Warmup };
    RequestId { phase, index: name.0 >> 1 }
}
