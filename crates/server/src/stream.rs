//! The body of a streamed answer: its framing, how events are cut into writes, and how a fault breaks it off.
//!
//! When anything is written is the business of the answers that own one: the exact timing's and the engine's.

use crate::answer::End;
use crate::fault::{Break, Cuts, Faults};
use crate::http::{BodyEnd, LAST_CHUNK, Request, write_chunk, write_head};
use crate::shape::Voice;
use goodput_core::time::Nanos;

/// A streamed body.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) voice: Voice,
    pub(crate) faults: Faults,
    /// The fault that ends it, if the answer is long enough.
    pub(crate) break_after: Option<(u32, Break)>,
    chunked: bool,
    keep_alive: bool,
}

impl Stream {
    /// The body of an answer of `tokens` tokens to `request`.
    pub(crate) fn new(voice: Voice, tokens: u32, faults: &Faults, request: &Request) -> Self {
        Self {
            voice,
            faults: faults.clone(),
            break_after: faults.break_after.filter(|&(after, _)| after <= tokens),
            chunked: request.chunked_ok,
            keep_alive: request.keep_alive && request.chunked_ok,
        }
    }

    /// What happens to the connection after the last write.
    pub(crate) fn end(&self) -> End {
        match self.break_after {
            Some((_, Break::Close | Break::Cut)) => End::Close,
            Some((_, Break::Reset)) => End::Reset,
            Some((_, Break::Hang)) => End::Hang,
            Some((_, Break::Error)) | None if self.keep_alive => End::KeepAlive,
            Some((_, Break::Error)) | None => End::Close,
        }
    }

    /// Appends the response head, and the role chunk where a fault brings it early.
    pub(crate) fn head(&mut self, out: &mut Vec<u8>) {
        let body = if self.chunked { BodyEnd::Chunked } else { BodyEnd::Close };
        write_head(out, 200, &["content-type: text/event-stream; charset=utf-8"], body, self.keep_alive);
        if self.faults.early_role {
            let mut role = Vec::new();
            self.voice.role(&mut role);
            self.frame(&role, out);
        }
    }

    /// Appends a piece of the body.
    pub(crate) fn frame(&self, data: &[u8], out: &mut Vec<u8>) {
        if self.chunked { write_chunk(out, data) } else { out.extend_from_slice(data) }
    }

    /// Appends the well-formed end of the body.
    pub(crate) fn close(&self, out: &mut Vec<u8>) {
        if self.chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    /// Appends what the fault that ends the answer writes.
    pub(crate) fn break_off(&self, out: &mut Vec<u8>) {
        if let Some((_, Break::Error)) = self.break_after {
            let mut event = Vec::new();
            self.voice.error(&mut event, (500, "InternalServerError", "the engine failed (injected fault)"));
            self.frame(&event, out);
        }
        if matches!(self.break_after, Some((_, Break::Error | Break::Close))) {
            self.close(out);
        }
    }

    /// Time between the pieces of a write, where the tokens come this far apart.
    pub(crate) fn spacing(&self, itl: Nanos) -> Nanos {
        match self.faults.cuts {
            Cuts::None | Cuts::Pieces(_) => Nanos::ZERO,
            Cuts::Drip(pieces) => Nanos(itl.0 / u64::from(pieces)),
            Cuts::InsideUtf8 => Nanos(itl.0 / 2),
        }
    }
}

/// Writes the ends of the pieces of `bytes` into `ends`.
pub(crate) fn cut(bytes: &[u8], cuts: Cuts, ends: &mut Vec<usize>) {
    ends.clear();
    match cuts {
        Cuts::None => {}
        Cuts::Drip(pieces) | Cuts::Pieces(pieces) => {
            let pieces = (pieces as usize).min(bytes.len());
            ends.extend((1..pieces).map(|piece| bytes.len() * piece / pieces));
        }
        Cuts::InsideUtf8 => ends.extend(bytes.iter().position(|byte| !byte.is_ascii()).map(|lead| lead + 1)),
    }
    ends.push(bytes.len());
}
