//! What happened to one request: instants and chunks, never a conclusion.
//!
//! All instants are on the run's one monotonic clock. Every reported number is computed from these records by a
//! ruler, and can be computed again by another one.

use crate::outcome::Outcome;
use crate::time::Nanos;
use crate::tokens::{TokenCount, TokenSource};

/// Which part of the run a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before measuring; kept on record, in no figure.
    Warmup,
    /// The measured set.
    Measured,
}

/// Facts about one stream event, as bits. Rulers pick chunks by them, so they describe the bytes and judge
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ChunkFlags(pub u32);

impl ChunkFlags {
    /// The event has a non-empty `choices` array (or is a native frame with output).
    pub const CHOICES: Self = Self(1);
    /// The delta names a role.
    pub const ROLE: Self = Self(1 << 1);
    /// The delta has `content` (or `text`) present as an empty string.
    pub const EMPTY_TEXT: Self = Self(1 << 2);
    /// Visible text, not empty.
    pub const TEXT: Self = Self(1 << 3);
    /// Reasoning text under `reasoning`, not empty.
    pub const REASONING: Self = Self(1 << 4);
    /// Reasoning text under `reasoning_content`, not empty.
    pub const REASONING_CONTENT: Self = Self(1 << 5);
    /// A tool-call (or legacy function-call) delta with a name or arguments.
    pub const TOOL: Self = Self(1 << 6);
    /// Refusal text, not empty.
    pub const REFUSAL: Self = Self(1 << 7);
    /// Token ids, at least one.
    pub const IDS: Self = Self(1 << 8);
    /// A finish reason, not empty.
    pub const FINISH: Self = Self(1 << 9);
    /// A usage object (not null).
    pub const USAGE: Self = Self(1 << 10);
    /// The protocol's end mark (`[DONE]`).
    pub const DONE: Self = Self(1 << 11);
    /// An SSE comment.
    pub const COMMENT: Self = Self(1 << 12);
    /// An error object.
    pub const ERROR: Self = Self(1 << 13);
    /// Something else that was not understood and not needed.
    pub const OTHER: Self = Self(1 << 14);
    /// The whole answer came as one body, not as a stream: it has an end but no first token.
    pub const WHOLE: Self = Self(1 << 15);
    /// The read that ended this event had already ended an earlier one: both have that read's time.
    pub const SHARED_READ: Self = Self(1 << 16);
    /// The arrival is the kernel's receive stamp; without it, the time of the read.
    pub const KERNEL_STAMP: Self = Self(1 << 17);

    /// Every single flag with its stable name in files, lowest bit first.
    pub const NAMES: [(&'static str, Self); 18] = [
        ("choices", Self::CHOICES),
        ("role", Self::ROLE),
        ("empty_text", Self::EMPTY_TEXT),
        ("text", Self::TEXT),
        ("reasoning", Self::REASONING),
        ("reasoning_content", Self::REASONING_CONTENT),
        ("tool", Self::TOOL),
        ("refusal", Self::REFUSAL),
        ("ids", Self::IDS),
        ("finish", Self::FINISH),
        ("usage", Self::USAGE),
        ("done", Self::DONE),
        ("comment", Self::COMMENT),
        ("error", Self::ERROR),
        ("other", Self::OTHER),
        ("whole", Self::WHOLE),
        ("shared_read", Self::SHARED_READ),
        ("kernel_stamp", Self::KERNEL_STAMP),
    ];

    /// Carries generated output: visible text, reasoning, a tool call, a refusal, or token ids.
    pub const OUTPUT: Self = Self(
        Self::TEXT.0
            | Self::REASONING.0
            | Self::REASONING_CONTENT.0
            | Self::TOOL.0
            | Self::REFUSAL.0
            | Self::IDS.0,
    );

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOr for ChunkFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.with(rhs)
    }
}

impl std::ops::BitOrAssign for ChunkFlags {
    fn bitor_assign(&mut self, rhs: Self) {
        self.0 |= rhs.0;
    }
}

/// The one-word kind of a chunk, derived from its flags, for people and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// Role only.
    Role,
    /// Visible text (or bare token ids, or a refusal).
    Text,
    /// Reasoning text.
    Reasoning,
    /// Tool-call fragment.
    Tool,
    /// Usage only.
    Usage,
    /// End mark.
    Done,
    /// Comment.
    Comment,
    /// Error object.
    Error,
    /// A finish reason without output.
    Finish,
    /// A choice without output, role or finish reason.
    Empty,
    /// Anything else.
    Other,
}

