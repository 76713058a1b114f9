//! The one evaluator: a timeline under a ruler.
//!
//! Times leave here in milliseconds as `f64`, made from integer nanoseconds in one division. Nothing here decides
//! which requests a report covers; [`Measures::get`] only refuses figures of requests that the ruler does not take
//! as successful.
//!
//! # Per-token gaps when counts are incomplete
//! A chunk keeps the token count that was recorded for it. A token-carrying chunk with a count of 0 (text that the
//! server did not count separately) gives its gap to the next counted chunk of its choice, or, at the end, to the
//! previous one, so no time is lost: the samples of a choice always add up to its last token minus its first.
//! Where the counts do not add up to N, they are used as they are and the request is marked
//! ([`Measures::tokens_mismatch`]).

use super::{
    CountRule, EndRule, InputRule, ItlRule, LaneRule, Ruler, SingleTokenRule, StartRule, Tokenless, TpotRule,
};
use crate::metric::Metric;
use crate::outcome::Outcome;
use crate::plan::Protocol;
use crate::time::Nanos;
use crate::timeline::{Chunk, ChunkFlags, Timeline};
use crate::tokens::TokenSource;
use std::collections::BTreeMap;

/// Output that belongs to the answer proper.
const ANSWER: ChunkFlags = ChunkFlags(ChunkFlags::TEXT.0 | ChunkFlags::TOOL.0 | ChunkFlags::REFUSAL.0);

/// Either name of reasoning.
const REASONING: ChunkFlags = ChunkFlags(ChunkFlags::REASONING.0 | ChunkFlags::REASONING_CONTENT.0);

/// One request under one ruler.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// Whether the ruler takes the request as successful, so that it has latencies.
    pub success: bool,
    /// Where the ruler lets the request start.
    pub start: Nanos,
    /// First token event.
    pub first_token: Option<Nanos>,
    /// End of E2E.
    pub end: Option<Nanos>,
    /// N.
    pub output_tokens: Option<u64>,
    /// Prompt tokens.
    pub input_tokens: Option<u64>,
    /// Number of token events.
    pub token_events: u64,
    /// Whether the events' token counts do not add up to N.
    pub tokens_mismatch: bool,
    /// Whether several choices came or were asked for, and the ruler tells them apart.
    pub several_choices: bool,
    /// Whether the answer came as one body.
    pub whole: bool,
    values: [Option<f64>; Metric::COUNT],
}

impl Measures {
    /// The metric's value (its unit is in [`crate::metric::METRICS`]); `None` where it is undefined and for every
    /// request that is not a success. For `chunk_gap` it is the mean of the request's gaps, for `itl` nothing:
    /// its samples come from [`Ruler::each_itl`].
    #[must_use]
    pub const fn get(&self, metric: Metric) -> Option<f64> {
        if self.success { self.observed(metric) } else { None }
    }

    /// The value as far as it was observed, whatever became of the request. For judging whether a request that was
    /// cut off had already broken a limit; never for a latency statistic.
    #[must_use]
    pub const fn observed(&self, metric: Metric) -> Option<f64> {
        self.values[metric as usize]
    }
}

/// What one pass over the token events gives.
#[derive(Debug, Default)]
struct Walk {
    first: Option<Nanos>,
    last: Option<Nanos>,
    first_answer: Option<Nanos>,
    events: u64,
    tokens: u64,
    /// Tokens of the first event, where they are known and not assumed.
    first_tokens: Option<u64>,
    gaps: u64,
    gap_sum: u64,
    gap_max: Nanos,
}

impl Walk {
    fn add(&mut self, gap: Option<Nanos>, chunk: &Chunk) {
        if self.events == 0 {
            self.first = Some(chunk.at);
            self.first_tokens =
                (!chunk.token_source.is_estimate() && chunk.tokens > 0).then_some(u64::from(chunk.tokens));
        }
        let bare_ids = chunk.flags.has(ChunkFlags::IDS) && !chunk.flags.any(REASONING);
        if self.first_answer.is_none() && (chunk.flags.any(ANSWER) || bare_ids) {
            self.first_answer = Some(chunk.at);
        }
        self.last = Some(chunk.at);
        self.events += 1;
        self.tokens += u64::from(chunk.tokens);
        if let Some(gap) = gap {
            self.gaps += 1;
            self.gap_sum += gap.0;
            self.gap_max = self.gap_max.max(gap);
        }
    }
}

