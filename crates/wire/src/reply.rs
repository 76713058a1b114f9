//! The body of one answer, read event by event, and what it came to.
//!
//! The reader finds out by itself whether a stream, one JSON body or something else came: by the first byte that
//! is no white space, since servers send JSON with the content type of a stream and the other way round. What an
//! answer amounts to is judged once, at its end, by [`ReplyReader::finish`].

use crate::answer::Answer;
use crate::protocol::fault;
use crate::sse::SseDecoder;
use crate::stamp::Stamp;
use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ServerSaid, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};

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

/// Bytes of an error body that are kept for its message.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// How the lines of a stream begin, for streams that come with another content type.
const STREAM_LINES: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];

/// How the body is read.
#[derive(Debug)]
enum Body {
    /// Nothing but white space (or part of a byte-order mark) has come; these bytes are kept for whoever reads on.
    Unknown(Vec<u8>),
    /// A stream of events.
    Stream(Box<SseDecoder>),
    /// One JSON body.
    Whole(Vec<u8>),
    /// Neither: the first bytes, for the message.
    Foreign(Vec<u8>),
    /// An answer with an error status: its first bytes, for the message.
    Refusal(Vec<u8>),
}

/// Reads the body of one answer. HTTP/1.1 feeds it through [`crate::exchange::Exchange`], HTTP/2 directly:
/// [`ReplyReader::head`], then [`ReplyReader::body`] for every read, then [`ReplyReader::finish`].
#[derive(Debug)]
pub struct ReplyReader {
    config: ReplyConfig,
    status: Option<u16>,
    content_type: Option<String>,
    retry_after: Option<String>,
    headers_at: Option<Nanos>,
    body: Body,
    bytes: u64,
    /// The stamp of the last body bytes.
    last: Option<Stamp>,
    answer: Answer,
}

impl ReplyReader {
    /// A reader for one answer.
    #[must_use]
    pub fn new(config: ReplyConfig) -> Self {
        Self {
            config,
            status: None,
            content_type: None,
            retry_after: None,
            headers_at: None,
            body: Body::Unknown(Vec::new()),
            bytes: 0,
            last: None,
            answer: Answer::new(config),
        }
    }

    /// The response head is complete. `content_type` as sent.
    pub fn head(&mut self, at: Nanos, status: u16, content_type: Option<&str>) {
        self.headers_at = Some(at);
        self.status = Some(status);
        self.content_type = content_type.map(str::to_owned);
        if status != 200 {
            self.body = Body::Refusal(Vec::new());
        }
    }

    /// The value of a `Retry-After` header, as sent: seconds or a date.
    pub fn retry_after(&mut self, value: &str) {
        self.retry_after = Some(fault::shorten(value));
    }

    /// Something makes the answer unreadable that only the caller can see (a content coding, say). The answer ends
    /// as [`Outcome::Protocol`]; body bytes are no longer looked at.
    pub fn fail(&mut self, message: &str) {
        self.answer.broken.get_or_insert_with(|| fault::shorten(message));
    }

    /// Body bytes, framing removed, with the stamp of their read.
    ///
    /// An event gets the stamp of the read that brought the byte which ended it. Events with the same instant are
    /// marked [`ChunkFlags::SHARED_READ`], all but the first, however the bytes of that read are divided over
    /// calls.
    ///
    /// [`ChunkFlags::SHARED_READ`]: goodput_core::timeline::ChunkFlags::SHARED_READ
    pub fn body(&mut self, stamp: Stamp, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        self.last = Some(stamp);
        let limit = self.config.max_event_bytes;
        match &mut self.body {
            _ if self.answer.broken.is_some() => {}
            Body::Unknown(_) => self.recognise(stamp, bytes),
            Body::Stream(decoder) => {
                let answer = &mut self.answer;
                if let Err(e) = decoder.push(bytes, |item| answer.item(stamp, item)) {
                    self.fail(&e.to_string());
                }
            }
            Body::Whole(held) => {
                if held.len() + bytes.len() > limit {
                    self.fail(&format!("JSON body is larger than the limit of {limit} bytes"));
                } else {
                    held.extend_from_slice(bytes);
                }
            }
            Body::Foreign(held) | Body::Refusal(held) => {
                let room = MAX_ERROR_BODY_BYTES.saturating_sub(held.len());
                held.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
    }

    /// All bytes of a read have been given. `framing_only` says that nothing but framing of the last event has come
    /// after them. Says whether events of this read are left without a bound on how much earlier they may have come,
    /// which [`ReplyReader::not_before`] can give them.
    ///
    /// Without this call every event of a stream is left so.
    pub fn end_of_read(&mut self, stamp: Stamp, framing_only: bool) -> bool {
        let at_item_end = matches!(&self.body, Body::Stream(decoder) if decoder.is_at_item_end());
        self.answer.end_of_read(stamp, framing_only && at_item_end)
    }

    /// Nothing of the last read arrived before this instant: a bound for those of its events that have none.
    pub fn not_before(&mut self, at: Nanos) {
        self.answer.not_before(at);
    }

    /// Events of the stream so far, those without output among them.
    #[must_use]
    pub fn events(&self) -> usize {
        self.answer.chunks.len()
    }

    /// Whether a token has come. Never before the end of an answer that is one body.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.answer.tally.has_output()
    }

    /// Whether the answer is already known to be unreadable: there is no point in reading on.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.answer.broken.is_some()
    }

