//! What a served answer does wrong, by flag or by the request header `x-goodput-fault`.
//!
//! A rule is `name`, `name=value` or either with `@probability`; the header takes several, separated by commas.
//! Whether a rule hits request `n` is drawn from the stream `fault:<rule>` at `n` alone, so the same seed gives the
//! same faults whatever else happens. [`Fault::HELP`] lists the names.

use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_core::units::parse_duration;
use std::str::FromStr;
use thiserror::Error;

/// One fault. Counts `k` are tokens: the fault strikes when token `k + 1` would have been due, and not at all if the
/// answer is shorter than `k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The response head (and all behind it) waits this long.
    HeadDelay(Nanos),
    /// Every event is written in this many pieces, spread over one ITL.
    Drip(u32),
    /// Every event is written in this many pieces, one right after the other.
    Pieces(u32),
    /// Every event is cut inside a UTF-8 character; the rest follows half an ITL later.
    SplitUtf8,
    /// Events carry this many tokens; an event is due with its first token.
    TokensPerChunk(u32),
    /// This many events share a write; they wait for the last of them.
    EventsPerWrite(u32),
    /// Lines end with CR LF.
    Crlf,
    /// A comment line precedes every event.
    Comments,
    /// Every event has an `event:` line.
    EventLines,
    /// No space after `data:`.
    NoSpace,
    /// The role-only chunk comes with the head, long before the first token (chat only).
    EarlyRole,
    /// The finish reason comes in a chunk of its own, without text.
    EmptyFinish,
    /// Usage rides on the last chunk with a choice; there is no usage chunk.
    UsageOnLast,
    /// Every chunk carries usage, asked or not.
    UsageEverywhere,
    /// No usage at all, asked or not.
    NoUsage,
    /// Usage claims this many output tokens too many (negative: too few).
    WrongUsage(i32),
    /// No `[DONE]`.
    NoDone,
    /// After `k` tokens the body ends well-formed and the connection closes.
    CloseAfter(u32),
    /// After `k` tokens the connection closes in the middle of the body.
    CutAfter(u32),
    /// After `k` tokens the connection is reset.
    ResetAfter(u32),
    /// After `k` tokens an error object and `[DONE]` end the stream.
    ErrorAfter(u32),
    /// After `k` tokens nothing more comes; the connection stays open.
    HangAfter(u32),
    /// Nothing ever comes; the connection stays open.
    Hang,
    /// One JSON object instead of a stream.
    Json,
    /// Refused at once with this status; 429 and 503 carry `retry-after: 1`.
    Status(u16),
    /// A request with `stream_options` is refused with 400.
    RefuseStreamOptions,
    /// From the first token on, the Unix times that the server states are off by so many ns, as after a step of its wall
    /// clock (SGLang's `meta_info` of the simulated engine).
    ClockStep(i64),
}

/// A fault and how often it strikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRule {
    /// What happens.
    pub fault: Fault,
    /// Probability per request, in 0..=1.
    pub probability: f64,
}

/// Text that is not a fault rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FaultError {
    /// No fault has this name.
    #[error("`{0}` is not a fault; the faults are:\n{help}", help = Fault::HELP)]
    Name(String),
    /// The value does not fit the fault.
    #[error("fault `{name}` needs {expected}, not `{value}`")]
    Value {
        /// The fault's name.
        name: String,
        /// What was given.
        value: String,
        /// What is wanted.
        expected: &'static str,
    },
    /// The part behind `@` is no probability.
    #[error("`{0}` is not a probability between 0 and 1")]
    Probability(String),
}

impl Fault {
    /// One line per fault: its spelling and what it does.
    pub const HELP: &'static str = "  head_delay=DURATION    the response head waits
  drip=N                 every event in N pieces spread over one ITL
  pieces=N               every event in N writes at once
  split_utf8             every event cut inside a UTF-8 character
  tokens_per_chunk=N     N tokens in every event
  events_per_write=N     N events in every write
  crlf                   lines end with CR LF
  comments               a comment before every event
  event_lines            an `event:` line in every event
  no_space               no space after `data:`
  early_role             the role-only chunk comes with the head
  empty_finish           the finish reason in a chunk of its own
  usage_on_last          usage on the last chunk with a choice
  usage_everywhere       usage on every chunk
  no_usage               no usage even if asked
  wrong_usage=N          usage is wrong by N output tokens
  no_done                no [DONE]
  close_after=K          after K tokens the body ends and the connection closes
  cut_after=K            after K tokens the connection closes inside the body
  reset_after=K          after K tokens the connection is reset
  error_after=K          after K tokens an error object
  hang_after=K           after K tokens silence
  hang                   silence from the start
  json                   one JSON object instead of a stream
  status=CODE            refused with this status
  no_stream_options      a request with stream_options is refused
  clock_step=DURATION    stated server times are off from the first token on (simulated SGLang; may be negative)";