/// A small map by choice that costs nothing for the first choice.
struct Lanes<T> {
    first: Option<(u16, T)>,
    others: BTreeMap<u16, T>,
    rule: LaneRule,
}

impl<T: Default> Lanes<T> {
    const fn new(rule: LaneRule) -> Self {
        Self { first: None, others: BTreeMap::new(), rule }
    }

    fn of(&mut self, choice: u16) -> &mut T {
        let key = if self.rule == LaneRule::Mixed { 0 } else { choice };
        let (first, lane) = self.first.get_or_insert_with(|| (key, T::default()));
        if *first == key { lane } else { self.others.entry(key).or_default() }
    }

    fn into_all(self) -> impl Iterator<Item = T> {
        self.first.map(|(_, lane)| lane).into_iter().chain(self.others.into_values())
    }
}

/// Per-token gaps of one choice, held back by one event so that uncounted events at the end find an owner.
#[derive(Debug, Default)]
struct ItlLane {
    started: bool,
    /// The first event was not counted, so its first token sits in the next counted event.
    owed: bool,
    /// Tokens of the first event after its first.
    first_extra: u64,
    /// The last gap that has tokens.
    held: Option<(Nanos, u64)>,
    /// Time of events without counted tokens.
    carried: Nanos,
}

impl ItlLane {
    fn add(&mut self, gap: Option<Nanos>, tokens: u64, visit: &mut impl FnMut(f64, u64)) {
        if !self.started {
            self.started = true;
            self.owed = tokens == 0;
            self.first_extra = tokens.saturating_sub(1);
            return;
        }
        self.carried += gap.unwrap_or_default();
        let mut tokens = tokens;
        if self.owed && tokens > 0 {
            self.owed = false;
            tokens -= 1;
        }
        if tokens > 0 {
            let taken = std::mem::take(&mut self.carried);
            if let Some(held) = self.held.replace((taken, tokens)) {
                emit(held, visit);
            }
        }
    }

    fn finish(mut self, visit: &mut impl FnMut(f64, u64)) {
        match &mut self.held {
            Some((gap, _)) => *gap += self.carried,
            None if self.carried > Nanos::ZERO && self.first_extra > 0 => {
                self.first_extra -= 1;
                visit(self.carried.as_millis_f64(), 1);
            }
            None => {}
        }
        if let Some(held) = self.held {
            emit(held, visit);
        }
        if self.first_extra > 0 {
            visit(0.0, self.first_extra);
        }
    }
}

fn emit((gap, tokens): (Nanos, u64), visit: &mut impl FnMut(f64, u64)) {
    visit(gap.as_millis_f64() / tokens as f64, tokens);
}

impl Ruler {
    /// Where the request starts.
    #[must_use]
    pub fn start_of(&self, t: &Timeline) -> Nanos {
        let i = &t.instants;
        let start = match self.start {
            StartRule::ScheduledElseSent => i.scheduled.or(i.sent),
            StartRule::Dialled => i.connect_start.or(i.sent),
        };
        start.unwrap_or(i.released)
    }

    /// Visits the token events of a streamed answer with the gap before each within its choice (`None` for the
    /// first). A whole-body answer has no token events.
    pub fn each_event(&self, t: &Timeline, protocol: Protocol, mut visit: impl FnMut(Option<Nanos>, &Chunk)) {
        if t.is_whole() {
            return;
        }
        let rule = self.token_events.of(protocol);
        let mut lanes: Lanes<Option<Nanos>> = Lanes::new(self.lanes);
        for chunk in t.chunks.iter().filter(|c| rule.admits(c)) {
            let before = lanes.of(chunk.choice).replace(chunk.at);
            visit(before.map(|b| chunk.at.since(b)), chunk);
        }
    }

    /// Visits the ITL samples of a request as (milliseconds, how many).
    pub fn each_itl(&self, t: &Timeline, protocol: Protocol, mut visit: impl FnMut(f64, u64)) {
        if self.itl == ItlRule::PerEvent {
            self.each_event(t, protocol, |gap, _| {
                if let Some(gap) = gap {
                    visit(gap.as_millis_f64(), 1);
                }
            });
            return;
        }
        let mut lanes: Lanes<ItlLane> = Lanes::new(self.lanes);
        self.each_event(t, protocol, |gap, chunk| {
            lanes.of(chunk.choice).add(gap, u64::from(chunk.tokens), &mut visit);
        });
        for mut lane in lanes.into_all() {
            if self.itl == ItlRule::PerTokenWithoutFirstChunk {
                lane.first_extra = 0;
                lane.carried = Nanos::ZERO;
            }
            lane.finish(&mut visit);
        }
    }

