//! The table of rulers.

use super::{
    CountRule, DurationRule, EndRule, EventRule, InputRule, ItlRule, LaneRule, PeakConcurrencyRule,
    PeakOutputRule, Ruler, SingleTokenRule, StartRule, SuccessRule, TokenEvents, Tokenless, TpotRule,
};
use crate::timeline::ChunkFlags;
use goodput_stats::quantile::Method;

/// Any event with a choice.
const ANY_CHOICE: EventRule = any(ChunkFlags::CHOICES);

/// Visible text, or reasoning under either name.
const VISIBLE_OR_REASONING: EventRule =
    any(ChunkFlags(ChunkFlags::TEXT.0 | ChunkFlags::REASONING.0 | ChunkFlags::REASONING_CONTENT.0));

/// Everything short of a broken transport, but for these on completions.
const fn whatever_ended_in_a_200(
    but_not_in_completions: &'static [&'static str],
    tokenless: Tokenless,
) -> SuccessRule {
    let outcomes = &["ok", "stream_error", "aborted", "truncated", "no_tokens", "short_output"];
    SuccessRule { outcomes, but_not_in_completions, tokenless }
}

const fn any(flags: ChunkFlags) -> EventRule {
    EventRule { any: flags, or_counted: false, or_empty_text_without_role: false }
}

const fn same_for_all(rule: EventRule) -> TokenEvents {
    TokenEvents { chat: rule, completions: rule, native: rule }
}

/// This project's own definitions.
pub const CANONICAL: Ruler = Ruler {
    name: "canonical",
    tool: "goodput",
    version: "1.0",
    summary: "What a user waits for: from the instant the request was due to the last generated token, per \
              token, over whole answers only.",
    start: StartRule::ScheduledElseSent,
    token_events: same_for_all(EventRule {
        any: ChunkFlags::OUTPUT,
        or_counted: true,
        or_empty_text_without_role: false,
    }),
    lanes: LaneRule::PerChoice,
    end: EndRule::LastTokenEvent,
    tpot: TpotRule::TokenSpan,
    itl: ItlRule::PerToken,
    count: CountRule::Recorded,
    input: InputRule::ServerElsePlanned,
    single_token: SingleTokenRule::Undefined,
    success: SuccessRule { outcomes: &["ok"], but_not_in_completions: &[], tokenless: Tokenless::Fails },
    percentile: Method::Linear,
    duration: DurationRule::StartToCompletion,
    peak_concurrency: PeakConcurrencyRule::Events,
    peak_output: PeakOutputRule::SlidingTokens,
    faults: &[],
};

const VLLM: Ruler = Ruler {
    name: "vllm",
    tool: "vllm bench serve (Python)",
    version: "0.33",
    summary: "vLLM's Python client: from after the cap, one ITL sample per event, cut and failed streams are \
              successes once an event came.",
    start: StartRule::Dialled,
    token_events: TokenEvents {
        chat: EventRule {
            any: ChunkFlags(ChunkFlags::TEXT.0 | ChunkFlags::REASONING.0 | ChunkFlags::TOOL.0),
            or_counted: false,
            or_empty_text_without_role: true,
        },
        completions: ANY_CHOICE,
        native: ANY_CHOICE,
    },
    lanes: LaneRule::Mixed,
    end: EndRule::LastTokenEvent,
    tpot: TpotRule::TokenSpan,
    itl: ItlRule::PerEvent,
    count: CountRule::UsageElseRetokenisedElseOne,
    input: InputRule::ServerElsePlanned,
    single_token: SingleTokenRule::ZeroForGoodput,
    success: whatever_ended_in_a_200(&[], Tokenless::Fails),
    percentile: Method::Linear,
    duration: DurationRule::OfferToCompletion,
    peak_concurrency: PeakConcurrencyRule::SecondBins,
    peak_output: PeakOutputRule::BinnedEvents,
    faults: &[
        "the wait for a slot under a concurrency cap is in no latency",
        "an error object inside the stream and a stream that ended early in a whole HTTP body count as success once \
         an event came",
        "an empty event with the finish reason is a further ITL sample and extends E2E",
        "reasoning sent as `reasoning_content` is not seen: the whole of it becomes TTFT",
        "usage that comes together with a choice is not read, so the tool counts the text; a record with usage has no \
         such count, and N is undefined here",
        "one sequential request after another in the same second counts as several in flight",
        "the peak output rate counts events, not tokens",
        "several choices of one request are one stream",
        "framing faults of the client (CRLF pairs, `data:` without a blank) are not repeated here",
        "a missing figure is printed as 0.00 by the tool and is null here",
    ],
};

const VLLM_0_32: Ruler = Ruler {
    name: "vllm-0.32",
    version: "0.32",
    summary: "vLLM's Python client before 0.33: every event with a choice is a token, in a chat the role too.",
    token_events: same_for_all(ANY_CHOICE),
    faults: &[
        "in a chat the event that names the role is the first token, so TTFT is the time to the first event",
        "every event with a choice, empty ones too, is an ITL sample and extends E2E",
        "the wait for a slot under a concurrency cap is in no latency",
        "an error object inside the stream and a stream that ended early in a whole HTTP body count as success once \
         an event came",
        "usage that comes together with a choice is not read, so the tool counts the text; a record with usage has no \
         such count, and N is undefined here",
        "one sequential request after another in the same second counts as several in flight",
        "the peak output rate counts events, not tokens",
        "several choices of one request are one stream",
    ],
    ..VLLM
};