    /// Reads a name and its value (empty if there is none).
    fn read(name: &str, value: &str) -> Result<Self, FaultError> {
        let wrong = |expected| FaultError::Value { name: name.to_owned(), value: value.to_owned(), expected };
        let count = || value.parse::<u32>().map_err(|_| wrong("a count of tokens"));
        let parts = || match value.parse::<u32>() {
            Ok(parts) if (1..=1_000_000).contains(&parts) => Ok(parts),
            _ => Err(wrong("a count of at least 1")),
        };
        let plain = |fault| if value.is_empty() { Ok(fault) } else { Err(wrong("no value")) };
        match name {
            "head_delay" => {
                parse_duration(value).map(Self::HeadDelay).map_err(|_| wrong("a duration such as `200ms`"))
            }
            "drip" => parts().map(Self::Drip),
            "pieces" => parts().map(Self::Pieces),
            "split_utf8" => plain(Self::SplitUtf8),
            "tokens_per_chunk" => parts().map(Self::TokensPerChunk),
            "events_per_write" => parts().map(Self::EventsPerWrite),
            "crlf" => plain(Self::Crlf),
            "comments" => plain(Self::Comments),
            "event_lines" => plain(Self::EventLines),
            "no_space" => plain(Self::NoSpace),
            "early_role" => plain(Self::EarlyRole),
            "empty_finish" => plain(Self::EmptyFinish),
            "usage_on_last" => plain(Self::UsageOnLast),
            "usage_everywhere" => plain(Self::UsageEverywhere),
            "no_usage" => plain(Self::NoUsage),
            "wrong_usage" => {
                value.parse().map(Self::WrongUsage).map_err(|_| wrong("a whole number such as `-3`"))
            }
            "no_done" => plain(Self::NoDone),
            "close_after" => count().map(Self::CloseAfter),
            "cut_after" => count().map(Self::CutAfter),
            "reset_after" => count().map(Self::ResetAfter),
            "error_after" => count().map(Self::ErrorAfter),
            "hang_after" => count().map(Self::HangAfter),
            "hang" => plain(Self::Hang),
            "json" => plain(Self::Json),
            "status" => match value.parse() {
                Ok(status @ 400..=599) => Ok(Self::Status(status)),
                _ => Err(wrong("a status from 400 to 599")),
            },
            "no_stream_options" => plain(Self::RefuseStreamOptions),
            "clock_step" => {
                let (sign, span) = value.strip_prefix('-').map_or((1, value), |span| (-1, span));
                let ns = parse_duration(span).ok().and_then(|span| i64::try_from(span.0).ok());
                ns.map(|ns| Self::ClockStep(sign * ns)).ok_or_else(|| wrong("a duration such as `-2s`"))
            }
            _ => Err(FaultError::Name(name.to_owned())),
        }
    }
}

/// Reads `name[=value][@probability]`.
impl FromStr for FaultRule {
    type Err = FaultError;
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (rule, probability) = match text.trim().split_once('@') {
            Some((rule, p)) => match p.parse() {
                Ok(value) if (0.0..=1.0).contains(&value) => (rule, value),
                _ => return Err(FaultError::Probability(p.to_owned())),
            },
            None => (text.trim(), 1.0),
        };
        let (name, value) = rule.split_once('=').unwrap_or((rule, ""));
        Ok(Self { fault: Fault::read(name, value)?, probability })
    }
}

/// Reads the header's list.
///
/// # Errors
/// [`FaultError`] of the first rule that is none.
pub fn parse_rules(list: &str) -> Result<Vec<FaultRule>, FaultError> {
    list.split(',').filter(|rule| !rule.trim().is_empty()).map(str::parse).collect()
}

/// How an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    Close,
    Cut,
    Reset,
    Error,
    Hang,
}

/// What is refused before anything is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Hang,
    Status(u16),
}

/// How an event is cut into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cuts {
    #[default]
    None,
    /// Spread over one ITL.
    Drip(u32),
    /// At once.
    Pieces(u32),
    InsideUtf8,
}

/// Where usage is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum UsageRule {
    /// As the request asks.
    #[default]
    Asked,
    OnLast,
    Everywhere,
    Never,
}

/// The line format of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lines {
    pub(crate) crlf: bool,
    pub(crate) comments: bool,
    pub(crate) event_lines: bool,
    pub(crate) no_space: bool,
}

/// The faults of one request, later rules winning over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) head_delay: Nanos,
    pub(crate) cuts: Cuts,
    pub(crate) tokens_per_chunk: u32,
    pub(crate) events_per_write: u32,
    pub(crate) lines: Lines,
    pub(crate) early_role: bool,
    pub(crate) empty_finish: bool,
    pub(crate) usage: UsageRule,
    pub(crate) wrong_usage: i32,
    pub(crate) no_done: bool,
    pub(crate) break_after: Option<(u32, Break)>,
    pub(crate) json: bool,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) refuse_stream_options: bool,
    /// ns.
    pub(crate) clock_step: i64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            head_delay: Nanos::ZERO,
            cuts: Cuts::None,
            tokens_per_chunk: 1,
            events_per_write: 1,
            lines: Lines::default(),
            early_role: false,
            empty_finish: false,
            usage: UsageRule::Asked,
            wrong_usage: 0,
            no_done: false,
            break_after: None,
            json: false,
            refusal: None,
            refuse_stream_options: false,
            clock_step: 0,
        }
    }
}