    /// Decides by the first byte that is not white space, and reads on.
    fn recognise(&mut self, stamp: Stamp, bytes: &[u8]) {
        let Body::Unknown(held) = &mut self.body else { return };
        held.extend_from_slice(bytes);
        let start = held.trim_ascii_start();
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        let Some(&first) = start.first() else {
            if held.len() > MAX_ERROR_BODY_BYTES {
                self.fail("body begins with endless white space");
            }
            return;
        };
        let maybe_mark = b"\xef\xbb\xbf".starts_with(start);
        if maybe_mark {
            return;
        }
        let says_stream = self.content_type.as_deref().is_some_and(is_event_stream);
        let may_become_field = STREAM_LINES.iter().any(|f| f.len() > start.len() && f.starts_with(start));
        if may_become_field && !says_stream {
            return;
        }
        let begins_stream = STREAM_LINES.iter().any(|f| start.starts_with(f));
        let held = std::mem::take(held);
        self.body = match first {
            b'{' | b'[' => Body::Whole(Vec::new()),
            b'<' => Body::Foreign(Vec::new()),
            _ if says_stream || begins_stream => {
                Body::Stream(Box::new(SseDecoder::new(self.config.max_event_bytes)))
            }
            _ => Body::Foreign(Vec::new()),
        };
        self.bytes -= held.len() as u64;
        self.body(stamp, &held);
    }

    /// The end: everything this answer came to.
    #[must_use]
    pub fn finish(mut self, end: End) -> Reply {
        let mut notes = Vec::new();
        let body = std::mem::replace(&mut self.body, Body::Unknown(Vec::new()));
        let ended = matches!(end, End::Complete | End::Eof);
        let mut refusal = None;
        let mut whole = false;
        match body {
            Body::Unknown(_) => {}
            Body::Stream(decoder) => self.end_of_stream(*decoder, ended, &mut notes),
            Body::Whole(json) => {
                whole = true;
                self.end_of_body(&json, &end, &mut notes);
            }
            Body::Foreign(start) => {
                let kind = self.content_type.as_deref().unwrap_or("no content type");
                let shown = fault::shorten(&String::from_utf8_lossy(&start[..start.len().min(200)]));
                self.fail(&format!("expected an event stream or JSON, found {kind}: {shown}"));
            }
            Body::Refusal(start) => refusal = Some(start),
        }
        if let Some(after) = &self.retry_after {
            notes.push(format!("the server asked to retry after {after}"));
        }
        let output = self.answer.output().filter(|o| !(whole && o.source.is_estimate()));
        let status = self.status.unwrap_or_default();
        let refused_usage = refusal.as_deref().is_some_and(|body| fault::refuses_usage(status, body));
        let outcome = self.outcome(end, refusal.as_deref(), output, &mut notes);
        notes.extend(self.answer.tally.disagreement(output).filter(|_| !whole));
        self.answer.notes(&mut notes);
        Reply {
            outcome,
            output,
            text: self.answer.take_text(),
            chunks: self.answer.chunks,
            server: self.answer.server,
            finish_reason: self.answer.finish_reason,
            status: self.status,
            headers_at: self.headers_at,
            done_at: self.answer.done_at,
            response_bytes: self.bytes,
            notes,
            refused_usage,
        }
    }

