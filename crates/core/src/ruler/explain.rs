//! Rulers in words: the text of `explain`, and what two rulers do differently.
//!
//! The sentences are made from the same values that [`super::Ruler::measure`] reads, so they cannot drift from it.

use super::{
    CountRule, DurationRule, EndRule, EventRule, InputRule, ItlRule, LaneRule, PeakConcurrencyRule,
    PeakOutputRule, Ruler, SingleTokenRule, StartRule, SuccessRule, Tokenless, TpotRule,
};
use crate::metric::Metric;
use crate::timeline::ChunkFlags;

/// One choice in which two rulers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceDiff {
    /// The choice, in a word or two ("ITL sample").
    pub choice: &'static str,
    /// Metrics that the choice moves, by name.
    pub moves: &'static [&'static str],
    /// What the first ruler does.
    pub a: String,
    /// What the second ruler does.
    pub b: String,
}

/// Stands for all metrics whose samples are successful requests.
const EVERY_LATENCY: &str = "every latency";
/// Stands for the percentiles of all metrics.
const EVERY_PERCENTILE: &str = "every percentile";

/// A choice's label, the metrics it moves, and what the ruler does.
type Choice = (&'static str, &'static [&'static str], String);

/// Every choice of a ruler in words.
fn choices(r: &Ruler) -> Vec<Choice> {
    let e = &r.token_events;
    vec![
        (
            "start",
            &["ttft", "ttfa", "first_chunk", "e2e", "e2e_closed", "normalised_latency"][..],
            start(r.start),
        ),
        ("token events, chat", &["ttft", "tpot", "itl", "chunk_gap", "max_itl", "e2e"], event(&e.chat)),
        (
            "token events, completions",
            &["ttft", "tpot", "itl", "chunk_gap", "max_itl", "e2e"],
            event(&e.completions),
        ),
        ("token events, native", &["ttft", "tpot", "itl", "chunk_gap", "max_itl", "e2e"], event(&e.native)),
        ("several choices", &["tpot", "itl", "chunk_gap", "max_itl"], lanes(r.lanes).into()),
        ("end of E2E", &["e2e", "normalised_latency"], end(r.end).into()),
        ("TPOT", &["tpot"], tpot(r.tpot).into()),
        ("ITL sample", &["itl"], itl(r.itl).into()),
        (
            "output tokens",
            &["tpot", "normalised_latency", "output_tokens", "output_tokens_per_s"],
            count(r.count).into(),
        ),
        ("prompt tokens", &["input_tokens", "input_tokens_per_s"], input(r.input).into()),
        ("fewer than two tokens", &["tpot", "goodput"], single(r.single_token).into()),
        ("which requests have latencies", &[EVERY_LATENCY, "ok", "goodput"], success(&r.success)),
        ("percentile", &[EVERY_PERCENTILE], r.percentile.name().into()),
        ("duration", &["every rate"], duration(r.duration).into()),
        ("peak concurrency", &["concurrency.peak"], peak_concurrency(r.peak_concurrency).into()),
        ("peak output rate", &["peak_output_tokens_per_s"], peak_output(r.peak_output).into()),
    ]
}

/// The choices in which two rulers differ, in words, each with the metrics it moves.
#[must_use]
pub fn diff_choices(a: &Ruler, b: &Ruler) -> Vec<ChoiceDiff> {
    choices(a)
        .into_iter()
        .zip(choices(b))
        .filter(|((_, _, a), (_, _, b))| a != b)
        .map(|((choice, moves, a), (_, _, b))| ChoiceDiff { choice, moves, a, b })
        .collect()
}

/// A whole ruler in words, several lines.
#[must_use]
pub fn describe(ruler: &Ruler) -> String {
    let mut text = format!("{} ({} {})\n{}\n", ruler.name, ruler.tool, ruler.version, ruler.summary);
    for (choice, _, what) in choices(ruler) {
        text += &format!("  {choice}: {what}\n");
    }
    faults(ruler, &mut text);
    text
}

/// What a metric means under a ruler, several lines: definition, unit, sample, when undefined, which of the ruler's
/// choices it depends on, and the ruler's known faults.
#[must_use]
pub fn explain(metric: Metric, ruler: &Ruler) -> String {
    let d = metric.def();
    let mut text = format!(
        "{} ({}), {}, one sample per {}\n\nCanonical definition: {}\nUndefined when: {}\nCounts: {}\nSource: {}; since schema {}\n",
        d.title,
        d.name,
        d.unit.name(),
        d.sample.name(),
        d.formula,
        d.undefined_when,
        d.counts,
        d.source,
        d.since,
    );
    text += &format!("\nUnder the ruler `{}` ({} {}):\n", ruler.name, ruler.tool, ruler.version);
    for (choice, moves, what) in choices(ruler) {
        if moves.contains(&d.name) || moves[0].starts_with("every latency") || moves[0] == "every percentile"
        {
            text += &format!("  {choice}: {what}\n");
        }
    }
    faults(ruler, &mut text);
    text
}

fn faults(ruler: &Ruler, text: &mut String) {
    if !ruler.faults.is_empty() {
        *text += "Known faults of the tool:\n";
        for fault in ruler.faults {
            *text += &format!("  - {fault}\n");
        }
    }
}

fn start(rule: StartRule) -> String {
    match rule {
        StartRule::ScheduledElseSent => "the scheduled instant (open loop, trace), else sent",
        StartRule::Dialled => "after the concurrency cap: begin of a new connection's set-up, else sent",
    }
    .into()
}

fn event(rule: &EventRule) -> String {
    let parts: Vec<&str> = if rule.any == ChunkFlags::OUTPUT {
        vec!["text, reasoning, a tool call, a refusal or token ids"]
    } else {
        [
            (ChunkFlags::CHOICES, "any event with a choice"),
            (ChunkFlags::TEXT, "text"),
            (ChunkFlags::REASONING, "`reasoning`"),
            (ChunkFlags::REASONING_CONTENT, "`reasoning_content`"),
            (ChunkFlags::TOOL, "a tool call"),
        ]
        .into_iter()
        .filter_map(|(flag, word)| rule.any.has(flag).then_some(word))
        .collect()
    };
    let mut text = parts.join(", ");
    if rule.or_counted {
        text += ", or a token that the server counted";
    }
    if rule.or_empty_text_without_role {
        text += ", or empty text without a role";
    }
    text
}

const fn lanes(rule: LaneRule) -> &'static str {
    match rule {
        LaneRule::PerChoice => "gaps within one choice; TPOT of several choices is undefined",
        LaneRule::Mixed => "all choices are one stream",
    }
}

const fn end(rule: EndRule) -> &'static str {
    match rule {
        EndRule::LastTokenEvent => "the last token event",
        EndRule::LastEvent => "the last line of the stream, [DONE] included",
    }
}

