//! One request's answer on one HTTP/1.1 connection: framing and body reader together.
//!
//! HTTP chunks have no influence on the times of events: only reads have stamps. The line end that closes a chunk is
//! taken for a part of the event before it.

use crate::http1::{Head, Http1Event, Http1Reader};
use crate::reply::{End, Reply, ReplyConfig, ReplyReader};
use crate::stamp::Stamp;
use goodput_core::time::Nanos;

/// The line end after the data of a chunk.
const CHUNK_CLOSED: &[u8] = b"\r\n";

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The answer is over: its framing has ended, or it broke the protocol and nothing more will be read.
    pub complete: bool,
    /// Whether the connection may carry another request. Only meaningful when `complete`.
    pub keep_alive: bool,
    /// Whether this read brought at least one body byte (the idle limit counts from it).
    pub saw_byte: bool,
    /// Whether a token has come, in this read or before (the first-token limit is off).
    pub first_token: bool,
    /// Events that came with this read so far.
    pub events: usize,
    /// Some of them may have come earlier than the stamp of the read says, and nothing yet says by how much at most:
    /// see [`Exchange::not_before`].
    pub unbounded: bool,
}

/// Reads the answer to one request off one connection.
#[derive(Debug)]
pub struct Exchange {
    framing: Http1Reader,
    reply: ReplyReader,
    keep_alive: bool,
    any_bytes: bool,
    /// What is known about the end apart from the framing.
    end: Option<End>,
    /// Bytes after the end of the answer.
    surplus: usize,
}

impl Exchange {
    /// Ready for the first byte of an answer.
    #[must_use]
    pub fn new(config: ReplyConfig) -> Self {
        Self {
            framing: Http1Reader::new(),
            reply: ReplyReader::new(config),
            keep_alive: false,
            any_bytes: false,
            end: None,
            surplus: 0,
        }
    }

    /// Bytes as they came off the connection, with the stamp of their read.
    pub fn push(&mut self, stamp: Stamp, bytes: &[u8]) -> Progress {
        self.any_bytes |= !bytes.is_empty();
        let mut input = bytes;
        let mut saw_byte = false;
        let events_before = self.reply.events();
        // What is left of the read after the last piece of the body.
        let mut after_body = bytes.len();
        while !self.is_over() {
            match self.framing.next(&mut input) {
                Ok(None | Some(Http1Event::End)) => break,
                Ok(Some(Http1Event::Head(head))) => self.head(stamp, &head),
                Ok(Some(Http1Event::Body(body))) => {
                    saw_byte = true;
                    self.reply.body(stamp, body);
                    after_body = input.len();
                }
                Err(e) => self.end = Some(End::Protocol { message: e.to_string() }),
            }
        }
        if self.framing.is_done() {
            self.surplus += input.len();
        }
        let closing = &bytes[bytes.len() - after_body..];
        let unbounded = self.reply.end_of_read(stamp, CHUNK_CLOSED.starts_with(closing));
        let complete = self.is_over();
        let clean = self.framing.is_done() && self.surplus == 0;
        Progress {
            complete,
            events: self.reply.events() - events_before,
            unbounded,
            keep_alive: clean && self.keep_alive && !self.reply.is_broken(),
            saw_byte,
            first_token: self.reply.has_token(),
        }
    }

    /// No byte of the last read arrived before this instant, as the owner of the socket knows: a bound for those of
    /// its events that are [`Progress::unbounded`]. Without it they stay so.
    pub fn not_before(&mut self, at: Nanos) {
        self.reply.not_before(at);
    }

    /// The peer closed the connection. For a body that is delimited by the close this is its proper end.
    pub fn eof(&mut self) {
        if !self.framing.eof() {
            self.end.get_or_insert(End::Eof);
        }
    }

    /// The peer reset the connection.
    pub fn reset(&mut self) {
        self.end.get_or_insert(End::Reset);
    }

    /// Whether any byte of the answer has come: after that a request must never be sent again.
    #[must_use]
    pub const fn has_response_bytes(&self) -> bool {
        self.any_bytes
    }

    /// Everything the answer came to. An end that the framing, [`Exchange::eof`] or [`Exchange::reset`] has
    /// already shown wins over `cause`; [`End::Complete`] without any of these counts as [`End::Eof`].
    #[must_use]
    pub fn finish(self, cause: End) -> Reply {
        let end = if self.framing.is_done() {
            End::Complete
        } else {
            match (self.end, cause) {
                (Some(end), _) => end,
                (None, End::Complete) => End::Eof,
                (None, cause) => cause,
            }
        };
        let mut reply = self.reply.finish(end);
        if self.surplus > 0 {
            reply.notes.push(format!("{} bytes came after the end of the answer", self.surplus));
        }
        reply
    }

    fn head(&mut self, stamp: Stamp, head: &Head) {
        self.keep_alive = head.keep_alive;
        self.reply.head(stamp.at, head.status, head.content_type.as_deref());
        if let Some(value) = &head.retry_after {
            self.reply.retry_after(value);
        }
        if let Some(coding) = &head.content_encoding {
            self.reply.fail(&format!("body is {coding}-encoded although no coding was accepted"));
        }
    }

    fn is_over(&self) -> bool {
        self.framing.is_done() || self.end.is_some() || self.reply.is_broken()
    }
}
