//! What a reader must know before using the figures: rules about the measurement itself.
//!
//! Each rule is a row of [`RULES`]: when it fires, how bad that is, which figures it touches and what to do. Reading
//! the regime (queueing, preemption, caches) and judging the client's host is not done here.

use super::SummaryRequest;
use crate::load_check::LoadKind;
use crate::ruler::CountRule;
use crate::slo::OfferedLoad;
use crate::summary::{Finding, Severity, Summary};
use crate::window::{NoSteady, WindowKind};

/// A stall is worth a sentence when the longest gap is this many times the p99 of the gaps.
const STALL_FACTOR: f64 = 5.0;
/// A cap is worth a sentence when it held requests back for longer than this at p99.
const CAP_WAIT_MS: f64 = 1.0;
/// Relative difference from which a load is another one than the SLO names.
const SAME_LOAD: f64 = 0.01;

/// One row of [`RULES`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable id, in `summary.json` as `rule`.
    pub id: &'static str,
    /// How bad it is when the rule fires.
    pub severity: Severity,
    /// When it fires, in words.
    pub fires_when: &'static str,
    /// Members of the summary that must be read with it in mind.
    pub invalidates: &'static [&'static str],
    /// What to do.
    pub remedy: &'static str,
    check: fn(&Context<'_>) -> Option<Seen>,
}

/// What the rules look at.
struct Context<'a> {
    summary: &'a Summary,
    request: &'a SummaryRequest<'a>,
    /// Why there is no steady window, where one was looked for in vain.
    no_steady: Option<NoSteady>,
}

/// What a rule saw.
struct Seen {
    message: String,
    evidence: Vec<String>,
    /// What to do, where what was seen says more than the rule.
    remedy: Option<String>,
}

impl From<String> for Seen {
    fn from(message: String) -> Self {
        Self { message, evidence: Vec::new(), remedy: None }
    }
}

impl Seen {
    fn with(message: String, evidence: Vec<String>) -> Self {
        Self { evidence, ..message.into() }
    }
}

/// The rules about the measurement itself, most severe first.
pub const RULES: &[Rule] = &[
    Rule {
        id: "client_limited",
        severity: Severity::Invalid,
        fires_when: "requests left late, less was sent than scheduled, arrived tokens waited to be read without a stamp of \
                     their own, or ports or file descriptors ran out",
        invalidates: &["load", "throughput", "metrics", "goodput"],
        remedy: "lower the load, or run the client on a machine of its own with more cores",
        check: client_limited,
    },
    Rule {
        id: "all_failed",
        severity: Severity::Invalid,
        fires_when: "no request succeeded",
        invalidates: &["metrics", "throughput", "goodput"],
        remedy: "look at the outcome counts, and at the server",
        check: all_failed,
    },
    Rule {
        id: "failures",
        severity: Severity::Warning,
        fires_when: "some requests failed",
        invalidates: &["metrics"],
        remedy: "read goodput and the outcome counts first: latencies are of the requests that got through",
        check: failures,
    },
    Rule {
        id: "partial",
        severity: Severity::Warning,
        fires_when: "the run was cut off before its end",
        invalidates: &["throughput", "metrics", "goodput"],
        remedy: "run it again to its end",
        check: partial,
    },
    Rule {
        id: "estimated_tokens",
        severity: Severity::Warning,
        fires_when: "output tokens are the number of chunks, because nothing better is known",
        invalidates: &["metrics.tpot", "metrics.itl", "throughput.output_tokens_per_s"],
        remedy: "let the server report usage, or give the model's own tokenizer",
        check: estimated_tokens,
    },
    Rule {
        id: "other_load",
        severity: Severity::Warning,
        fires_when: "the SLO names another offered load than the run had",
        invalidates: &["goodput"],
        remedy: "run at the load the SLO names",
        check: other_load,
    },
    Rule {
        id: "no_steady_window",
        severity: Severity::Warning,
        fires_when: "the steady window was asked for and there is none",
        invalidates: &["window"],
        remedy: "run longer; above capacity a queue grows for ever and there is no steady state",
        check: no_steady_window,
    },
    Rule {
        id: "token_sum",
        severity: Severity::Note,
        fires_when: "the tokens of a request's chunks do not add up to the server's count",
        invalidates: &["metrics.itl"],
        remedy: "usual where the end token has no chunk of its own; a running count in every event settles it",
        check: token_sum,
    },
    Rule {
        id: "hidden_stall",
        severity: Severity::Note,
        fires_when: "the longest gap is a stall and a multiple of the p99 of the gaps",
        invalidates: &["metrics.itl"],
        remedy: "look at max_itl and at that request's chunks",
        check: hidden_stall,
    },
    Rule {
        id: "cap_wait",
        severity: Severity::Note,
        fires_when: "the concurrency cap of an open loop held requests back",
        invalidates: &["load.offered_rps"],
        remedy: "read ttft_sent beside ttft; without the cap the server would have had this queue",
        check: cap_wait,
    },
    Rule {
        id: "vacuous",
        severity: Severity::Note,
        fires_when: "an objective cannot apply to some requests, or could not be evaluated",
        invalidates: &["goodput"],
        remedy: "answers of one token have no TPOT; answers in one body have no TTFT",
        check: vacuous,
    },
    Rule {
        id: "not_settled",
        severity: Severity::Note,
        fires_when: "latency was still changing in the second half of an open-loop run",
        invalidates: &["metrics"],
        remedy: "run longer, and look whether the load is above capacity",
        check: not_settled,
    },
];

