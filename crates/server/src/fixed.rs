//! Exact timing: token `i` (from 0) of an answer is due at its start + TTFT + i ITL, on an absolute schedule.
//!
//! The start is the arrival of the whole request, or the moment a slot became free if slots are limited. The head
//! is written at the start; the role chunk shares the first token's write, and usage, `[DONE]` and the end of the
//! body share the last one's, so that a timed answer of n tokens is n + 1 writes.

use crate::answer::{Answer, Carried, End, Whole, json_answer, refusal};
use crate::ask::Ask;
use crate::fault::{Break, Cuts, FaultRule, Faults};
use crate::http::Request;
use crate::order::{self, Occasion};
use crate::shape::{Dialect, Labels, Shape, Voice};
use crate::stall::{EngineClock, Stall, disjoint};
use crate::stream::{Stream, cut};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The longest answer that can be asked for, tokens.
pub(crate) const MODEL_LEN: u32 = 1 << 20;

/// What `goodput sim fixed` serves.
#[derive(Debug, Clone)]
pub struct FixedConfig {
    /// From the arrival of the whole request to the first token.
    pub ttft: Nanos,
    /// From each token to the next. Zero sends the whole answer in as few writes as possible.
    pub itl: Nanos,
    /// Tokens per answer. A smaller `max_tokens` cuts it short; with `ignore_eos` the answer has exactly
    /// `max_tokens`.
    pub tokens: u32,
    /// Always [`FixedConfig::tokens`], whatever the request says.
    pub ignore_max_tokens: bool,
    /// The model's name on `/v1/models`, and in answers to requests that name none.
    pub model: String,
    /// How many requests are served at once; the others wait first come, first served. `None`: all.
    pub slots: Option<NonZeroUsize>,
    /// Pauses of all streams, after the first request.
    pub stalls: Vec<Stall>,
    /// What goes wrong, in order; a request's own header is applied after them.
    pub faults: Vec<FaultRule>,
    /// Root of the draws of probabilistic faults.
    pub seed: Seed,
    /// SGLang frames carry only the new text instead of all so far.
    pub incremental: bool,
}

impl Default for FixedConfig {
    /// 50 ms, 10 ms, 64 tokens, nothing wrong.
    fn default() -> Self {
        Self {
            ttft: Nanos::from_millis(50),
            itl: Nanos::from_millis(10),
            tokens: 64,
            ignore_max_tokens: false,
            model: "goodput-fixed".to_owned(),
            slots: None,
            stalls: Vec::new(),
            faults: Vec::new(),
            seed: Seed(0),
            incremental: false,
        }
    }
}

/// Answers requests under one configuration.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) config: FixedConfig,
    stalls: Rc<[Stall]>,
    /// Arrival of the first request.
    epoch: Option<Nanos>,
}

/// A request understood.
struct Order<'a> {
    shape: Shape,
    request: &'a Request,
    ask: &'a Ask,
    faults: &'a Faults,
}

impl Fixed {
    pub(crate) fn new(config: FixedConfig) -> Self {
        let stalls = disjoint(&config.stalls);
        Self { config, stalls, epoch: None }
    }

    /// Stalls count from the first arrival after this.
    pub(crate) fn reset(&mut self) {
        self.epoch = None;
    }

    /// Notes an arrival.
    pub(crate) fn arrived(&mut self, at: Nanos) {
        self.epoch.get_or_insert(at);
    }

    /// The answer to one request.
    pub(crate) fn answer(&self, shape: Shape, request: &Request, occasion: Occasion) -> Answer {
        let read = order::read(request, &self.config.faults, self.config.seed, occasion);
        let (ask, faults) = match read {
            Ok(read) => read,
            Err(answer) => return *answer,
        };
        if ask.limit().is_some_and(|limit| limit > MODEL_LEN) {
            let message = format!("max_tokens cannot be greater than max_model_len={MODEL_LEN}");
            return refusal(400, &message, request, occasion.start);
        }
        self.generate(&Order { shape, request, ask: &ask, faults: &faults }, occasion)
    }

    fn generate(&self, order: &Order<'_>, occasion: Occasion) -> Answer {
        let &Order { shape, request, ask, faults } = order;
        let (tokens, at_limit) = self.length(ask);
        let labels = Labels {
            n: occasion.n,
            created: occasion.created,
            model: ask.model.clone().unwrap_or_else(|| self.config.model.clone()),
            dialect: Dialect::Plain,
        };
        let mut voice = Voice::new(shape, &labels, ask, faults, at_limit);
        let clock = EngineClock::new(self.epoch.unwrap_or(occasion.start), Rc::clone(&self.stalls));
        let timing = Timing {
            start: occasion.start,
            engine_start: clock.engine(occasion.start),
            head: occasion.start.saturating_add(faults.head_delay),
            ttft: self.config.ttft,
            itl: self.config.itl,
            clock,
        };
        if faults.json || !ask.stream() {
            let due = timing.token(tokens.saturating_sub(1), Nanos::ZERO);
            return Answer::Whole(Whole {
                due,
                tokens,
                ..json_answer(200, &voice.whole(tokens), &[], request, due)
            });
        }
        let stream = Stream::new(voice, tokens, faults, request);
        Answer::Fixed(Box::new(FixedAnswer::new(stream, timing, tokens)))
    }

    /// How many tokens the answer has, and whether its limit ends it.
    fn length(&self, ask: &Ask) -> (u32, bool) {
        let natural = self.config.tokens.max(1);
        match ask.limit() {
            Some(limit) if !self.config.ignore_max_tokens => {
                let limit = limit.max(1);
                if ask.ignore_eos() || limit <= natural { (limit, true) } else { (natural, false) }
            }
            _ => (natural, false),
        }
    }
}