impl ChunkKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 11] = [
        Self::Role,
        Self::Text,
        Self::Reasoning,
        Self::Tool,
        Self::Usage,
        Self::Done,
        Self::Comment,
        Self::Error,
        Self::Finish,
        Self::Empty,
        Self::Other,
    ];

    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Tool => "tool",
            Self::Usage => "usage",
            Self::Done => "done",
            Self::Comment => "comment",
            Self::Error => "error",
            Self::Finish => "finish",
            Self::Empty => "empty",
            Self::Other => "other",
        }
    }
}

/// One stream event. 32 bytes, no heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When the bytes that completed the event reached this machine.
    pub at: Nanos,
    /// The client's own lateness: read time minus arrival, saturating at about 4.3 s.
    pub late_ns: u32,
    /// By how much the event may really have come earlier than `at`: 0 where `at` is exact, [`Self::EARLY_UNKNOWN`]
    /// where nothing bounds it. The event came within `[at - early_ns, at]`.
    pub early_ns: u32,
    /// Payload bytes of the event.
    pub bytes: u32,
    /// Generated tokens carried; 0 for a chunk without output.
    pub tokens: u32,
    /// What the event was.
    pub flags: ChunkFlags,
    /// `choices[].index`, 0 where there is none.
    pub choice: u16,
    /// How `tokens` is known.
    pub token_source: TokenSource,
}

impl Chunk {
    /// An [`early_ns`](Self::early_ns) that says nothing: the event may have come any time before `at`. What saturates
    /// (about 4.3 s) says the same.
    pub const EARLY_UNKNOWN: u32 = u32::MAX;

    /// By how much the event may have come earlier than [`at`](Self::at); `None` if nothing bounds it.
    #[must_use]
    pub const fn early(&self) -> Option<Nanos> {
        if self.early_ns == Self::EARLY_UNKNOWN { None } else { Some(Nanos(self.early_ns as u64)) }
    }

    /// Whether this chunk carries at least one generated token: visible text, reasoning, a tool-call delta, a
    /// refusal, a token id, or a token the server counted although it has no text.
    #[must_use]
    pub const fn carries_token(&self) -> bool {
        self.flags.any(ChunkFlags::OUTPUT) || self.tokens > 0
    }

    /// The one-word kind.
    #[must_use]
    pub const fn kind(&self) -> ChunkKind {
        let f = self.flags;
        if f.has(ChunkFlags::ERROR) {
            ChunkKind::Error
        } else if f.has(ChunkFlags::DONE) {
            ChunkKind::Done
        } else if f.has(ChunkFlags::COMMENT) {
            ChunkKind::Comment
        } else if f.has(ChunkFlags::TOOL) {
            ChunkKind::Tool
        } else if f.any(ChunkFlags(ChunkFlags::REASONING.0 | ChunkFlags::REASONING_CONTENT.0)) {
            ChunkKind::Reasoning
        } else if self.carries_token() {
            ChunkKind::Text
        } else if f.has(ChunkFlags::ROLE) {
            ChunkKind::Role
        } else if f.has(ChunkFlags::FINISH) {
            ChunkKind::Finish
        } else if f.has(ChunkFlags::CHOICES) {
            ChunkKind::Empty
        } else if f.has(ChunkFlags::USAGE) {
            ChunkKind::Usage
        } else {
            ChunkKind::Other
        }
    }
}

/// The instants of a request that are not chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instants {
    /// When the arrival process wanted the request to start. `None` in a closed loop.
    pub scheduled: Option<Nanos>,
    /// When the driver let it go, after any concurrency cap.
    pub released: Nanos,
    /// When a new connection for this request was begun; `None` if a ready one was used.
    pub connect_start: Option<Nanos>,
    /// When that new connection (TCP and TLS) was usable.
    pub connected: Option<Nanos>,
    /// When the first byte of the request was handed to the kernel.
    pub sent: Option<Nanos>,
    /// When the last byte of the request was handed to the kernel.
    pub sent_all: Option<Nanos>,
    /// When the response head was complete.
    pub headers: Option<Nanos>,
    /// When the protocol's own end arrived.
    pub done: Option<Nanos>,
    /// When the response body ended, or the request was given up.
    pub closed: Option<Nanos>,
}

/// The connection a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionUse {
    /// Number of the connection within the run.
    pub id: u32,
    /// Requests this connection had carried before.
    pub uses_before: u32,
    /// How long it had been idle before this request.
    pub idle: Nanos,
    /// Times the request was sent again on a fresh connection because a reused one turned out dead before any
    /// response byte. The first start time is kept.
    pub stale_retries: u32,
}

/// What the server said about the request in its answer. Server durations stay the server's: never mixed with
/// client instants except as a named span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerSaid {
    /// `usage.prompt_tokens` or its like.
    pub prompt_tokens: Option<u32>,
    /// Last cumulative `usage.completion_tokens` or its like.
    pub completion_tokens: Option<u32>,
    /// Reasoning tokens, already inside `completion_tokens`.
    pub reasoning_tokens: Option<u32>,
    /// Prompt tokens served from the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Time in the server's queue, by its own clock.
    pub queue: Option<Nanos>,
    /// Time to first token by the server's own definition and clock.
    pub first_token: Option<Nanos>,
}