const VLLM_RS: Ruler = Ruler {
    name: "vllm-rs",
    tool: "vllm-rs bench serve (Rust)",
    version: "0.33",
    summary: "vLLM's Rust client: every event with a choice is a token, in a chat the role too; without usage N \
              is the number of events.",
    token_events: same_for_all(ANY_CHOICE),
    count: CountRule::UsageElseEvents,
    input: InputRule::Planned,
    success: whatever_ended_in_a_200(&[], Tokenless::ZeroTtft),
    faults: &[
        "in a chat the event that names the role is the first token, so TTFT is the time to the first event",
        "every event with a choice, empty ones too, is an ITL sample and extends E2E",
        "a 200 without any token is a success with a TTFT of 0",
        "the wait for a slot under a concurrency cap is in no latency",
        "an error object inside the stream and a stream that ended early in a whole HTTP body count as success",
        "connection errors are tried again up to three times with the clock restarted; our record has no such \
         retries, so this is not repeated here",
        "comments that swallow the next event are not repeated here",
        "one sequential request after another in the same second counts as several in flight",
        "the peak output rate counts events, not tokens",
    ],
    ..VLLM
};

const SGLANG_OAI: Ruler = Ruler {
    name: "sglang-oai",
    tool: "sglang bench_serving, OpenAI backends",
    version: "2026-11",
    summary: "SGLang's client on OpenAI endpoints: first visible text, E2E to the last line of the stream, one ITL \
              sample per event.",
    start: StartRule::Dialled,
    token_events: TokenEvents {
        chat: VISIBLE_OR_REASONING,
        completions: any(ChunkFlags::TEXT),
        native: any(ChunkFlags::TEXT),
    },
    lanes: LaneRule::Mixed,
    end: EndRule::LastEvent,
    tpot: TpotRule::EndMinusFirst,
    itl: ItlRule::PerEvent,
    count: CountRule::UsageElseRequested,
    input: InputRule::Planned,
    single_token: SingleTokenRule::ZeroForGoodput,
    success: whatever_ended_in_a_200(&["stream_error"], Tokenless::ZeroTtft),
    percentile: Method::Linear,
    duration: DurationRule::OfferToCompletion,
    peak_concurrency: PeakConcurrencyRule::SecondBins,
    peak_output: PeakOutputRule::BinnedItlSamples,
    faults: &[
        "the wait for the usage event and for [DONE] is in E2E and in TPOT, and in no ITL sample",
        "without usage N is the requested length, whatever came",
        "a 200 without text (tool calls only, an error object in a chat, a rejection by a full queue) is a success \
         with a TTFT of 0 and the requested length",
        "the wait for a slot under a concurrency cap is in no latency",
        "a stream that ended early in a whole HTTP body is a success",
        "the peak output rate counts events, not tokens",
        "one sequential request after another in the same second counts as several in flight",
        "the tool's duration also holds its own clean-up after the last answer, which no record can show; not \
         repeated here",
        "with speculation the tool splits each event by re-tokenising its text; the stored record has no text, so \
         this is not repeated here",
        "the tool fails on a comment line and on a usage event of a completions stream; not repeated here",
    ],
};

const SGLANG: Ruler = Ruler {
    name: "sglang",
    tool: "sglang bench_serving, native backend",
    summary: "SGLang's client on its native endpoint: as sglang-oai, with gaps shared out over the tokens that \
              came and the first event's further tokens dropped.",
    itl: ItlRule::PerTokenWithoutFirstChunk,
    count: CountRule::ServerElseRequested,
    faults: &[
        "the first event's tokens after its first are dropped from ITL, while TPOT divides by N - 1",
        "sharing a gap out over its tokens hides stalls",
        "the wait for [DONE] is in E2E and in TPOT, and in no ITL sample",
        "an error object or an abort (a full queue) is a success with a TTFT of 0 and the requested length",
        "the wait for a slot under a concurrency cap is in no latency",
        "a stream that ended early in a whole HTTP body is a success",
        "one sequential request after another in the same second counts as several in flight",
        "the tool's duration also holds its own clean-up after the last answer, which no record can show; not \
         repeated here",
    ],
    ..SGLANG_OAI
};

/// Every ruler; the first is the default.
pub const RULERS: &[Ruler] = &[CANONICAL, VLLM, VLLM_0_32, VLLM_RS, SGLANG, SGLANG_OAI];

/// The ruler with this name.
#[must_use]
pub fn ruler(name: &str) -> Option<&'static Ruler> {
    RULERS.iter().find(|r| r.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn names_are_unique_and_outcomes_exist() {
        for (i, r) in RULERS.iter().enumerate() {
            assert_eq!(RULERS.iter().position(|o| o.name == r.name), Some(i));
            assert!(r.success.outcomes.iter().all(|o| Outcome::NAMES.contains(o)));
        }
    }

    #[test]
    fn every_borrowed_ruler_confesses() {
        assert!(RULERS.iter().skip(1).all(|r| !r.faults.is_empty()));
        assert!(CANONICAL.faults.is_empty());
    }
}