/// When the tokens of one answer are due.
#[derive(Debug)]
struct Timing {
    start: Nanos,
    engine_start: Nanos,
    /// When the head is due: nothing can precede it.
    head: Nanos,
    ttft: Nanos,
    itl: Nanos,
    clock: EngineClock,
}

impl Timing {
    /// When token `index` is due, or something `later` than it.
    fn token(&self, index: u32, later: Nanos) -> Nanos {
        let steps = Nanos(self.itl.0.saturating_mul(u64::from(index)));
        let offset = self.ttft.saturating_add(steps).saturating_add(later);
        self.clock.wall(self.engine_start.saturating_add(offset)).max(self.head).max(self.start)
    }
}

/// A streamed answer being played.
#[derive(Debug)]
pub(crate) struct FixedAnswer {
    stream: Stream,
    timing: Timing,
    tokens: u32,
    position: Position,
    /// The events of the current write, if it is cut into pieces.
    staged: Staged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Head,
    /// The write whose first token is this.
    Tokens(u32),
    /// Piece of a staged write.
    Piece(usize),
    /// The fault that ends the answer.
    Break,
    Over,
}

/// One write's events, cut into pieces.
#[derive(Debug, Default)]
struct Staged {
    bytes: Vec<u8>,
    /// Ends of the pieces.
    ends: Vec<usize>,
    /// First token of the write and of the next.
    first: u32,
    next: u32,
    carried: Carried,
}

impl FixedAnswer {
    fn new(stream: Stream, timing: Timing, tokens: u32) -> Self {
        Self { stream, timing, tokens, position: Position::Head, staged: Staged::default() }
    }

    pub(crate) fn due(&self) -> Option<Nanos> {
        Some(match self.position {
            Position::Head => self.timing.head,
            // A write waits for the first token of its last event.
            Position::Tokens(first) => self.timing.token(self.last_event(first), Nanos::ZERO),
            Position::Piece(piece) => {
                let later = Nanos(self.stream.spacing(self.timing.itl).0.saturating_mul(piece as u64));
                self.timing.token(self.last_event(self.staged.first), later)
            }
            Position::Break => match self.stream.break_after {
                Some((_, Break::Hang)) | None => return None,
                Some((after, _)) => self.timing.token(after, Nanos::ZERO),
            },
            Position::Over => return None,
        })
    }

    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> Carried {
        match self.position {
            Position::Head => {
                self.stream.head(out);
                self.position = self.after(0);
                Carried::default()
            }
            Position::Tokens(first) => {
                self.stage(first);
                self.piece(0, out)
            }
            Position::Piece(piece) => self.piece(piece, out),
            Position::Break => {
                self.stream.break_off(out);
                self.position = Position::Over;
                Carried::default()
            }
            Position::Over => Carried::default(),
        }
    }

    pub(crate) fn batches(&self) -> bool {
        self.timing.itl == Nanos::ZERO && self.stream.faults.cuts == Cuts::None
    }

    pub(crate) fn end(&self) -> End {
        self.stream.end()
    }

    /// Tokens that are served before a fault ends the answer.
    fn limit(&self) -> u32 {
        self.stream.break_after.map_or(self.tokens, |(after, _)| after)
    }

    /// What follows when token `next` would be the first of the next write.
    fn after(&self, next: u32) -> Position {
        match (next < self.limit(), self.stream.break_after) {
            (true, _) => Position::Tokens(next),
            (false, Some(_)) => Position::Break,
            (false, None) => Position::Over,
        }
    }

    /// First token behind the write that begins with `first`.
    fn next_write(&self, first: u32) -> u32 {
        let per_write =
            self.stream.faults.tokens_per_chunk.saturating_mul(self.stream.faults.events_per_write);
        first.saturating_add(per_write).min(self.limit())
    }

    /// First token of the last event in the write that begins with `first`.
    fn last_event(&self, first: u32) -> u32 {
        let tokens = self.next_write(first) - first;
        first + (tokens - 1) / self.stream.faults.tokens_per_chunk * self.stream.faults.tokens_per_chunk
    }

    /// Renders the write that begins with token `first` and marks where it is cut.
    fn stage(&mut self, first: u32) {
        let next = self.next_write(first);
        self.staged.bytes.clear();
        if first == 0 && !self.stream.faults.early_role {
            self.stream.voice.role(&mut self.staged.bytes);
        }
        let mut chunks = 0;
        let mut token = first;
        while token < next {
            let count = self.stream.faults.tokens_per_chunk.min(next - token);
            token += count;
            chunks += 1;
            self.stream.voice.tokens(&mut self.staged.bytes, count, token == self.tokens);
        }
        if next == self.tokens && self.stream.break_after.is_none() {
            self.stream.voice.ending(&mut self.staged.bytes);
        }
        self.staged.first = first;
        self.staged.next = next;
        self.staged.carried = Carried { chunks, tokens: next - first };
        cut(&self.staged.bytes, self.stream.faults.cuts, &mut self.staged.ends);
    }

    /// Appends one piece of the staged write; the last one counts as the arrival of its tokens.
    fn piece(&mut self, piece: usize, out: &mut Vec<u8>) -> Carried {
        let from = if piece == 0 { 0 } else { self.staged.ends[piece - 1] };
        self.stream.frame(&self.staged.bytes[from..self.staged.ends[piece]], out);
        if piece + 1 < self.staged.ends.len() {
            self.position = Position::Piece(piece + 1);
            return Carried::default();
        }
        self.position = self.after(self.staged.next);
        if self.position == Position::Over {
            self.stream.close(out);
        }
        self.staged.carried
    }
}

#[cfg(test)]
#[path = "fixed_tests.rs"]
mod tests;