/// Every finding, most severe first.
pub(super) fn of(
    summary: &Summary,
    request: &SummaryRequest<'_>,
    no_steady: Option<NoSteady>,
) -> Vec<Finding> {
    let context = Context { summary, request, no_steady };
    let fired = |rule: &Rule| {
        (rule.check)(&context).map(|seen| Finding {
            rule: rule.id.into(),
            severity: rule.severity,
            message: seen.message,
            evidence: seen.evidence,
            invalidates: rule.invalidates.iter().map(|f| (*f).to_owned()).collect(),
            remedy: seen.remedy.unwrap_or_else(|| rule.remedy.into()),
        })
    };
    RULES.iter().filter_map(fired).collect()
}

fn client_limited(c: &Context<'_>) -> Option<Seen> {
    let load = &c.summary.load;
    let mut remedies: Vec<&str> = Vec::new();
    for remedy in load.remedies.iter().map(String::as_str) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    load.client_limited.then(|| Seen {
        message: "this client, and not the server, limited the run".into(),
        evidence: load.reasons.clone(),
        remedy: (!remedies.is_empty()).then(|| remedies.join("; ")),
    })
}

/// Failed requests and their outcomes; those that the run itself cut off did not fail.
fn failed(s: &Summary) -> Option<(u64, Vec<String>)> {
    let cut = s.counts.outcomes.get("cancelled").copied().unwrap_or(0);
    let failed = s.counts.issued.saturating_sub(s.counts.ok + cut);
    let named = s.counts.outcomes.iter().filter(|(name, n)| **n > 0 && *name != "ok");
    (failed > 0).then(|| (failed, named.map(|(name, n)| format!("{name}: {n}")).collect()))
}

fn all_failed(c: &Context<'_>) -> Option<Seen> {
    let (failed, evidence) = failed(c.summary).filter(|_| c.summary.counts.ok == 0)?;
    Some(Seen::with(format!("all {failed} requests failed: there is no latency to report"), evidence))
}

fn failures(c: &Context<'_>) -> Option<Seen> {
    let counts = &c.summary.counts;
    let (failed, evidence) = failed(c.summary).filter(|_| counts.ok > 0)?;
    let message = format!("{failed} of {} requests failed; latencies are of the others only", counts.issued);
    Some(Seen::with(message, evidence))
}

fn partial(c: &Context<'_>) -> Option<Seen> {
    c.summary.partial.then(|| "the run was cut off; the figures cover what was finished".to_owned().into())
}

fn estimated_tokens(c: &Context<'_>) -> Option<Seen> {
    let n = c.summary.tokens.sources.get("chunks").copied().filter(|n| *n > 0)?;
    Some(format!("output tokens of {n} requests are the number of their chunks: an estimate").into())
}

