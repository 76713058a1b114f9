//! The offered load: what was asked, what the seed drew, what was really sent, and whether this client was the
//! bottleneck.
//!
//! A rate over n instants is (n - 1) / (last - first): n instants bound n - 1 gaps. It is undefined for fewer than
//! two instants and for no span.

use crate::facts::Fact;
use crate::gap_check::{AskedRate, gap_check};
use crate::plan::{Arrivals, GapLaw, Plan, Protocol, RateProfile, Warmup};
use crate::reading::ReadingReport;
use crate::summary::{Connections, Lateness, LoadReport};
use crate::time::Nanos;
use goodput_stats::{Method, Samples, Sorted};

/// Fewer gaps than this say nothing about their law, and fewer requests nothing about their rate.
pub(crate) const ENOUGH: usize = 20;
/// Lateness at p99 above this, or above 1 % of the median TTFT, whichever is more, is the client's fault.
pub(crate) const LATE_MS: f64 = 1.0;
/// Share of the median TTFT that lateness in sending may reach.
const LATE_SHARE: f64 = 0.01;
/// What lateness in reading may have added: at p99 this, or this share of the median TTFT or of the p99 chunk gap,
/// whichever is more.
const READ_MS: f64 = 1.0;
/// See [`READ_MS`].
const READ_SHARE: f64 = 0.1;
/// Share of the scheduled rate that must be sent.
const SENT_SHARE: f64 = 0.99;

/// What to do when requests leave late.
const FREE_A_CORE: &str = "give this client a core that nothing else uses (stop what else runs there, pin it with \
    taskset, or move it to a machine of its own), or lower the rate";
/// What to do when less is sent than was scheduled.
const SEND_LESS: &str = "lower the rate to what was sent, or give this client a core that nothing else uses";
/// What to do when arrived tokens wait to be read.
const READ_SOONER: &str = "raise --receive-threads where cores are free, else free a core or lower the load; over plain \
    HTTP/1.1 on Linux the kernel stamps arrivals, and late reading then adds nothing";
/// What to do when there is no port or file descriptor left.
const MORE_FILES: &str = "raise the limit on open files (ulimit -n) and the range of local ports (sysctl \
    net.ipv4.ip_local_port_range), or bound the connections with --concurrency";

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
    asked: Option<&AskedRate>,
    reading: ReadingReport,
    scale: Scale,
) -> LoadReport {
    let scheduled = sorted(facts.iter().filter_map(|f| f.scheduled));
    let sent = sorted(facts.iter().filter_map(|f| f.sent));
    let lateness = percentiles(facts.iter().filter_map(|f| Some(f.sent?.since(f.scheduled?))));
    let scheduled_rps = rate(&scheduled);
    let offered_rps = rate(&sent);
    let mut limits = send_limits(facts, load, scale, scheduled_rps.zip(offered_rps));
    limits.extend(read_limits(&reading, scale));
    let starved = facts.iter().filter(|f| f.client_fault).count();
    if starved > 0 {
        let reason = format!("{starved} requests found no free port or file descriptor on this machine");
        limits.push(Limit { reason, remedy: MORE_FILES });
    }
    let client_limited = !limits.is_empty();
    let (reasons, remedies) = limits.into_iter().map(|l| (l.reason, l.remedy.to_owned())).unzip();
    LoadReport {
        kind: load.kind.name().into(),
        asked_rps: load.asked_rps,
        scheduled_rps,
        offered_rps,
        concurrency: load.concurrency,
        lateness_ms: lateness.as_ref().map(delay),
        read_lateness_ms: reading.lateness,
        error_bound_ms: reading.bound,
        gaps: gap_check(facts, &sent, load, asked),
        client_limited,
        reasons,
        remedies,
    }
}

/// What the requests were sent on.
pub(crate) fn connections(facts: &[&Fact]) -> Connections {
    let sent = || facts.iter().filter(|f| f.sent.is_some());
    let opened = |f: &&&Fact| f.connecting > Nanos::ZERO;
    let setup = percentiles(sent().filter(opened).map(|f| f.connecting));
    let (own, reused) = (sent().filter(opened).count(), sent().filter(|f| !opened(f) && f.reused).count());
    Connections {
        opened: own as u64,
        ready: (sent().count() - own - reused) as u64,
        reused: reused as u64,
        setup_ms: setup.as_ref().map(delay),
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

fn delay(sorted: &Sorted) -> Lateness {
    Lateness { p50: at(sorted, 0.5), p99: at(sorted, 0.99), max: at(sorted, 1.0) }
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

/// One way in which this client limited the run.
struct Limit {
    reason: String,
    remedy: &'static str,
}

fn send_limits(
    facts: &[&Fact],
    load: &LoadContext,
    scale: Scale,
    scheduled_and_offered: Option<(f64, f64)>,
) -> Vec<Limit> {
    let mut limits = Vec::new();
    let allowed = LATE_MS.max(LATE_SHARE * scale.ttft_p50);
    if let Some(late) = percentiles(facts.iter().filter_map(|f| own_lateness(f, load))) {
        let p99 = at(&late, 0.99);
        if p99 > allowed {
            let reason = format!("requests left {p99:.3} ms late at p99, more than {allowed:.3} ms");
            limits.push(Limit { reason, remedy: FREE_A_CORE });
        }
    }
    if let Some((scheduled, offered)) = scheduled_and_offered
        && load.concurrency.is_none()
        && facts.len() >= ENOUGH
        && offered < SENT_SHARE * scheduled
    {
        let reason = format!("{offered:.3} requests/s were sent of {scheduled:.3} scheduled");
        limits.push(Limit { reason, remedy: SEND_LESS });
    }
    limits
}

/// Only what can have entered a latency: a client that reads late what the kernel stamped in time measures well.
fn read_limits(reading: &ReadingReport, scale: Scale) -> impl Iterator<Item = Limit> {
    [("first tokens", reading.ttft_ms, scale.ttft_p50), ("tokens", reading.gap_ms, scale.gap_p99)]
        .into_iter()
        .filter_map(|(what, late, scale)| {
            let (late, allowed) = (late?, READ_MS.max(READ_SHARE * scale));
            (late > allowed).then(|| Limit {
                reason: format!(
                    "{what} may have waited {late:.3} ms to be read at p99, more than {allowed:.3} ms"
                ),
                remedy: READ_SOONER,
            })
        })
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
