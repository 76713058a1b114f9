//! An answer whose writes come as the engine gives them.
//!
//! The head is due when the request came; an event of the stream carries what a step of the engine gave (with a stream
//! interval, several steps), and is due at the end of that step. The role chunk shares the first event's write; the
//! usage, `[DONE]` and the end of the body share the last one's. An answer that is no stream is one write at the end.

use crate::answer::{Carried, End, json_answer};
use crate::fault::Break;
use crate::http::Request;
use crate::meta::Seen;
use crate::shape::{Dialect, Shape, error_body};
use crate::stream::{Stream, cut};
use goodput_core::time::Nanos;
use goodput_model::request::{Reject, RequestId};
use std::collections::VecDeque;

/// An answer being played.
#[derive(Debug)]
pub(crate) struct EngineAnswer {
    /// The engine's name of the request.
    pub(crate) id: RequestId,
    stream: Stream,
    kind: Kind,
    /// The request without its body, for answers in one piece.
    request: Request,
    /// Writes that the socket has not got yet, by due time.
    writes: VecDeque<Write>,
    /// Tokens that wait for an event to be full, and events that wait for a write to be.
    gathered: u32,
    events: Vec<u32>,
    /// Tokens in writes so far.
    said: u32,
    /// When the engine last said something, and the latest due time of a write.
    heard: Nanos,
    latest: Nanos,
    is_over: bool,
}

/// What form the answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) shape: Shape,
    pub(crate) dialect: Dialect,
    pub(crate) is_stream: bool,
}

/// One write.
#[derive(Debug)]
struct Write {
    due: Nanos,
    bytes: Vec<u8>,
    carried: Carried,
}

impl EngineAnswer {
    /// The answer to a request that came at `start`.
    pub(crate) fn new(id: RequestId, kind: Kind, stream: Stream, request: &Request, start: Nanos) -> Self {
        let request =
            Request { keep_alive: request.keep_alive, chunked_ok: request.chunked_ok, ..Request::default() };
        let latest = start.saturating_add(stream.faults.head_delay);
        let mut answer = Self {
            id,
            stream,
            kind,
            request,
            writes: VecDeque::new(),
            gathered: 0,
            events: Vec::new(),
            said: 0,
            heard: start,
            latest,
            is_over: false,
        };
        if kind.is_stream {
            let mut head = Vec::new();
            answer.stream.head(&mut head);
            answer.write(latest, head, Carried::default());
        }
        answer
    }

    /// The engine gave `tokens` at `at`; `is_last` tells that they are the last ones.
    pub(crate) fn tokens(&mut self, at: Nanos, tokens: u32, is_last: bool, seen: Seen) {
        if self.is_over {
            return;
        }
        self.stream.voice.seen = seen;
        if self.kind.is_stream {
            self.stream_tokens(at, tokens, is_last);
        } else {
            self.said += tokens;
            if is_last {
                self.whole(at);
            }
        }
        self.heard = at;
    }

    fn whole(&mut self, at: Nanos) {
        let body = self.stream.voice.whole(self.said);
        let carried = Carried { chunks: 1, tokens: self.said };
        self.json(at, 200, &body, carried);
    }

    fn stream_tokens(&mut self, at: Nanos, tokens: u32, is_last: bool) {
        let limit = self.stream.break_after.map_or(u32::MAX, |(after, _)| after);
        let waiting: u32 = self.gathered + self.events.iter().sum::<u32>();
        let room = limit.saturating_sub(self.said + waiting);
        let breaks = tokens > room || (is_last && limit != u32::MAX);
        let per_event = self.stream.faults.tokens_per_chunk;
        if per_event == 1 {
            self.events.extend(Some(tokens.min(room)).filter(|&tokens| tokens > 0));
        } else {
            self.gathered += tokens.min(room);
            while self.gathered >= per_event || (self.gathered > 0 && (breaks || is_last)) {
                let event = self.gathered.min(per_event);
                self.events.push(event);
                self.gathered -= event;
            }
        }
        let is_full = self.events.len() >= self.stream.faults.events_per_write as usize;
        if !self.events.is_empty() && (is_full || breaks || is_last) {
            self.stage(at, is_last && tokens <= room, breaks);
        }
        if breaks {
            self.break_off(at);
        }
        self.is_over |= is_last || breaks;
    }

