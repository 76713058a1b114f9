//! One request's answer on one HTTP/1.1 connection: framing and body reader together.

use crate::reply::{End, Reply, ReplyConfig, ReplyReader};
use crate::stamp::Stamp;

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
}

/// Reads the answer to one request off one connection.
#[derive(Debug)]
pub struct Exchange {
    reply: ReplyReader,
}

impl Exchange {
    /// Ready for the first byte of an answer.
    #[must_use]
    pub fn new(config: ReplyConfig) -> Self {
        Self { reply: ReplyReader::new(config) }
    }

    /// Bytes as they came off the connection, with the stamp of their read.
    pub fn push(&mut self, stamp: Stamp, bytes: &[u8]) -> Progress {
        let _ = (stamp, bytes, &self.reply);
        Progress::default()
    }

    /// The peer closed the connection. For a body that is delimited by the close this is its proper end.
    pub fn eof(&mut self) {}

    /// The peer reset the connection.
    pub fn reset(&mut self) {}

    /// Whether any byte of the answer has come: after that a request must never be sent again.
    #[must_use]
    pub fn has_response_bytes(&self) -> bool {
        false
    }

    /// Everything the answer came to. What [`Exchange::eof`], [`Exchange::reset`] or the framing already said
    /// about the end wins over [`End::Complete`].
    #[must_use]
    pub fn finish(self, cause: End) -> Reply {
        self.reply.finish(cause)
    }
}
