//! The offered load: what was asked, what the seed drew, what was really sent, and whether this client was the
//! bottleneck.
//!
//! A rate over n instants is (n - 1) / (last - first): n instants bound n - 1 gaps. It is undefined for fewer than
//! two instants and for no span.

use crate::facts::Fact;
use crate::plan::{Arrivals, GapLaw, Plan, Protocol, RateProfile, Warmup};
use crate::reading::ReadingReport;
use crate::summary::{GapCheck, Lateness, LoadReport};
use crate::time::Nanos;
use goodput_stats::gof::{KsTest, coefficient_of_variation, exponential_cdf, gamma_cdf, kolmogorov_smirnov};
use goodput_stats::{Method, Samples, Sorted};

/// Fewer gaps than this say nothing about their law, and fewer requests nothing about their rate.
const ENOUGH: usize = 20;
/// Gaps that follow the law are called failures once in a thousand runs.
const KS_LEVEL: f64 = 0.001;
/// Largest coefficient of variation that still counts as constant gaps.
const CONSTANT_CV: f64 = 0.1;
/// Lateness at p99 above this, or above 1 % of the median TTFT, whichever is more, is the client's fault.
const LATE_MS: f64 = 1.0;
/// Share of the median TTFT that lateness in sending may reach.
const LATE_SHARE: f64 = 0.01;
/// What lateness in reading may have added: at p99 this, or this share of the median TTFT or of the p99 chunk gap,
/// whichever is more.
const READ_MS: f64 = 1.0;
/// See [`READ_MS`].
const READ_SHARE: f64 = 0.1;
/// Share of the scheduled rate that must be sent.
const SENT_SHARE: f64 = 0.99;

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoadKind {
    /// An arrival process.
    Open,
    /// Slots that are filled again at once.
    Closed,
    /// Recorded arrivals.
    Trace,
}

impl LoadKind {
    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Trace => "trace",
        }
    }
}

/// What was asked of the load driver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadContext {
    /// The kind.
    pub kind: LoadKind,
    /// The endpoint's protocol, by which rulers pick token events.
    pub protocol: Protocol,
    /// Requests per second of a steady law; `None` for every other load.
    pub asked_rps: Option<f64>,
    /// The law of the gaps; `None` in a closed loop and when everything is due at once.
    pub law: Option<GapLaw>,
    /// Slots, or the cap of an open loop.
    pub concurrency: Option<u32>,
    /// When load began to be offered, where it is known; some tools count from there. `None` stands for the first
    /// start, which is later by the gap before the first arrival.
    pub offering_began: Option<Nanos>,
}

impl LoadContext {
    /// What a plan asks for.
    ///
    /// The run's epoch is the instant at which the load begins, so in an open loop without a warm-up measured load is
    /// offered from zero on. After a warm-up it is offered from somewhere between the last warm-up arrival and the
    /// first measured one, and a closed loop has its first start: `offering_began` is `None` for both.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Self {
        let arrivals = plan.load.arrivals.as_ref();
        let rate = |a: &Arrivals| match a.rate {
            RateProfile::Steady { rate } => Some(rate),
            RateProfile::Infinite | RateProfile::Ramp { .. } | RateProfile::Steps { .. } => None,
        };
        Self {
            kind: if arrivals.is_some() { LoadKind::Open } else { LoadKind::Closed },
            protocol: plan.target.protocol,
            asked_rps: arrivals.and_then(rate).filter(|r| r.is_finite()),
            law: arrivals.filter(|a| a.rate != RateProfile::Infinite).map(|a| a.law),
            concurrency: plan.load.concurrency,
            offering_began: arrivals.filter(|_| plan.warmup == Warmup::None).map(|_| Nanos::ZERO),
        }
    }
}

/// What lateness is judged against, in milliseconds; 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) ttft_p50: f64,
    pub(crate) gap_p99: f64,
}

/// The load of a set of requests, and what reading their answers was like.
pub(crate) fn report(
    facts: &[&Fact],
    load: &LoadContext,
    reading: ReadingReport,
    scale: Scale,
) -> LoadReport {
    let scheduled = sorted(facts.iter().filter_map(|f| f.scheduled));
    let sent = sorted(facts.iter().filter_map(|f| f.sent));
    let lateness = percentiles(facts.iter().filter_map(|f| Some(f.sent?.since(f.scheduled?))));
    let scheduled_rps = rate(&scheduled);
    let offered_rps = rate(&sent);
    let mut reasons = send_reasons(facts, load, scale, scheduled_rps.zip(offered_rps));
    reasons.extend(read_reasons(&reading, scale));
    let starved = facts.iter().filter(|f| f.client_fault).count();
    if starved > 0 {
        reasons.push(format!("{starved} requests found no free port or file descriptor on this machine"));
    }
    LoadReport {
        kind: load.kind.name().into(),
        asked_rps: load.asked_rps,
        scheduled_rps,
        offered_rps,
        concurrency: load.concurrency,
        lateness_ms: lateness.map(|l| Lateness { p50: at(&l, 0.5), p99: at(&l, 0.99), max: at(&l, 1.0) }),
        read_lateness_ms: reading.lateness,
        error_bound_ms: reading.bound,
        gaps: gap_check(&sent, load),
        client_limited: !reasons.is_empty(),
        reasons,
    }
}

