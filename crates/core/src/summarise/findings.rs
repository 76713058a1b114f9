//! What a reader must know before using the figures, as far as the summary itself shows it.
//!
//! Reading the regime (queueing, preemption, caches) is not done here; these rules are about the measurement.

use super::SummaryRequest;
use crate::load_check::LoadKind;
use crate::plan::Protocol;
use crate::slo::OfferedLoad;
use crate::summary::{Finding, Severity, Summary};

/// A stall is worth a sentence when the longest gap is this many times the p99 of the gaps.
const STALL_FACTOR: f64 = 5.0;

fn finding(rule: &str, severity: Severity, message: String) -> Finding {
    Finding {
        rule: rule.into(),
        severity,
        message,
        evidence: Vec::new(),
        invalidates: Vec::new(),
        remedy: String::new(),
    }
}

impl Finding {
    fn evidence(mut self, evidence: Vec<String>) -> Self {
        self.evidence = evidence;
        self
    }

    fn touches(mut self, figures: &[&str]) -> Self {
        self.invalidates = figures.iter().map(|f| (*f).to_owned()).collect();
        self
    }

    fn remedy(mut self, remedy: &str) -> Self {
        self.remedy = remedy.into();
        self
    }
}

/// Every finding, most severe first.
pub(super) fn of(s: &Summary, request: &SummaryRequest<'_>, no_steady: Option<String>) -> Vec<Finding> {
    let mut all: Vec<Finding> = [
        client_limited(s),
        failures(s),
        partial(s),
        cap(s),
        estimated_tokens(s),
        mismatched_tokens(s, request),
        hidden_stall(s),
        vacuous(s),
        other_load(s, request),
        no_steady_window(s, request, no_steady),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|f| f.severity);
    all
}

fn client_limited(s: &Summary) -> Option<Finding> {
    s.load.client_limited.then(|| {
        finding(
            "client_limited",
            Severity::Invalid,
            "this client, and not the server, limited the run".into(),
        )
        .evidence(s.load.reasons.clone())
        .touches(&["load", "throughput", "metrics", "goodput"])
        .remedy("lower the load, or run the client on a machine of its own with more cores")
    })
}

fn failures(s: &Summary) -> Option<Finding> {
    let censored = s.counts.outcomes.get("cancelled").copied().unwrap_or(0);
    let failed = s.counts.issued.saturating_sub(s.counts.ok + censored);
    if failed == 0 {
        return None;
    }
    let counted = s
        .counts
        .outcomes
        .iter()
        .filter(|(name, n)| **n > 0 && *name != "ok")
        .map(|(name, n)| format!("{name}: {n}"));
    let (severity, message) = if s.counts.ok == 0 {
        (Severity::Invalid, format!("all {failed} requests failed: there is no latency to report"))
    } else {
        let message =
            format!("{failed} of {} requests failed; latencies are of the others only", s.counts.issued);
        (Severity::Warning, message)
    };
    Some(
        finding("failures", severity, message)
            .evidence(counted.collect())
            .touches(&["metrics"])
            .remedy("read goodput and the outcome counts first: rejected requests leave only the lucky ones"),
    )
}

fn partial(s: &Summary) -> Option<Finding> {
    s.partial.then(|| {
        finding(
            "partial",
            Severity::Warning,
            "the run was cut off; the figures cover what was finished".into(),
        )
        .touches(&["throughput", "metrics", "goodput"])
        .remedy("run it again to its end")
    })
}

/// A cap that held arrivals back: latencies from the schedule contain the wait, and less was offered than asked.
fn cap(s: &Summary) -> Option<Finding> {
    let cap = s.load.concurrency.filter(|_| s.load.kind != LoadKind::Closed.name())?;
    let wait = s.metrics.get("cap_wait")?;
    let p99 = wait.percentiles.get("p99").and_then(|q| q.value).or(wait.max)?;
    (p99 > 1.0).then(|| {
        let message = format!(
            "the cap of {cap} held requests back for {p99:.1} ms at p99; latencies from the \
                               schedule contain that wait"
        );
        finding("cap_wait", Severity::Note, message)
            .evidence(vec![
                format!("scheduled {}/s", optional(s.load.scheduled_rps)),
                format!("sent {}/s", optional(s.load.offered_rps)),
            ])
            .touches(&["load.offered_rps"])
            .remedy("read ttft_sent beside ttft; without the cap the server would have had this queue")
    })
}

