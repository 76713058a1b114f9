//! Timelines by hand.

use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::outcome::Outcome;
use goodput_core::plan::Protocol;
use goodput_core::ruler::{self, Ruler};
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::summary::Summary;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};

/// Milliseconds as an instant or a span.
pub(crate) fn ms(value: f64) -> Nanos {
    Nanos::from_secs_f64(value / 1e3)
}

/// One event at an instant in milliseconds.
pub(crate) fn event(at_ms: f64, flags: ChunkFlags, tokens: u32) -> Chunk {
    Chunk {
        at: ms(at_ms),
        late_ns: 0,
        early_ns: 0,
        bytes: 100,
        tokens,
        flags,
        choice: 0,
        token_source: TokenSource::Server,
    }
}

/// A text event with a known number of tokens.
pub(crate) fn text(at_ms: f64, tokens: u32) -> Chunk {
    event(at_ms, ChunkFlags::CHOICES | ChunkFlags::TEXT, tokens)
}

/// A request that was sent and has not ended.
pub(crate) fn sent(sent_ms: f64) -> Timeline {
    let mut t = Timeline::released(0, Phase::Measured, None, ms(sent_ms));
    t.instants.sent = Some(ms(sent_ms));
    t.instants.headers = Some(ms(sent_ms));
    t.server.prompt_tokens = Some(10);
    t
}

/// A request with these events that ended well; N is the sum of their tokens, counted by the server.
pub(crate) fn ok(sent_ms: f64, events: Vec<Chunk>) -> Timeline {
    let mut t = sent(sent_ms);
    let total = events.iter().map(|c| c.tokens).sum();
    t.instants.closed = events.last().map(|c| c.at);
    t.chunks = events;
    t.status = Some(200);
    t.outcome = Outcome::Ok;
    with_tokens(t, total)
}

/// The same answer with another total from the server.
pub(crate) fn with_tokens(mut t: Timeline, total: u32) -> Timeline {
    t.server.completion_tokens = Some(total);
    t.output = Some(TokenCount { count: total, source: TokenSource::Server });
    t
}

/// A stream of one-token chunks: the first at `ttft` after sending, the others after these gaps.
pub(crate) fn stream(sent_ms: f64, ttft: f64, gaps: &[f64]) -> Timeline {
    let mut at = sent_ms + ttft;
    let mut events = vec![text(at, 1)];
    for gap in gaps {
        at += gap;
        events.push(text(at, 1));
    }
    ok(sent_ms, events)
}

/// A request that failed at an instant.
pub(crate) fn failed(sent_ms: f64, end_ms: f64, outcome: Outcome) -> Timeline {
    let mut t = sent(sent_ms);
    t.instants.headers = None;
    t.instants.closed = Some(ms(end_ms));
    t.outcome = outcome;
    t
}

/// The same request, due at this instant in an open loop.
pub(crate) fn due(mut t: Timeline, at_ms: f64) -> Timeline {
    t.instants.scheduled = Some(ms(at_ms));
    t
}

/// A closed loop on the chat endpoint.
pub(crate) fn closed() -> LoadContext {
    LoadContext {
        kind: LoadKind::Closed,
        protocol: Protocol::OpenaiChat,
        asked_rps: None,
        law: None,
        concurrency: None,
        offering_began: None,
    }
}

/// An open loop on the chat endpoint.
pub(crate) fn open() -> LoadContext {
    LoadContext { kind: LoadKind::Open, ..closed() }
}

/// A ruler by name.
pub(crate) fn by_name(name: &str) -> &'static Ruler {
    ruler::ruler(name).expect("in the table")
}

/// Requests numbered as they stand, then summarised.
pub(crate) fn summary(requests: &[Timeline], request: &SummaryRequest<'_>) -> Summary {
    let mut requests = requests.to_vec();
    for (i, t) in requests.iter_mut().enumerate() {
        t.index = i as u64;
        assert_eq!(t.check_order(), Ok(()), "request {i}");
    }
    summarise(&requests, request).expect("memory cannot fail")
}

/// A closed-loop summary under the canonical ruler.
pub(crate) fn canonical(requests: &[Timeline]) -> Summary {
    summary(requests, &SummaryRequest::new(closed()))
}

/// Equal but for rounding.
#[track_caller]
pub(crate) fn near(value: Option<f64>, expected: f64) {
    let value = value.expect("defined");
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}