impl Faults {
    /// What strikes request `n` under these rules.
    pub(crate) fn draw(rules: &[FaultRule], seed: Seed, n: u64) -> Self {
        let mut faults = Self::default();
        for rule in rules {
            let strikes = rule.probability >= 1.0
                || seed.stream(&format!("fault:{:?}", rule.fault)).at(n).unit() < rule.probability;
            if strikes {
                faults.add(rule.fault);
            }
        }
        faults
    }

    fn add(&mut self, fault: Fault) {
        match fault {
            Fault::HeadDelay(span) => self.head_delay = span,
            Fault::Drip(pieces) => self.cuts = Cuts::Drip(pieces),
            Fault::Pieces(pieces) => self.cuts = Cuts::Pieces(pieces),
            Fault::SplitUtf8 => self.cuts = Cuts::InsideUtf8,
            Fault::TokensPerChunk(count) => self.tokens_per_chunk = count,
            Fault::EventsPerWrite(count) => self.events_per_write = count,
            Fault::Crlf => self.lines.crlf = true,
            Fault::Comments => self.lines.comments = true,
            Fault::EventLines => self.lines.event_lines = true,
            Fault::NoSpace => self.lines.no_space = true,
            Fault::EarlyRole => self.early_role = true,
            Fault::EmptyFinish => self.empty_finish = true,
            Fault::UsageOnLast => self.usage = UsageRule::OnLast,
            Fault::UsageEverywhere => self.usage = UsageRule::Everywhere,
            Fault::NoUsage => self.usage = UsageRule::Never,
            Fault::WrongUsage(error) => self.wrong_usage = error,
            Fault::NoDone => self.no_done = true,
            Fault::CloseAfter(tokens) => self.break_after = Some((tokens, Break::Close)),
            Fault::CutAfter(tokens) => self.break_after = Some((tokens, Break::Cut)),
            Fault::ResetAfter(tokens) => self.break_after = Some((tokens, Break::Reset)),
            Fault::ErrorAfter(tokens) => self.break_after = Some((tokens, Break::Error)),
            Fault::HangAfter(tokens) => self.break_after = Some((tokens, Break::Hang)),
            Fault::Hang => self.refusal = Some(Refusal::Hang),
            Fault::Json => self.json = true,
            Fault::Status(status) => self.refusal = Some(Refusal::Status(status)),
            Fault::RefuseStreamOptions => self.refuse_stream_options = true,
            Fault::ClockStep(ns) => self.clock_step = ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<FaultRule, FaultError> {
        text.parse()
    }

    #[test]
    fn every_fault_of_the_help_is_read() {
        for line in Fault::HELP.lines() {
            let spelling = line.split_whitespace().next().unwrap();
            let text = spelling.replace("DURATION", "20ms").replace("CODE", "503").replace(['N', 'K'], "3");
            assert!(rule(&text).is_ok(), "{text}");
            if let Some((name, _)) = spelling.split_once('=') {
                assert!(matches!(rule(name), Err(FaultError::Value { .. })), "{name} alone lacks its value");
            } else {
                let valued = format!("{spelling}=1");
                assert!(matches!(rule(&valued), Err(FaultError::Value { .. })), "{valued} has one too many");
            }
        }
    }

    #[test]
    fn rules_read_values_and_probabilities() {
        let read = parse_rules("reset_after=5@0.25, crlf,").unwrap();
        assert_eq!(
            read,
            [
                FaultRule { fault: Fault::ResetAfter(5), probability: 0.25 },
                FaultRule { fault: Fault::Crlf, probability: 1.0 },
            ]
        );
        assert_eq!(rule("crlf@2"), Err(FaultError::Probability("2".to_owned())));
        assert_eq!(rule("nonsense"), Err(FaultError::Name("nonsense".to_owned())));
        assert!(rule("status=200").is_err() && rule("pieces=0").is_err());
    }

    #[test]
    fn draws_follow_the_seed_and_the_probability() {
        let rules = parse_rules("hang@0.3,crlf@0.3,json").unwrap();
        let n = 10_000;
        let drawn: Vec<Faults> = (0..n).map(|i| Faults::draw(&rules, Seed(4), i)).collect();
        let hangs = drawn.iter().filter(|f| f.refusal.is_some()).count();
        let both = drawn.iter().filter(|f| f.refusal.is_some() && f.lines.crlf).count();
        // Five standard deviations around 3000 and 900.
        assert!((2_770..=3_230).contains(&hangs), "{hangs}");
        assert!((757..=1_043).contains(&both), "independent of each other: {both}");
        assert!(drawn.iter().all(|f| f.json));
        assert_eq!(drawn[17], Faults::draw(&rules, Seed(4), 17));
    }
}