/// (n - 1) / (last - first) in requests per second.
fn rate(instants: &[Nanos]) -> Option<f64> {
    let (first, last) = instants.first().zip(instants.last())?;
    let span = last.since(*first).as_secs_f64();
    (span > 0.0).then(|| (instants.len() - 1) as f64 / span)
}

fn sorted(instants: impl Iterator<Item = Nanos>) -> Vec<Nanos> {
    let mut instants: Vec<Nanos> = instants.collect();
    instants.sort_unstable();
    instants
}

fn percentiles(spans: impl Iterator<Item = Nanos>) -> Option<Sorted> {
    let samples: Samples = spans.map(Nanos::as_millis_f64).collect();
    (!samples.is_empty()).then(|| samples.freeze())
}

fn at(sorted: &Sorted, level: f64) -> f64 {
    sorted.quantile(level, Method::Linear).unwrap_or_default()
}

/// What the client itself added before sending. With a cap (or slots) the wait for a free one is not the client's
/// doing, so it counts from the release; the set-up of a new connection is the network's and the server's.
pub(crate) fn own_lateness(fact: &Fact, load: &LoadContext) -> Option<Nanos> {
    let due = if load.concurrency.is_some() { Some(fact.released) } else { fact.scheduled };
    Some(Nanos(fact.sent?.since(due?).0.saturating_sub(fact.connecting.0)))
}

fn send_reasons(
    facts: &[&Fact],
    load: &LoadContext,
    scale: Scale,
    scheduled_and_offered: Option<(f64, f64)>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let allowed = LATE_MS.max(LATE_SHARE * scale.ttft_p50);
    if let Some(late) = percentiles(facts.iter().filter_map(|f| own_lateness(f, load))) {
        let p99 = at(&late, 0.99);
        if p99 > allowed {
            reasons.push(format!("requests left {p99:.3} ms late at p99, more than {allowed:.3} ms"));
        }
    }
    if let Some((scheduled, offered)) = scheduled_and_offered
        && load.concurrency.is_none()
        && facts.len() >= ENOUGH
        && offered < SENT_SHARE * scheduled
    {
        reasons.push(format!("{offered:.3} requests/s were sent of {scheduled:.3} scheduled"));
    }
    reasons
}

/// Only what can have entered a latency: a client that reads late what the kernel stamped in time measures well.
fn read_reasons(reading: &ReadingReport, scale: Scale) -> impl Iterator<Item = String> {
    [("first tokens", reading.ttft_ms, scale.ttft_p50), ("tokens", reading.gap_ms, scale.gap_p99)]
        .into_iter()
        .filter_map(|(what, late, scale)| {
            let (late, allowed) = (late?, READ_MS.max(READ_SHARE * scale));
            (late > allowed).then(|| {
                format!("{what} may have waited {late:.3} ms to be read at p99, more than {allowed:.3} ms")
            })
        })
}

/// Whether the sent gaps follow the asked law. Only a steady rate has one law for all gaps.
fn gap_check(sent: &[Nanos], load: &LoadContext) -> Option<GapCheck> {
    let (law, rate) = load.law.zip(load.asked_rps)?;
    let mut gaps: Vec<f64> = sent.windows(2).map(|w| w[1].since(w[0]).as_secs_f64()).collect();
    let cv = coefficient_of_variation(&gaps)?;
    gaps.sort_by(f64::total_cmp);
    let mean = 1.0 / rate;
    let (name, asked_cv, ks) = match law {
        GapLaw::Constant => ("constant", 0.0, None),
        GapLaw::Poisson => {
            ("poisson", 1.0, exponential_cdf(mean).and_then(|cdf| kolmogorov_smirnov(&gaps, cdf)))
        }
        GapLaw::Gamma { burstiness } => {
            ("gamma", burstiness.sqrt().recip(), gamma_test(&gaps, burstiness, mean))
        }
        GapLaw::GammaRescaled { burstiness } => {
            ("gamma, rescaled", burstiness.sqrt().recip(), gamma_test(&gaps, burstiness, mean))
        }
    };
    if !asked_cv.is_finite() {
        return None;
    }
    let follows = ks.map_or(cv <= CONSTANT_CV, |ks| ks.p_value >= KS_LEVEL);
    let verdict = match (gaps.len() < ENOUGH, follows) {
        (true, _) => "too_few",
        (false, true) => "pass",
        (false, false) => "fail",
    };
    Some(GapCheck {
        law: name.into(),
        cv,
        asked_cv,
        ks: ks.map(|ks| ks.statistic),
        ks_p: ks.map(|ks| ks.p_value),
        verdict: verdict.into(),
    })
}

fn gamma_test(gaps: &[f64], shape: f64, mean: f64) -> Option<KsTest> {
    gamma_cdf(shape, mean).and_then(|cdf| kolmogorov_smirnov(gaps, cdf))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::sample;

    #[test]
    fn only_an_open_loop_without_a_warm_up_is_known_to_begin_at_zero() {
        let began = |plan: &Plan| LoadContext::from_plan(plan).offering_began;
        let mut plan = sample();
        assert_eq!(began(&plan), None, "after a warm-up");
        plan.warmup = Warmup::None;
        assert_eq!(began(&plan), Some(Nanos::ZERO));
        plan.load.arrivals = None;
        assert_eq!(began(&plan), None, "a closed loop");
    }
}