const fn tpot(rule: TpotRule) -> &'static str {
    match rule {
        TpotRule::TokenSpan => "(last token event - first token event) / (N - 1)",
        TpotRule::EndMinusFirst => "(E2E - TTFT) / (N - 1), wherever E2E ends",
    }
}

const fn itl(rule: ItlRule) -> &'static str {
    match rule {
        ItlRule::PerToken => {
            "per token: a gap before n tokens is n samples of gap / n; further first tokens are 0"
        }
        ItlRule::PerTokenWithoutFirstChunk => {
            "per token: a gap before n tokens is n samples of gap / n; further first tokens are dropped"
        }
        ItlRule::PerEvent => "per event: one sample per token event after the first, whatever it carries",
    }
}

const fn count(rule: CountRule) -> &'static str {
    match rule {
        CountRule::Recorded => "the server's count, else ids, logprobs, the retokenised text, the chunks",
        CountRule::UsageElseRetokenisedElseOne => {
            "usage after the last token event, else the retokenised text, else 1"
        }
        CountRule::UsageElseEvents => "usage, else the number of token events",
        CountRule::ServerElseRequested => "the server's last count, else the requested length",
        CountRule::UsageElseRequested => {
            "usage (completions: only from an event with text), else the requested length"
        }
    }
}

const fn input(rule: InputRule) -> &'static str {
    match rule {
        InputRule::ServerElsePlanned => "the server's count, else the workload's",
        InputRule::Planned => "the workload's count",
    }
}

const fn single(rule: SingleTokenRule) -> &'static str {
    match rule {
        SingleTokenRule::Undefined => "TPOT is undefined; a limit on it is met vacuously and counted",
        SingleTokenRule::ZeroForGoodput => "TPOT is left out of the statistics and is 0 for goodput",
    }
}

fn success(rule: &SuccessRule) -> String {
    let tail = match rule.tokenless {
        Tokenless::Fails => "a token event is needed",
        Tokenless::ZeroTtft => "without a token event TTFT is 0",
    };
    let outcomes = rule.outcomes.join(", ").replace("truncated", "truncated unless inside the HTTP body");
    let but = rule.but_not_in_completions.join(", ");
    let but = if but.is_empty() { but } else { format!(" (completions: not {but})") };
    format!("{outcomes}{but}; {tail}")
}

const fn duration(rule: DurationRule) -> &'static str {
    match rule {
        DurationRule::StartToCompletion => "first start to last completion of the measured set",
        DurationRule::OfferToCompletion => "from when load began to be offered to the last completion",
    }
}

const fn peak_concurrency(rule: PeakConcurrencyRule) -> &'static str {
    match rule {
        PeakConcurrencyRule::Events => "event sweep over half-open intervals from sent to closed",
        PeakConcurrencyRule::SecondBins => "most successful requests that touch one whole second",
    }
}

const fn peak_output(rule: PeakOutputRule) -> &'static str {
    match rule {
        PeakOutputRule::SlidingTokens => "most tokens in a sliding second",
        PeakOutputRule::BinnedEvents => "most token events in a whole second from the first start",
        PeakOutputRule::BinnedItlSamples => "most ITL samples (and first events) in a whole second",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::METRICS;
    use crate::ruler::{CANONICAL, RULERS, ruler};

    #[test]
    fn a_ruler_does_not_differ_from_itself() {
        assert!(RULERS.iter().all(|r| diff_choices(r, r).is_empty()));
    }

    #[test]
    fn differences_name_the_choice_and_what_it_moves() {
        let vllm = ruler("vllm").expect("in the table");
        let diffs = diff_choices(&CANONICAL, vllm);
        let itl = diffs.iter().find(|d| d.choice == "ITL sample").expect("they differ in it");
        assert!(itl.moves.contains(&"itl"));
        assert!(itl.a.starts_with("per token") && itl.b.starts_with("per event"));
        let old = diff_choices(vllm, ruler("vllm-0.32").expect("in the table"));
        assert_eq!(old.len(), 1, "one release moved the first token of a chat: {old:?}");
        assert_eq!(old[0].choice, "token events, chat");
    }

    #[test]
    fn every_metric_explains_itself_under_every_ruler() {
        for r in RULERS {
            for d in METRICS {
                let text = explain(d.metric, r);
                assert!(text.contains(d.formula) && text.contains(r.name), "{text}");
            }
            assert!(describe(r).contains(r.summary));
        }
    }
}