    /// Share of the tokens that met `start + ttft + (k - 1) * tpot`; `None` where there is no stream, no token, or
    /// more than one choice.
    #[must_use]
    pub fn fluidity(&self, t: &Timeline, protocol: Protocol, ttft: Nanos, tpot: Nanos) -> Option<f64> {
        if is_several(t) {
            return None;
        }
        let first_due = self.start_of(t).saturating_add(ttft);
        let (mut before, mut met) = (0_u64, 0_u64);
        self.each_event(t, protocol, |_, chunk| {
            // Deadlines grow with k, so of tokens that arrive together only the first ones can be late.
            let tokens = u64::from(chunk.tokens.max(1));
            let late_by = chunk.at.since(first_due).0;
            let late_before = if tpot.0 > 0 {
                late_by.div_ceil(tpot.0)
            } else if late_by > 0 {
                u64::MAX
            } else {
                0
            };
            met += tokens - late_before.saturating_sub(before).min(tokens);
            before += tokens;
        });
        (before > 0).then(|| met as f64 / before as f64)
    }

    /// Whether the ruler takes a request as successful, given the number of its token events.
    fn succeeds(&self, t: &Timeline, protocol: Protocol, events: u64) -> bool {
        let (rule, name) = (&self.success, t.outcome.name());
        let fails = protocol == Protocol::OpenaiCompletions && rule.but_not_in_completions.contains(&name);
        rule.outcomes.contains(&name)
            && !fails
            && !matches!(t.outcome, Outcome::Truncated { inside_body: true })
            && (events > 0 || t.is_whole() || rule.tokenless == Tokenless::ZeroTtft)
    }

    /// The request under this ruler.
    #[must_use]
    pub fn measure(&self, t: &Timeline, protocol: Protocol) -> Measures {
        let mut walk = Walk::default();
        self.each_event(t, protocol, |gap, chunk| walk.add(gap, chunk));
        let start = self.start_of(t);
        let success = self.succeeds(t, protocol, walk.events);
        let whole = t.is_whole();
        let first_token = walk.first.or((success && !whole).then_some(start));
        let output_tokens = self.output_tokens(t, protocol, walk.events);
        let mut m = Measures {
            success,
            start,
            first_token,
            end: self.end_of(t, &walk),
            output_tokens,
            input_tokens: self.input_tokens(t),
            token_events: walk.events,
            tokens_mismatch: walk.events > 0 && output_tokens.is_some_and(|n| n != walk.tokens),
            several_choices: self.lanes == LaneRule::PerChoice && is_several(t),
            whole,
            values: [None; Metric::COUNT],
        };
        m.set_latencies(self, t, &walk);
        m.set_client_spans(t);
        m
    }

    fn end_of(&self, t: &Timeline, walk: &Walk) -> Option<Nanos> {
        if t.is_whole() {
            return t.chunks.iter().rfind(|c| c.flags.has(ChunkFlags::WHOLE)).map(|c| c.at);
        }
        match self.end {
            EndRule::LastTokenEvent => walk.last,
            EndRule::LastEvent => t.chunks.last().map(|c| c.at).max(t.instants.done),
        }
    }

    fn output_tokens(&self, t: &Timeline, protocol: Protocol, events: u64) -> Option<u64> {
        let server = t.server.completion_tokens;
        let rule = self.token_events.of(protocol);
        let usage_after_tokens = || {
            let after = t.chunks.iter().rev().take_while(|c| !rule.admits(c));
            t.is_whole() || after.into_iter().any(|c| c.flags.has(ChunkFlags::USAGE))
        };
        let usage_with_text = || t.chunks.iter().any(|c| c.flags.has(ChunkFlags::USAGE | ChunkFlags::TEXT));
        let counted = match self.count {
            CountRule::Recorded => t.output.map(|o| o.count),
            CountRule::UsageElseRetokenisedElseOne => match (server, t.output) {
                (Some(n), _) if n > 0 && usage_after_tokens() => server,
                (_, Some(o)) if o.source == TokenSource::Retokenised => Some(o.count),
                // The tool counts the text then; where the server's count was at hand, the record has no other.
                (Some(n), _) if n > 0 => None,
                _ => (events > 0).then_some(1),
            },
            CountRule::UsageElseEvents => {
                return server.filter(|n| *n > 0).map(u64::from).or((events > 0).then_some(events));
            }
            CountRule::ServerElseRequested => server.or(t.max_tokens),
            CountRule::UsageElseRequested => server
                .filter(|_| protocol != Protocol::OpenaiCompletions || t.is_whole() || usage_with_text())
                .or(t.max_tokens),
        };
        counted.map(u64::from)
    }