fn other_load(c: &Context<'_>) -> Option<Seen> {
    let load = &c.summary.load;
    let (meant, was) = match c.request.slo?.load? {
        OfferedLoad::Rate(rate)
            if load.asked_rps.is_none_or(|asked| (asked / rate - 1.0).abs() > SAME_LOAD) =>
        {
            (format!("{rate} requests/s"), load.asked_rps.map(|r| format!("{r} requests/s")))
        }
        OfferedLoad::Concurrency(n) if load.concurrency != Some(n) => {
            (format!("{n} slots"), load.concurrency.map(|n| format!("{n} slots")))
        }
        OfferedLoad::Rate(_) | OfferedLoad::Concurrency(_) => return None,
    };
    let was = was.unwrap_or_else(|| "none of that kind".into());
    Some(format!("the SLO is meant for {meant}, the run had {was}").into())
}

fn no_steady_window(c: &Context<'_>) -> Option<Seen> {
    let why = c.no_steady.filter(|_| c.request.window == WindowKind::Steady)?;
    Some(format!("{why}; the figures cover the {} run", c.summary.window.kind).into())
}

fn token_sum(c: &Context<'_>) -> Option<Seen> {
    // Other rulers take N and the chunks from different places on purpose.
    let n = c.summary.tokens.mismatched;
    (n > 0 && c.request.ruler.count == CountRule::Recorded).then(|| {
        format!(
            "in {n} requests the chunks' tokens miss the server's count: ITL and TPOT do not agree exactly"
        )
        .into()
    })
}

fn hidden_stall(c: &Context<'_>) -> Option<Seen> {
    let stalls = &c.summary.stalls;
    let longest = stalls.max_itl_ms?;
    let p99 = c.summary.metrics.get("chunk_gap")?.percentiles.get("p99")?.value?;
    (longest > STALL_FACTOR * p99 && stalls.count > 0).then(|| {
        let request = stalls.max_itl_request.map(|r| format!("request {r}"));
        let gaps =
            format!("{} gaps over {} ms in {} requests", stalls.count, stalls.threshold_ms, stalls.requests);
        Seen::with(
            format!("the longest gap was {longest:.1} ms, which a p99 of {p99:.1} ms does not show"),
            request.into_iter().chain([gaps]).collect(),
        )
    })
}

fn cap_wait(c: &Context<'_>) -> Option<Seen> {
    let load = &c.summary.load;
    let cap = load.concurrency.filter(|_| c.request.load.kind != LoadKind::Closed)?;
    let wait = c.summary.metrics.get("cap_wait")?;
    let p99 = wait.percentiles.get("p99").and_then(|q| q.value).or(wait.max)?;
    let rate = |name, value: Option<f64>| value.map(|v| format!("{name} {v:.3}/s"));
    (p99 > CAP_WAIT_MS).then(|| {
        Seen::with(
            format!(
                "the cap of {cap} held requests back, {p99:.1} ms at p99; latencies from the schedule contain that wait"
            ),
            [rate("scheduled", load.scheduled_rps), rate("sent", load.offered_rps)]
                .into_iter()
                .flatten()
                .collect(),
        )
    })
}

fn vacuous(c: &Context<'_>) -> Option<Seen> {
    let g = c.summary.goodput.as_ref()?;
    (g.vacuous > 0 || g.not_evaluable > 0).then(|| {
        format!(
            "{} requests met an objective that cannot apply to them, {} could not be evaluated",
            g.vacuous, g.not_evaluable
        )
        .into()
    })
}

fn not_settled(c: &Context<'_>) -> Option<Seen> {
    let why = c.no_steady.filter(|why| *why == NoSteady::NotSettled)?;
    (c.request.window == WindowKind::Whole).then(|| why.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_the_most_severe_come_first() {
        for (i, rule) in RULES.iter().enumerate() {
            assert_eq!(RULES.iter().position(|r| r.id == rule.id), Some(i), "{}", rule.id);
            assert!(!rule.fires_when.is_empty() && !rule.remedy.is_empty());
        }
        assert!(RULES.windows(2).all(|w| w[0].severity <= w[1].severity));
    }
}
