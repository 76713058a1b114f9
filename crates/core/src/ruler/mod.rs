//! Rulers: the conventions by which a tool turns instants into numbers, as data.
//!
//! One stored timeline, many rulers. A [`Ruler`] is a row of small choices (where a request starts, which event is
//! the first token, where it ends, what an ITL sample is, what failures do, ...). One evaluator,
//! [`Ruler::measure`], reads any row; there is no code per tool. Rows are in [`RULERS`]; a row that knowingly
//! repeats a fault of its tool lists it in [`Ruler::faults`].
//!
//! Sources: the canonical row is this project's definition; the others restate what the named tool's client does
//! in the named version.

mod explain;
mod measure;
mod table;

pub use explain::{ChoiceDiff, describe, diff_choices, explain};
pub use measure::Measures;
pub use table::{CANONICAL, RULERS, ruler};

use crate::plan::Protocol;
use crate::timeline::{Chunk, ChunkFlags};
use goodput_stats::quantile::Method;

/// One tool's conventions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruler {
    /// Stable name.
    pub name: &'static str,
    /// The program whose numbers these are.
    pub tool: &'static str,
    /// Version of that program, or of this definition.
    pub version: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Where a request starts.
    pub start: StartRule,
    /// Which events count as tokens, by protocol.
    pub token_events: TokenEvents,
    /// Whether several choices of one request are told apart.
    pub lanes: LaneRule,
    /// Where E2E ends.
    pub end: EndRule,
    /// What TPOT spans.
    pub tpot: TpotRule,
    /// What one ITL sample is.
    pub itl: ItlRule,
    /// Where N comes from.
    pub count: CountRule,
    /// Where the number of prompt tokens comes from.
    pub input: InputRule,
    /// What TPOT is with fewer than two tokens.
    pub single_token: SingleTokenRule,
    /// Which requests have latencies.
    pub success: SuccessRule,
    /// How a percentile is read from samples.
    pub percentile: Method,
    /// What rates are divided by.
    pub duration: DurationRule,
    /// How the peak number of requests in flight is found.
    pub peak_concurrency: PeakConcurrencyRule,
    /// How the peak output rate is found.
    pub peak_output: PeakOutputRule,
    /// Known faults, repeated on purpose unless the sentence says that they are not.
    pub faults: &'static [&'static str],
}

/// Where a request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartRule {
    /// The scheduled instant where there is one (open loop, trace), else the sent instant.
    ScheduledElseSent,
    /// After the concurrency cap: the begin of the connection's set-up where a new one was made, else the sent
    /// instant.
    Dialled,
}

/// Which events count as tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRule {
    /// Any event with one of these flags.
    pub any: ChunkFlags,
    /// Also an event for which the server counted a token although it shows nothing.
    pub or_counted: bool,
    /// Also an event with empty text and no role.
    pub or_empty_text_without_role: bool,
}

impl EventRule {
    /// Whether the event counts as a token event.
    #[must_use]
    pub const fn admits(&self, chunk: &Chunk) -> bool {
        let f = chunk.flags;
        f.any(self.any)
            || (self.or_counted && chunk.tokens > 0)
            || (self.or_empty_text_without_role
                && f.has(ChunkFlags::EMPTY_TEXT)
                && !f.has(ChunkFlags::ROLE)
                && f.has(ChunkFlags::CHOICES))
    }
}

/// [`EventRule`]s by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEvents {
    /// For `openai-chat`.
    pub chat: EventRule,
    /// For `openai-completions`.
    pub completions: EventRule,
    /// For SGLang's native stream.
    pub native: EventRule,
}

impl TokenEvents {
    /// The rule for one protocol.
    #[must_use]
    pub const fn of(&self, protocol: Protocol) -> &EventRule {
        match protocol {
            Protocol::OpenaiChat => &self.chat,
            Protocol::OpenaiCompletions => &self.completions,
            Protocol::Sglang => &self.native,
        }
    }
}

/// Whether several choices of one request are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneRule {
    /// Gaps are taken within one choice; TPOT of several choices is undefined.
    PerChoice,
    /// All choices are one stream.
    Mixed,
}

/// Where E2E ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRule {
    /// At the last token event.
    LastTokenEvent,
    /// At the last event of any kind, the end mark included.
    LastEvent,
}

/// What TPOT spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TpotRule {
    /// (last token event - first token event) / (N - 1).
    TokenSpan,
    /// (E2E - TTFT) / (N - 1), wherever E2E ends.
    EndMinusFirst,
}

/// What one ITL sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItlRule {
    /// A gap before n tokens is n samples of gap / n; further tokens of the first chunk are samples of 0.
    PerToken,
    /// The same, but the first chunk's further tokens are dropped.
    PerTokenWithoutFirstChunk,
    /// One sample per token event after the first.
    PerEvent,
}

/// Where N comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountRule {
    /// As recorded: server, else ids, else logprobs, else retokenised, else chunks.
    Recorded,
    /// Usage from an event after the last token event; else the retokenised text, or undefined where the server's
    /// count made counting it needless; else 1.
    UsageElseRetokenisedElseOne,
    /// Usage; else the number of token events.
    UsageElseEvents,
    /// The server's last cumulative count; else the requested length.
    ServerElseRequested,
    /// Usage (for completions only from an event with text); else the requested length.
    UsageElseRequested,
}

/// Where the number of prompt tokens comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRule {
    /// The server's count, else the workload's.
    ServerElsePlanned,
    /// The workload's count, whatever the server said.
    Planned,
}

/// What TPOT is with fewer than two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleTokenRule {
    /// Undefined; an objective on it is met vacuously and that is counted.
    Undefined,
    /// Left out of the statistics, 0 for goodput.
    ZeroForGoodput,
}

/// Which requests have latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuccessRule {
    /// Names of the outcomes taken as success. An answer whose HTTP body broke off is none under any ruler: the
    /// HTTP library of every tool reports it.
    pub outcomes: &'static [&'static str],
    /// Those of them that fail on OpenAI's completions.
    pub but_not_in_completions: &'static [&'static str],
    /// What happens when no token event was seen.
    pub tokenless: Tokenless,
}

/// What happens to an otherwise successful request without a token event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokenless {
    /// It is a failure.
    Fails,
    /// It is a success with a TTFT of 0.
    ZeroTtft,
}

/// What rates are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationRule {
    /// First start to last completion of the measured set.
    StartToCompletion,
    /// From when the tool began to offer load (the gap before its first arrival included) to last completion.
    OfferToCompletion,
}

/// How the peak number of requests in flight is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakConcurrencyRule {
    /// By a sweep over half-open intervals from sent to closed.
    Events,
    /// The most successful requests that touch one whole second.
    SecondBins,
}

/// How the peak output rate is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakOutputRule {
    /// A sliding second, weighted by tokens.
    SlidingTokens,
    /// Whole seconds from the first start, one per token event.
    BinnedEvents,
    /// Whole seconds from the first start, one for the first token event and one per ITL sample.
    BinnedItlSamples,
}
