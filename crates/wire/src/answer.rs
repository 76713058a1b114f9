//! The state of one answer while its events come in: chunks, token counts, text, and whatever was said about the
//! end. It takes facts down; what they amount to is judged in [`crate::reply`].

use crate::protocol::json::{Finish, Text};
use crate::protocol::{Piece, fault, openai, sglang};
use crate::reply::{ChoiceText, ReplyConfig};
use crate::sse::SseItem;
use crate::stamp::Stamp;
use crate::tally::{ChoiceTally, Tally};
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, ServerSaid};
use goodput_core::tokens::{TokenCount, TokenSource};
use serde::de::{Error as _, IgnoredAny};
use serde_json::value::RawValue;
use std::ops::Range;

/// Most choices in one answer.
const MAX_CHOICES: usize = 1024;

/// One choice of the answer.
#[derive(Debug, Default)]
struct Slot {
    text: ChoiceText,
    tally: ChoiceTally,
    finished: bool,
    /// Native frames only.
    growth: sglang::Growth,
}

/// Everything known so far.
#[derive(Debug)]
pub(crate) struct Answer {
    config: ReplyConfig,
    pub(crate) chunks: Vec<Chunk>,
    /// The chunks of the current read, or of the last one, whose arrival only the read bounds from above.
    unbounded: Range<usize>,
    /// The first chunk of the current read.
    read_from: usize,
    /// The first chunk of the last event.
    item_from: usize,
    pub(crate) server: ServerSaid,
    pub(crate) tally: Tally,
    slots: Vec<Slot>,
    pub(crate) finish_reason: Option<String>,
    /// When the end mark came.
    pub(crate) done_at: Option<Nanos>,
    /// The first error object.
    pub(crate) error: Option<String>,
    /// The finish reason of an engine that gave up.
    pub(crate) given_up: Option<String>,
    /// What made the bytes unreadable. Nothing is read after it.
    pub(crate) broken: Option<String>,
    /// Whether a stop string ended a choice.
    pub(crate) stop_string: bool,
    /// Events whose data was no JSON but a keep-alive.
    pings: u32,
    /// Events in JSON of an unknown shape, and what the first one was.
    strange: Option<(u32, String)>,
    /// Events after the end mark.
    late: u32,
}

/// What the event as a whole contributes to its chunks.
#[derive(Clone, Copy)]
struct Event {
    stamp: Stamp,
    bytes: u32,
    flags: ChunkFlags,
}

impl Answer {
    pub(crate) fn new(config: ReplyConfig) -> Self {
        Self {
            config,
            chunks: Vec::new(),
            unbounded: 0..0,
            read_from: 0,
            item_from: 0,
            server: ServerSaid::default(),
            tally: Tally::default(),
            slots: Vec::new(),
            finish_reason: None,
            done_at: None,
            error: None,
            given_up: None,
            broken: None,
            stop_string: false,
            pings: 0,
            strange: None,
            late: 0,
        }
    }

    /// One event or comment of a stream.
    pub(crate) fn item(&mut self, stamp: Stamp, item: SseItem<'_>) {
        if self.broken.is_some() {
            return;
        }
        self.item_from = self.chunks.len();
        match item {
            SseItem::Comment(text) => self.plain_chunk(stamp, text.len(), ChunkFlags::COMMENT),
            SseItem::Event { name, data } => self.event(stamp, name, data),
        }
    }