fn estimated_tokens(s: &Summary) -> Option<Finding> {
    let estimated = s.tokens.sources.get("chunks").copied().filter(|n| *n > 0)?;
    let message = format!("output tokens of {estimated} requests are the number of chunks: an estimate");
    Some(
        finding("estimated_tokens", Severity::Warning, message)
            .touches(&["tpot", "itl", "output_tokens_per_s"])
            .remedy("let the server report usage, or give the model's tokenizer"),
    )
}

fn mismatched_tokens(s: &Summary, request: &SummaryRequest<'_>) -> Option<Finding> {
    let n = s.tokens.mismatched;
    (n > 0 && s.ruler == "canonical").then(|| {
        let message = format!(
            "in {n} requests the tokens of the chunks do not add up to the server's count, so per-token gaps and \
             TPOT do not agree exactly"
        );
        let remedy = match request.load.protocol {
            Protocol::Sglang => "check that the server sends its running count with every event",
            Protocol::OpenaiChat | Protocol::OpenaiCompletions => {
                "usual where the end token has no chunk of its own; ask for usage in every chunk to know"
            }
        };
        finding("token_sum", Severity::Note, message).touches(&["itl"]).remedy(remedy)
    })
}

fn hidden_stall(s: &Summary) -> Option<Finding> {
    let longest = s.stalls.max_itl_ms?;
    let p99 = s.metrics.get("chunk_gap")?.percentiles.get("p99")?.value?;
    (longest > STALL_FACTOR * p99 && s.stalls.count > 0).then(|| {
        let message =
            format!("the longest gap was {longest:.1} ms, which a p99 of {p99:.1} ms does not show");
        let request = s.stalls.max_itl_request.map(|r| format!("request {r}"));
        let count = format!(
            "{} gaps over {} ms in {} requests",
            s.stalls.count, s.stalls.threshold_ms, s.stalls.requests
        );
        finding("hidden_stall", Severity::Note, message)
            .evidence(request.into_iter().chain([count]).collect())
            .remedy("look at max_itl and at that request's chunks")
    })
}

fn vacuous(s: &Summary) -> Option<Finding> {
    let g = s.goodput.as_ref()?;
    (g.vacuous > 0 || g.not_evaluable > 0).then(|| {
        let message = format!(
            "{} requests met an objective that cannot apply to them, {} could not be evaluated",
            g.vacuous, g.not_evaluable
        );
        finding("vacuous", Severity::Note, message)
            .touches(&["goodput"])
            .remedy("answers of one token have no TPOT; answers in one body have no TTFT")
    })
}

/// An SLO is meant for one load.
fn other_load(s: &Summary, request: &SummaryRequest<'_>) -> Option<Finding> {
    let (meant, was) = match request.slo?.load? {
        OfferedLoad::Rate(rate) if s.load.asked_rps.is_none_or(|asked| (asked / rate - 1.0).abs() > 0.01) => {
            (format!("{rate} requests/s"), format!("{} requests/s", optional(s.load.asked_rps)))
        }
        OfferedLoad::Concurrency(n) if s.load.concurrency != Some(n) => {
            (format!("{n} slots"), s.load.concurrency.map_or("no slots".into(), |c| format!("{c} slots")))
        }
        OfferedLoad::Rate(_) | OfferedLoad::Concurrency(_) => return None,
    };
    Some(
        finding("other_load", Severity::Warning, format!("the SLO is meant for {meant}, the run had {was}"))
            .touches(&["goodput"])
            .remedy("run at the load the SLO names"),
    )
}

fn no_steady_window(s: &Summary, request: &SummaryRequest<'_>, why: Option<String>) -> Option<Finding> {
    let why = why?;
    let asked = request.window == crate::window::WindowKind::Steady;
    let unsettled = why.starts_with("no steady state");
    (asked || unsettled).then(|| {
        finding("no_steady_window", if asked { Severity::Warning } else { Severity::Note }, why)
            .evidence(vec![format!("the figures cover the {} run", s.window.kind)])
            .touches(&["window"])
            .remedy("run longer; above capacity a queue grows for ever and there is no steady state")
    })
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "an undefined number of".into(), |v| format!("{v:.3}"))
}
