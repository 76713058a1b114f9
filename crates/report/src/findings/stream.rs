//! Rules about how answers arrive and what their tokens are known from.

use super::{FindingContext, Seen};
use crate::number::{figure, part, percent};
use goodput_core::ruler::{ItlRule, ruler};

/// Fewer chunks per token than this and a reader sees something else than per-token figures say.
const BUNDLED: f64 = 0.9;
/// A whole answer within this many milliseconds of its first token came in one piece.
const AT_ONCE_MS: f64 = 0.001;
/// Prompt tokens from the prefix cache from this share on change what a prefill costs.
const CACHED_SHARE: f64 = 0.05;

/// An end token that is counted and has no chunk of its own is no bundle: it explains one token per request.
pub(super) fn bundled_chunks(c: &FindingContext<'_>) -> Option<Seen> {
    let tokens = &c.summary.tokens;
    let chunks = tokens.chunks_per_token.filter(|chunks| *chunks > 0.0 && *chunks < BUNDLED)?;
    let without_chunk = tokens.output as f64 * (1.0 - chunks);
    if without_chunk <= c.summary.counts.ok as f64 {
        return None;
    }
    c.metric("chunk_gap")?;
    let per_event = ruler(&c.summary.ruler).is_some_and(|ruler| ruler.itl == ItlRule::PerEvent);
    let reading = if per_event {
        "ITL of this ruler is the gap between chunks and reads as slow tokens"
    } else {
        "ITL shares each gap out over its tokens; the chunk gap is what a reader sees"
    };
    Some(
        Seen::new(format!("a chunk carries {} tokens on average: {reading}", figure(1.0 / chunks)))
            .evidence(format!("chunks per token {}", figure(chunks))),
    )
}

/// A stream held back somewhere: first and last token come at one instant.
pub(super) fn buffered_stream(c: &FindingContext<'_>) -> Option<Seen> {
    let tpot = c.percentile("tpot", "p50").filter(|tpot| *tpot <= AT_ONCE_MS)?;
    Some(
        Seen::new(
            "half of the answers or more came in one piece: something on the way holds the stream back, and TTFT is \
             the time of the whole answer",
        )
        .evidence(format!("TPOT p50 {} ms", figure(tpot))),
    )
}

/// Answers without a first token, although there were answers.
fn came_whole(c: &FindingContext<'_>) -> bool {
    c.metric("ttft").is_none() && c.metric("e2e").is_some()
}

pub(super) fn whole_answers(c: &FindingContext<'_>) -> Option<Seen> {
    let asked = c.plan.is_some_and(|plan| !plan.request.stream);
    (asked && came_whole(c)).then(|| {
        Seen::new(
            "answers were asked for as one body: TTFT, TPOT and ITL do not exist, E2E is when the body came",
        )
    })
}

pub(super) fn stream_refused(c: &FindingContext<'_>) -> Option<Seen> {
    let asked = c.plan.is_none_or(|plan| plan.request.stream);
    (asked && came_whole(c)).then(|| {
        Seen::new("a stream was asked for and every answer came as one body: there is no time to first token")
    })
}

pub(super) fn usage_refused(c: &FindingContext<'_>) -> Option<Seen> {
    c.client.filter(|client| client.usage_refused)?;
    let message = "the server refused to report token counts, so they come from the next best source";
    let sources =
        c.summary.tokens.sources.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name}: {n}"));
    Some(sources.fold(Seen::new(message), Seen::evidence))
}

/// With a shared prefix in the workload hits are meant.
pub(super) fn prefix_cache_hits(c: &FindingContext<'_>) -> Option<Seen> {
    let tokens = &c.summary.tokens;
    let cached = tokens.cached_input.filter(|_| tokens.input > 0)?;
    let share = cached as f64 / tokens.input as f64;
    let meant = c.plan.is_some_and(|plan| plan.workload.prefix_tokens > 0);
    (share >= CACHED_SHARE && !meant).then(|| {
        Seen::new(format!(
            "{} of the prompt tokens came from the server's prefix cache: prefill was cheaper than for new prompts",
            percent(share)
        ))
        .evidence(format!("cached {} prompt tokens", part(cached, tokens.input)))
    })
}
