//! The body of one answer, read event by event, and what it came to.

use crate::stamp::Stamp;
use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ServerSaid, Timeline};
use goodput_core::tokens::TokenCount;

/// Default limit on one event (or one whole JSON body): 16 MiB.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// What was asked, as far as reading the answer needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyConfig {
    /// The endpoint's protocol.
    pub protocol: Protocol,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Output tokens asked for, per choice.
    pub max_tokens: Option<u32>,
    /// Whether the server was told to ignore end-of-sequence.
    pub ignore_eos: bool,
    /// Choices asked for (`n`), at least 1.
    pub choices: u32,
    /// Whether the text is kept for [`Reply::text`]; needed where it may have to be tokenised afterwards.
    pub keep_text: bool,
    /// Limit on one event or one whole JSON body, in bytes. Beyond it the request fails.
    pub max_event_bytes: usize,
}

impl ReplyConfig {
    /// A stream of one choice, text kept, everything else not said.
    #[must_use]
    pub const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            stream: true,
            max_tokens: None,
            ignore_eos: false,
            choices: 1,
            keep_text: true,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }
}

/// How the exchange came to its end, as the socket layer saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The body ended as its framing said.
    Complete,
    /// The peer closed the connection (FIN).
    Eof,
    /// The peer reset the connection (RST).
    Reset,
    /// A limit of ours ran out.
    Timeout(TimeoutPhase),
    /// We ended it.
    Cancelled(CancelCause),
    /// There never was a connection.
    Connect {
        /// Why.
        fault: ConnectFault,
        /// The system's words.
        message: String,
    },
    /// The transport broke its own rules (an HTTP/2 or TLS error in mid-answer).
    Protocol {
        /// What was wrong.
        message: String,
    },
}

/// The text of one choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChoiceText {
    /// `choices[].index`.
    pub index: u16,
    /// Visible text, refusals included.
    pub text: String,
    /// Reasoning text.
    pub reasoning: String,
    /// Arguments of tool calls, joined.
    pub tool_args: String,
}

/// Everything one answer came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The stream events in order of arrival.
    pub chunks: Vec<Chunk>,
    /// How it ended.
    pub outcome: Outcome,
    /// Output tokens with their source; `None` if nothing came or nothing is known.
    pub output: Option<TokenCount>,
    /// What the server said.
    pub server: ServerSaid,
    /// The last finish reason, as sent.
    pub finish_reason: Option<String>,
    /// HTTP status.
    pub status: Option<u16>,
    /// When the response head was complete.
    pub headers_at: Option<Nanos>,
    /// When the protocol's own end arrived.
    pub done_at: Option<Nanos>,
    /// Bytes of the body, framing excluded.
    pub response_bytes: u64,
    /// Things a reader should know, in plain words.
    pub notes: Vec<String>,
    /// Text per choice, in order of first appearance; empty if it was not to be kept.
    pub text: Vec<ChoiceText>,
    /// Whether the server refused the request because of the usage options (`stream_options`): asking again
    /// without them may work.
    pub refused_usage: bool,
}

impl Reply {
    /// Writes the answer into the record of its request. Everything but `instants.closed`, which the socket layer
    /// knows; notes are added to those already there; the text is dropped.
    pub fn apply_to(self, timeline: &mut Timeline) {
        timeline.chunks = self.chunks;
        timeline.outcome = self.outcome;
        timeline.output = self.output;
        timeline.server = self.server;
        timeline.finish_reason = self.finish_reason;
        timeline.status = self.status;
        timeline.instants.headers = self.headers_at;
        timeline.instants.done = self.done_at;
        timeline.response_bytes = self.response_bytes;
        timeline.notes.extend(self.notes);
    }
}

/// Reads the body of one answer. HTTP/1.1 feeds it through [`crate::exchange::Exchange`], HTTP/2 directly.
#[derive(Debug)]
pub struct ReplyReader {
    config: ReplyConfig,
}

impl ReplyReader {
    /// A reader for one answer.
    #[must_use]
    pub fn new(config: ReplyConfig) -> Self {
        Self { config }
    }

    /// The response head is complete.
    pub fn head(&mut self, at: Nanos, status: u16, content_type: Option<&str>) {
        let _ = (at, status, content_type, self.config);
    }

    /// Seconds or date of a `Retry-After` header, as sent.
    pub fn retry_after(&mut self, value: &str) {
        let _ = value;
    }

    /// Body bytes, framing removed, with the stamp of their read.
    pub fn body(&mut self, stamp: Stamp, bytes: &[u8]) {
        let _ = (stamp, bytes);
    }

    /// Whether a token has come.
    #[must_use]
    pub fn has_token(&self) -> bool {
        false
    }

    /// The end: everything this answer came to.
    #[must_use]
    pub fn finish(self, end: End) -> Reply {
        let _ = end;
        todo!()
    }
}