    /// Renders what is gathered as one write and cuts it as the faults say.
    fn stage(&mut self, at: Nanos, is_last: bool, breaks: bool) {
        let mut bytes = Vec::new();
        if self.said == 0 && !self.stream.faults.early_role {
            self.stream.voice.role(&mut bytes);
        }
        let events = std::mem::take(&mut self.events);
        let tokens: u32 = events.iter().sum();
        for (place, count) in events.iter().enumerate() {
            self.stream.voice.tokens(&mut bytes, *count, is_last && place + 1 == events.len());
        }
        if is_last && !breaks {
            self.stream.voice.ending(&mut bytes);
        }
        self.said += tokens;
        let mut ends = Vec::new();
        cut(&bytes, self.stream.faults.cuts, &mut ends);
        let spacing = self.stream.spacing(at.since(self.heard));
        let (mut from, pieces) = (0, ends.len());
        for (piece, end) in ends.into_iter().enumerate() {
            let mut framed = Vec::new();
            self.stream.frame(&bytes[from..end], &mut framed);
            from = end;
            let done = piece + 1 == pieces;
            if done && is_last && !breaks {
                self.stream.close(&mut framed);
            }
            let chunks = u32::try_from(events.len()).unwrap_or(u32::MAX);
            let carried = if done { Carried { chunks, tokens } } else { Carried::default() };
            self.write(at.saturating_add(Nanos(spacing.0.saturating_mul(piece as u64))), framed, carried);
        }
    }

    fn break_off(&mut self, at: Nanos) {
        let mut bytes = Vec::new();
        self.stream.break_off(&mut bytes);
        self.write(at, bytes, Carried::default());
    }

    /// The engine turned the request away. vLLM answers with a status. So does SGLang unless the answer is a stream,
    /// whose head is out already: then the stream says it.
    pub(crate) fn refuse(&mut self, at: Nanos, reason: Reject) {
        let (status, kind) = match reason {
            Reject::TooLong { .. } | Reject::Empty => (400, "BadRequestError"),
            Reject::QueueFull { .. } | Reject::QueueTokens { .. } => (503, "ServiceUnavailableError"),
        };
        let message = reason.to_string();
        if self.kind.dialect == Dialect::Sglang && self.kind.is_stream {
            let mut event = Vec::new();
            match self.kind.shape {
                Shape::Generate { .. } if status == 503 => {
                    self.stream.voice.abort(&mut event, (status, &message))
                }
                _ => self.stream.voice.error(&mut event, (status, kind, &message)),
            }
            let mut bytes = Vec::new();
            self.stream.frame(&event, &mut bytes);
            self.stream.close(&mut bytes);
            self.write(at, bytes, Carried::default());
        } else {
            self.writes.clear();
            self.json(at, status, &error_body(status, kind, &message), Carried::default());
        }
        self.stream.break_after = None;
        self.is_over = true;
    }

    fn json(&mut self, at: Nanos, status: u16, body: &[u8], carried: Carried) {
        let whole = json_answer(status, body, &[], &self.request, at);
        self.write(at, whole.bytes.unwrap_or_default(), carried);
        self.is_over = true;
    }

    fn write(&mut self, at: Nanos, bytes: Vec<u8>, carried: Carried) {
        self.latest = self.latest.max(at);
        self.writes.push_back(Write { due: self.latest, bytes, carried });
    }

    /// When the next write is due; `None` if there is none yet, or none any more.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.writes.front().map(|write| write.due)
    }

    /// Whether the engine has more to say.
    pub(crate) fn awaits(&self) -> bool {
        self.writes.is_empty() && !self.is_over
    }

    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> Carried {
        let Some(write) = self.writes.pop_front() else { return Carried::default() };
        out.extend_from_slice(&write.bytes);
        write.carried
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.kind.is_stream
    }

    pub(crate) fn end(&self) -> End {
        match self.stream.break_after {
            Some((_, Break::Hang)) if self.kind.is_stream => End::Hang,
            _ if self.kind.is_stream => self.stream.end(),
            _ if self.request.keep_alive => End::KeepAlive,
            _ => End::Close,
        }
    }
}