    fn event(&mut self, stamp: Stamp, name: &[u8], data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            self.plain_chunk(stamp, data.len(), ChunkFlags::DONE);
            self.done_at = self.done_at.or(Some(stamp.at));
            return;
        }
        self.late += u32::from(self.done_at.is_some());
        // A proxy that wraps its keep-alive comment in a data line.
        if matches!(data.trim_ascii_start().first(), None | Some(b':')) && name != b"error" {
            self.pings += 1;
            self.plain_chunk(stamp, data.len(), ChunkFlags::OTHER);
            return;
        }
        let named_error = name == b"error";
        let text = std::str::from_utf8(data).map_err(serde_json::Error::custom);
        match text.and_then(|text| self.frame(stamp, text, named_error)) {
            Ok(()) => {}
            Err(_) if named_error => {
                self.plain_chunk(stamp, data.len(), ChunkFlags::ERROR);
                self.failed(fault::shorten(&String::from_utf8_lossy(data)));
            }
            Err(e) => self.unreadable(stamp, data, &e),
        }
    }

    /// Data that does not have the protocol's shape: other JSON is let pass and counted, the rest ends it all.
    fn unreadable(&mut self, stamp: Stamp, data: &[u8], error: &serde_json::Error) {
        let is_json = std::str::from_utf8(data).is_ok_and(|s| serde_json::from_str::<IgnoredAny>(s).is_ok());
        if is_json {
            self.plain_chunk(stamp, data.len(), ChunkFlags::OTHER);
            let first = || (0, error.to_string());
            self.strange.get_or_insert_with(first).0 += 1;
        } else {
            let shown = fault::shorten(&String::from_utf8_lossy(&data[..data.len().min(80)]));
            self.broken = Some(format!("event data is not JSON ({error}): {shown}"));
        }
    }

    /// One event of the stream.
    fn frame(&mut self, stamp: Stamp, data: &str, named_error: bool) -> Result<(), serde_json::Error> {
        // The derived readers would take an array for an object.
        if !data.trim_ascii_start().starts_with('{') {
            return Err(serde_json::Error::custom("expected a JSON object"));
        }
        let event = Event { stamp, bytes: saturated(data.len()), flags: ChunkFlags::default() };
        let unnamed = || named_error.then(|| fault::body_message(data.as_bytes()));
        match self.config.protocol {
            Protocol::OpenaiChat | Protocol::OpenaiCompletions => {
                let frame: openai::Frame<'_> = serde_json::from_str(data)?;
                let error = error_of(frame.error, &frame.object, &frame.message);
                self.openai(event, &frame, error.or_else(unnamed));
            }
            Protocol::Sglang => {
                let frame: sglang::Frame<'_> = serde_json::from_str(data)?;
                let error = error_of(frame.error, &frame.object, &frame.message);
                self.sglang(event, &frame, error.or_else(unnamed));
            }
        }
        Ok(())
    }

    /// The whole answer as one JSON body, whose last byte came with `stamp`.
    ///
    /// # Errors
    /// The body is not JSON of the protocol's shape.
    pub(crate) fn whole(&mut self, stamp: Stamp, body: &[u8]) -> Result<(), serde_json::Error> {
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            // Cut inside a character: what is whole shows that the JSON is not.
            Err(e) if e.error_len().is_none() => {
                std::str::from_utf8(&body[..e.valid_up_to()]).unwrap_or_default()
            }
            Err(e) => return Err(serde_json::Error::custom(e)),
        };
        self.frame(stamp, text, false)?;
        self.merge_into_one();
        // Its last byte is the end of the event.
        self.chunks.iter_mut().for_each(|chunk| chunk.early_ns = stamp.early_ns);
        self.done_at = Some(stamp.at);
        Ok(())
    }

    fn openai(&mut self, mut event: Event, frame: &openai::Frame<'_>, error: Option<String>) {
        frame.server_said(&mut self.server);
        if frame.usage.is_some() {
            event.flags |= ChunkFlags::USAGE;
        }
        if error.is_some() {
            event.flags |= ChunkFlags::ERROR;
        }
        let count = frame.usage.as_ref().and_then(|u| u.completion_tokens.count());
        let choices = frame.choices();
        if choices.len() != 1 {
            self.tally.whole(count);
        }
        if choices.is_empty() {
            let known = event.flags.any(ChunkFlags::USAGE | ChunkFlags::ERROR);
            let flags = if known { event.flags } else { ChunkFlags::OTHER };
            self.push(event.stamp, event.bytes, |chunk| chunk.flags |= flags);
        }
        for choice in choices {
            let piece = choice.piece(count.filter(|_| choices.len() == 1));
            let Some(slot) = self.slot(piece.index) else { return };
            if self.config.keep_text {
                choice.append_to(&mut self.slots[slot].text);
            }
            self.piece(event, slot, &piece);
            // Bytes, usage and error belong to the event, so only its first chunk has them.
            event = Event { bytes: 0, flags: ChunkFlags::default(), ..event };
        }
        if let Some(message) = error {
            self.failed(message);
        }
    }

    fn sglang(&mut self, mut event: Event, frame: &sglang::Frame<'_>, error: Option<String>) {
        frame.server_said(&mut self.server);
        if let Some(message) = error {
            self.failed(message);
            self.push(event.stamp, event.bytes, |chunk| chunk.flags |= ChunkFlags::ERROR);
            return;
        }
        if !frame.is_output() {
            self.push(event.stamp, event.bytes, |chunk| chunk.flags |= ChunkFlags::OTHER);
            return;
        }
        let Some(slot) = self.slot(frame.index()) else { return };
        let Slot { text, growth, .. } = &mut self.slots[slot];
        let new = growth.take(frame, &mut text.text);
        let finish = frame.finish();
        for (yes, flag) in [
            (new.text || new.ids > 0, ChunkFlags::CHOICES),
            (new.text, ChunkFlags::TEXT),
            (!new.text && frame.text.get().is_some(), ChunkFlags::EMPTY_TEXT),
            (new.ids > 0, ChunkFlags::IDS),
            (finish.is_some(), ChunkFlags::FINISH),
        ] {
            if yes {
                event.flags |= flag;
            }
        }
        let piece = Piece {
            index: frame.index(),
            flags: event.flags,
            ids: new.ids,
            logprobs: 0,
            count: frame.count(),
            finish,
            stop_string: finish.is_some_and(Finish::names_stop_string),
        };
        self.piece(event, slot, &piece);
    }

    /// Writes down the chunk of one choice.
    fn piece(&mut self, event: Event, slot: usize, piece: &Piece<'_>) {
        let slot = &mut self.slots[slot];
        let (tokens, source) = self.tally.chunk(&mut slot.tally, piece);
        let choice = slot.text.index;
        if let Some(finish) = piece.finish {
            slot.finished = true;
            self.stop_string |= piece.stop_string;
            self.finish_reason = finish.kind().map(str::to_owned);
            self.given_up = self.given_up.take().or_else(|| finish.given_up());
        }
        self.push(event.stamp, event.bytes, |chunk| {
            chunk.flags |= event.flags | piece.flags;
            chunk.tokens = tokens;
            chunk.token_source = source;
            chunk.choice = choice;
        });
    }

    /// The slot of a choice, made at its first appearance. `None` if there are too many.
    fn slot(&mut self, index: u32) -> Option<usize> {
        if let Some(slot) = self.slots.iter().position(|s| u32::from(s.text.index) == index) {
            return Some(slot);
        }
        let Some(index) = u16::try_from(index).ok().filter(|_| self.slots.len() < MAX_CHOICES) else {
            self.broken = Some(format!("choice {index} is beyond the limit of {MAX_CHOICES} choices"));
            return None;
        };
        let text = ChoiceText { index, ..ChoiceText::default() };
        self.slots.push(Slot { text, ..Slot::default() });
        Some(self.slots.len() - 1)
    }

    fn plain_chunk(&mut self, stamp: Stamp, bytes: usize, flags: ChunkFlags) {
        self.push(stamp, saturated(bytes), |chunk| chunk.flags |= flags);
    }

    /// Adds a chunk with what every chunk has. Times never go back in a record, so a stamp that does takes the
    /// time of the chunk before it.
    fn push(&mut self, stamp: Stamp, bytes: u32, fill: impl FnOnce(&mut Chunk)) {
        let last = self.chunks.last().map(|c| c.at);
        let mut chunk = Chunk {
            at: last.map_or(stamp.at, |last| last.max(stamp.at)),
            late_ns: stamp.late_ns,
            early_ns: Chunk::EARLY_UNKNOWN,
            bytes,
            tokens: 0,
            flags: ChunkFlags::default(),
            choice: 0,
            token_source: TokenSource::Chunks,
        };
        if stamp.kernel {
            chunk.flags |= ChunkFlags::KERNEL_STAMP;
        }
        if last == Some(chunk.at) {
            chunk.flags |= ChunkFlags::SHARED_READ;
        }
        fill(&mut chunk);
        self.chunks.push(chunk);
    }

    /// The bytes of a read are over. Its last event has the stamp for its own if nothing came after it. Whether the
    /// others are still without a bound on how much earlier they may have come.
    pub(crate) fn end_of_read(&mut self, stamp: Stamp, at_item_end: bool) -> bool {
        let all = self.chunks.len();
        let own = if at_item_end && stamp.early_ns != Stamp::NOT_EXACT {
            self.item_from.max(self.read_from)
        } else {
            all
        };
        for chunk in &mut self.chunks[own..] {
            chunk.early_ns = earlier(chunk.at, stamp.at).saturating_add(stamp.early_ns);
        }
        self.unbounded = self.read_from..own;
        self.read_from = all;
        !self.unbounded.is_empty()
    }

    /// No event of the last read came before this instant.
    pub(crate) fn not_before(&mut self, at: Nanos) {
        for chunk in &mut self.chunks[self.unbounded.clone()] {
            chunk.early_ns = earlier(chunk.at, at);
        }
    }

    /// A whole body is one chunk, whatever it holds: there is no order in time among its parts. Its tokens are
    /// those the server, ids or log-probabilities tell; one body is not one token.
    fn merge_into_one(&mut self) {
        let Some(first) = self.chunks.first().copied() else { return };
        let flags = self.chunks.iter().fold(ChunkFlags::WHOLE, |flags, c| flags | c.flags);
        let flags = ChunkFlags(flags.0 & !ChunkFlags::SHARED_READ.0);
        let count = self.output().filter(|o| !o.source.is_estimate() && flags.any(ChunkFlags::OUTPUT));
        let tokens = count.map_or(0, |o| o.count);
        let token_source = count.map_or(TokenSource::Chunks, |o| o.source);
        self.chunks = vec![Chunk { flags, tokens, token_source, ..first }];
    }

    fn failed(&mut self, message: String) {
        self.error.get_or_insert(message);
    }

    /// Tokens of the answer so far.
    pub(crate) fn output(&self) -> Option<TokenCount> {
        self.tally.output(self.slots.iter().map(|s| &s.tally))
    }

    /// Whether any event was an answer of the protocol, or an error.
    pub(crate) fn says_anything(&self) -> bool {
        self.error.is_some() || self.chunks.iter().any(|c| !c.flags.has(ChunkFlags::OTHER))
    }

    /// Whether every choice asked for has a finish reason.
    pub(crate) fn is_finished(&self) -> bool {
        let finished = self.slots.iter().filter(|s| s.finished).count();
        finished >= usize::try_from(self.config.choices.max(1)).unwrap_or(usize::MAX)
    }

    /// The text of every choice.
    pub(crate) fn take_text(&mut self) -> Vec<ChoiceText> {
        if !self.config.keep_text {
            return Vec::new();
        }
        self.slots.iter_mut().map(|s| std::mem::take(&mut s.text)).collect()
    }

    /// What a reader should know about the events.
    pub(crate) fn notes(&self, notes: &mut Vec<String>) {
        if self.pings > 0 {
            notes.push(format!("{} data lines without JSON were skipped as keep-alives", self.pings));
        }
        if let Some((count, first)) = &self.strange {
            notes.push(format!("{count} events of an unknown shape were skipped ({first})"));
        }
        if self.late > 0 {
            notes.push(format!("{} events came after [DONE]", self.late));
        }
    }
}

/// The message of an error event: an `error` member that is not empty, or SGLang's flat error object.
fn error_of(member: Option<&RawValue>, object: &Text<'_>, message: &Text<'_>) -> Option<String> {
    let flat = || (object.get() == Some("error")).then(|| fault::shorten(message.or_empty()));
    member.and_then(|m| fault::error_member(m.get())).or_else(flat)
}

/// How much earlier than `at` something may have come that came after `bound`.
fn earlier(at: Nanos, bound: Nanos) -> u32 {
    u32::try_from(at.since(bound).0).unwrap_or(Chunk::EARLY_UNKNOWN)
}

fn saturated(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
