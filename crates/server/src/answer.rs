//! An answer being played: what is written when, and how it ends.
//!
//! The event loop asks for the next due time, waits, lets the answer append that write's bytes, and sends them.
//! Answers know no socket and no clock.

use crate::engine::EngineAnswer;
use crate::fixed::FixedAnswer;
use crate::http::{BodyEnd, Request, write_head};
use crate::script::ScriptAnswer;
use crate::shape::error_body;
use goodput_core::time::Nanos;

/// One answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Exact timing.
    Fixed(Box<FixedAnswer>),
    /// A replay file.
    Script(ScriptAnswer),
    /// As the simulated engine goes.
    Engine(Box<EngineAnswer>),
    /// One write.
    Whole(Whole),
    /// Nothing at all, for ever.
    Silence,
}

/// An answer of one write.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) due: Nanos,
    /// Head and body; taken when written.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Tokens in it.
    pub(crate) tokens: u32,
    pub(crate) end: End,
}

/// What happens to the connection after the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It takes the next request.
    KeepAlive,
    /// FIN.
    Close,
    /// RST.
    Reset,
    /// Nothing: it stays open and silent.
    Hang,
}

/// What a write carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Carried {
    /// Events with tokens that this write completes (in script mode: scripted writes).
    pub(crate) chunks: u32,
    /// Tokens in them.
    pub(crate) tokens: u32,
}

impl Answer {
    /// When the next write is due; `None` after the last, and while it is not known.
    pub(crate) fn due(&self) -> Option<Nanos> {
        match self {
            Self::Fixed(answer) => answer.due(),
            Self::Script(answer) => answer.due(),
            Self::Engine(answer) => answer.due(),
            Self::Whole(answer) => answer.bytes.as_ref().map(|_| answer.due),
            Self::Silence => None,
        }
    }

    /// Appends the next write's bytes.
    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> Carried {
        match self {
            Self::Fixed(answer) => answer.emit(out),
            Self::Script(answer) => answer.emit(out),
            Self::Engine(answer) => answer.emit(out),
            Self::Whole(answer) => {
                out.extend_from_slice(&answer.bytes.take().unwrap_or_default());
                Carried { chunks: u32::from(answer.tokens > 0), tokens: answer.tokens }
            }
            Self::Silence => Carried::default(),
        }
    }

    /// Whether writes that are due together may share a system call.
    pub(crate) fn batches(&self) -> bool {
        matches!(self, Self::Fixed(answer) if answer.batches())
    }

    /// Whether it goes on, but not before something is heard of it.
    pub(crate) fn awaits(&self) -> bool {
        matches!(self, Self::Engine(answer) if answer.awaits())
    }

    /// Whether it comes in parts, so that it has a first one.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Self::Fixed(_) | Self::Script(_) | Self::Silence => true,
            Self::Engine(answer) => answer.is_stream(),
            Self::Whole(_) => false,
        }
    }

    /// What follows the last write.
    pub(crate) fn end(&self) -> End {
        match self {
            Self::Fixed(answer) => answer.end(),
            Self::Script(answer) => answer.end(),
            Self::Engine(answer) => answer.end(),
            Self::Whole(answer) => answer.end,
            Self::Silence => End::Hang,
        }
    }
}

/// A refusal as JSON, at once.
pub(crate) fn refusal(status: u16, message: &str, request: &Request, due: Nanos) -> Answer {
    let retry: &[&str] = if matches!(status, 429 | 503) { &["retry-after: 1"] } else { &[] };
    let kind = if status < 500 { "BadRequestError" } else { "InternalServerError" };
    Answer::Whole(json_answer(status, &error_body(status, kind, message), retry, request, due))
}

/// A JSON body as an answer without tokens.
pub(crate) fn json_answer(
    status: u16,
    body: &[u8],
    headers: &[&str],
    request: &Request,
    due: Nanos,
) -> Whole {
    let headers = [&["content-type: application/json"], headers].concat();
    whole_answer(status, body, &headers, request, due)
}

/// A body as an answer without tokens. `headers` are whole lines.
pub(crate) fn whole_answer(
    status: u16,
    body: &[u8],
    headers: &[&str],
    request: &Request,
    due: Nanos,
) -> Whole {
    let mut bytes = Vec::with_capacity(body.len() + 160);
    write_head(&mut bytes, status, headers, BodyEnd::Length(body.len()), request.keep_alive);
    bytes.extend_from_slice(body);
    let end = if request.keep_alive { End::KeepAlive } else { End::Close };
    Whole { due, bytes: Some(bytes), tokens: 0, end }
}