/// One request, from schedule to end. Failures keep their timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// Position in the plan's schedule, counted within its phase.
    pub index: u64,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Session (conversation) number.
    pub session: u64,
    /// Turn within the session, from 0.
    pub turn: u32,
    /// Worker that sent it (0 on one machine).
    pub worker: u32,
    /// Target number when several URLs were given.
    pub target: u32,
    /// The instants.
    pub instants: Instants,
    /// The connection.
    pub connection: ConnectionUse,
    /// Bytes of the request body.
    pub request_bytes: u64,
    /// Bytes of the response body as it came off the wire, framing excluded.
    pub response_bytes: u64,
    /// HTTP status, once known.
    pub status: Option<u16>,
    /// Prompt tokens as planned by the workload's tokenizer.
    pub planned_input: Option<u32>,
    /// Output tokens asked for (`max_tokens`).
    pub max_tokens: Option<u32>,
    /// Whether the server was told to ignore end-of-sequence.
    pub ignore_eos: bool,
    /// Output tokens as known after the end, with their source. `None` if nothing came.
    pub output: Option<TokenCount>,
    /// Number of choices asked for (`n`).
    pub choices: u32,
    /// What the server said.
    pub server: ServerSaid,
    /// The last finish reason, as sent.
    pub finish_reason: Option<String>,
    /// Things a reader should know, in plain words ("usage disagrees with the chunks").
    pub notes: Vec<String>,
    /// The stream events in order of arrival.
    pub chunks: Vec<Chunk>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Timeline {
    /// A request that has been released and nothing more.
    #[must_use]
    pub fn released(index: u64, phase: Phase, scheduled: Option<Nanos>, released: Nanos) -> Self {
        Self {
            index,
            phase,
            session: index,
            turn: 0,
            worker: 0,
            target: 0,
            instants: Instants { scheduled, released, ..Instants::default() },
            connection: ConnectionUse::default(),
            request_bytes: 0,
            response_bytes: 0,
            status: None,
            planned_input: None,
            max_tokens: None,
            ignore_eos: false,
            output: None,
            choices: 1,
            server: ServerSaid::default(),
            finish_reason: None,
            notes: Vec::new(),
            chunks: Vec::new(),
            outcome: Outcome::Cancelled { cause: crate::outcome::CancelCause::RunEnd },
        }
    }

    /// Chunks that carry tokens, in order.
    pub fn token_chunks(&self) -> impl DoubleEndedIterator<Item = &Chunk> + Clone {
        self.chunks.iter().filter(|c| c.carries_token())
    }

    /// Arrival of the first stream event of any kind.
    #[must_use]
    pub fn first_event(&self) -> Option<Nanos> {
        self.chunks.first().map(|c| c.at)
    }

    /// Whether the answer came as one body instead of a stream.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.chunks.iter().any(|c| c.flags.has(ChunkFlags::WHOLE))
    }

    /// Checks the order that every timeline has: scheduled <= released <= sent <= headers <= chunks (never going
    /// back) <= closed. Used when a record is built and again when it is read.
    ///
    /// # Errors
    /// The name of the first pair that is out of order.
    pub fn check_order(&self) -> Result<(), &'static str> {
        let i = &self.instants;
        let pairs = [
            ("scheduled <= released", i.scheduled, Some(i.released)),
            ("released <= sent", Some(i.released), i.sent),
            ("sent <= headers", i.sent, i.headers),
            ("connect_start <= connected", i.connect_start, i.connected),
            ("connected <= sent", i.connected, i.sent),
            ("headers <= closed", i.headers, i.closed),
            ("done <= closed", i.done, i.closed),
            ("first chunk after sent", i.sent, self.chunks.first().map(|c| c.at)),
            ("last chunk before closed", self.chunks.last().map(|c| c.at), i.closed),
        ];
        for (name, earlier, later) in pairs {
            if let (Some(earlier), Some(later)) = (earlier, later)
                && earlier > later
            {
                return Err(name);
            }
        }
        if self.chunks.windows(2).all(|w| w[0].at <= w[1].at) {
            Ok(())
        } else {
            Err("chunk times never go back")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_stays_small() {
        assert!(size_of::<Chunk>() <= 32);
    }

    #[test]
    fn order_is_checked() {
        let mut t = Timeline::released(0, Phase::Measured, Some(Nanos(5)), Nanos(5));
        t.instants.sent = Some(Nanos(7));
        assert_eq!(t.check_order(), Ok(()));
        t.instants.sent = Some(Nanos(4));
        assert_eq!(t.check_order(), Err("released <= sent"));
    }
}