    fn input_tokens(&self, t: &Timeline) -> Option<u64> {
        match self.input {
            InputRule::ServerElsePlanned => t.server.prompt_tokens.or(t.planned_input),
            InputRule::Planned => t.planned_input,
        }
        .map(u64::from)
    }
}

fn is_several(t: &Timeline) -> bool {
    t.choices > 1 || t.chunks.iter().any(|c| c.choice != 0)
}

impl Measures {
    fn set(&mut self, metric: Metric, value: Option<f64>) {
        self.values[metric as usize] = value;
    }

    fn set_span(&mut self, metric: Metric, from: Option<Nanos>, to: Option<Nanos>) {
        let span = from.zip(to).map(|(from, to)| to.since(from).as_millis_f64());
        self.set(metric, span);
    }

    fn set_latencies(&mut self, ruler: &Ruler, t: &Timeline, walk: &Walk) {
        let start = Some(self.start);
        self.set_span(Metric::Ttft, start, self.first_token);
        self.set_span(Metric::TtftSent, t.instants.sent, walk.first);
        self.set_span(Metric::Ttfa, start, walk.first_answer);
        self.set_span(Metric::FirstChunk, start, t.first_event().filter(|_| !self.whole));
        self.set_span(Metric::E2e, start, self.end);
        self.set_span(Metric::E2eClosed, start, t.instants.closed);
        if walk.gaps > 0 {
            self.set(Metric::MaxItl, Some(walk.gap_max.as_millis_f64()));
            self.set(Metric::ChunkGap, Some(Nanos(walk.gap_sum).as_millis_f64() / walk.gaps as f64));
        }
        let tokens = self.output_tokens.filter(|n| *n > 0);
        let per = |span: Option<f64>, n: u64| span.map(|s| s / n as f64);
        self.set(Metric::NormalisedLatency, tokens.and_then(|n| per(self.observed(Metric::E2e), n)));
        self.set(Metric::OutputTokens, self.output_tokens.map(|n| n as f64));
        self.set(Metric::InputTokens, self.input_tokens.map(|n| n as f64));
        let Some(n) = tokens.filter(|_| !self.whole && !self.several_choices) else { return };
        let last = match ruler.tpot {
            TpotRule::TokenSpan => walk.last,
            TpotRule::EndMinusFirst => self.end,
        };
        let decode = self.first_token.zip(last).map(|(first, last)| last.since(first).as_millis_f64());
        if n >= 2 {
            self.set(Metric::Tpot, per(decode, n - 1));
            let rest =
                walk.first_tokens.and_then(|k| n.checked_sub(k)).filter(|rest| *rest > 0 && walk.events > 1);
            self.set(Metric::DecodeTpot, rest.and_then(|rest| per(decode, rest)));
        }
    }

    fn set_client_spans(&mut self, t: &Timeline) {
        let i = &t.instants;
        self.set_span(Metric::ClientQueue, i.scheduled, i.sent);
        self.set_span(Metric::CapWait, i.scheduled, Some(i.released));
        self.set_span(Metric::Connect, i.connect_start, i.connected);
        self.set_span(Metric::Headers, i.sent, i.headers);
    }

    /// TPOT as a limit sees it: a tool may put 0 where it is undefined for want of tokens.
    #[must_use]
    pub fn tpot_for_limit(&self, ruler: &Ruler) -> Option<f64> {
        match self.get(Metric::Tpot) {
            None if self.success
                && ruler.single_token == SingleTokenRule::ZeroForGoodput
                && self.output_tokens.unwrap_or(0) < 2 =>
            {
                Some(0.0)
            }
            value => value,
        }
    }
}