    /// An event without its blank line is dropped and told, except the end mark, which cannot mean anything else.
    fn end_of_stream(&mut self, decoder: SseDecoder, ended: bool, notes: &mut Vec<String>) {
        if !self.config.stream {
            notes.push("a stream came although none was asked for".to_owned());
        }
        let Some(rest) = decoder.into_rest().filter(|_| ended && !self.is_broken()) else { return };
        if rest.trim_ascii() == b"[DONE]"
            && let Some(stamp) = self.last
        {
            self.answer.item(stamp, crate::sse::SseItem::Event { name: b"", data: &rest });
            notes.push("the stream ended without a blank line after [DONE]".to_owned());
        } else {
            notes.push(format!("an unfinished event of {} bytes at the end was dropped", rest.len()));
        }
    }

    fn end_of_body(&mut self, json: &[u8], end: &End, notes: &mut Vec<String>) {
        let Some(stamp) = self.last.filter(|_| !self.is_broken()) else { return };
        match self.answer.whole(stamp, json) {
            Ok(()) if !self.answer.says_anything() => {
                self.fail("body is JSON, but neither an answer of this protocol nor an error");
            }
            Ok(()) if self.config.stream => {
                notes.push("the answer came as one body although a stream was asked for".to_owned());
            }
            Ok(()) => {}
            // Cut short: how the connection ended says why.
            Err(e) if e.is_eof() && *end != End::Complete => {}
            Err(e) => self.fail(&format!("body is not the JSON of this protocol ({e})")),
        }
    }

    /// What it all amounts to. Evidence in the bytes comes first, then the way the connection ended.
    fn outcome(
        &self,
        end: End,
        refusal: Option<&[u8]>,
        output: Option<TokenCount>,
        notes: &mut Vec<String>,
    ) -> Outcome {
        let answer = &self.answer;
        if let (Some(status), Some(body)) = (self.status, refusal) {
            return Outcome::HttpError { status, message: fault::body_message(body) };
        }
        if let Some(message) = &answer.error {
            return Outcome::StreamError { message: message.clone() };
        }
        if let Some(message) = &answer.broken {
            return Outcome::Protocol { message: message.clone() };
        }
        if let Some(reason) = &answer.given_up {
            return Outcome::Aborted { reason: reason.clone() };
        }
        if answer.done_at.is_some() {
            if matches!(end, End::Timeout(_) | End::Cancelled(_) | End::Reset) {
                notes.push("the answer was complete, but its HTTP body never ended".to_owned());
            }
            return self.complete(output);
        }
        match end {
            End::Complete | End::Eof if answer.is_finished() => {
                notes.push("the stream ended without [DONE]".to_owned());
                self.complete(output)
            }
            End::Eof if self.status.is_none() => Outcome::Reset,
            End::Complete => Outcome::Truncated { inside_body: false },
            End::Eof => Outcome::Truncated { inside_body: true },
            End::Reset => Outcome::Reset,
            End::Timeout(phase) => Outcome::Timeout { phase },
            End::Cancelled(cause) => Outcome::Cancelled { cause },
            End::Connect { fault, message } => Outcome::Connect { fault, message },
            End::Protocol { message } => Outcome::Protocol { message: fault::shorten(&message) },
        }
    }

    /// A terminated answer: whether it is what was asked for.
    fn complete(&self, output: Option<TokenCount>) -> Outcome {
        if !self.answer.tally.has_output() {
            return Outcome::NoTokens;
        }
        let counted =
            output.filter(|o| matches!(o.source, TokenSource::Server | TokenSource::Ids)).map(|o| o.count);
        let wanted = self.config.max_tokens.map(|n| n.saturating_mul(self.config.choices.max(1)));
        match (counted, wanted) {
            (Some(got), Some(wanted))
                if self.config.ignore_eos && got < wanted && !self.answer.stop_string =>
            {
                Outcome::ShortOutput { got, wanted }
            }
            _ => Outcome::Ok,
        }
    }
}

/// `text/event-stream`, parameters aside.
fn is_event_stream(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/event-stream")
}
