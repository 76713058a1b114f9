//! Rules about the load: what was asked, what was sent, and whether the server kept up.

use super::{FindingContext, Seen};
use crate::number::{count, counted, figure, law_title, optional, part, percent};
use goodput_core::load_check::LoadKind;

/// Lateness up to this is below what the report shows; more is worth knowing (in milliseconds).
const LATE_MS: f64 = 1.0;
/// Share of the scheduled rate that counts as having sent the schedule.
const SENT_SHARE: f64 = 0.99;
/// Fewer requests than this say nothing about a rate.
const ENOUGH: u64 = 20;
/// Completed per second under this share of what was sent: the rest piled up, or the window is mostly ramp and drain.
const KEPT_UP: f64 = 0.9;
/// A median this many times the least: half of the requests waited twice as long as the service itself takes.
const QUEUED: f64 = 3.0;
/// Little's law is an identity on whole runs; further off than this, the window's edges carry the figures.
const LITTLE_OFF: f64 = 0.1;
/// A steady window shorter than this share of the run leaves most of the run out.
const STEADY_SHARE: f64 = 0.5;

/// Lateness that did not make the run client-limited. Under a cap the wait for a slot is in it, which is another rule.
pub(super) fn late_sending(c: &FindingContext<'_>) -> Option<Seen> {
    let load = &c.summary.load;
    let late = load.lateness_ms.as_ref()?;
    let unexplained = late.p99 > LATE_MS && !load.client_limited && load.concurrency.is_none();
    unexplained.then(|| {
        Seen::new(format!(
            "requests left {} ms after their time at p99; latencies from the schedule contain that",
            figure(late.p99)
        ))
        .evidence(format!(
            "lateness p50 {}, p99 {}, max {} ms",
            figure(late.p50),
            figure(late.p99),
            figure(late.max)
        ))
    })
}

/// Only where the client was not the limit; otherwise that finding says it.
pub(super) fn sent_below_scheduled(c: &FindingContext<'_>) -> Option<Seen> {
    let load = &c.summary.load;
    let (scheduled, sent) = load.scheduled_rps.zip(load.offered_rps)?;
    let below = sent < SENT_SHARE * scheduled && c.summary.counts.issued >= ENOUGH && !load.client_limited;
    below.then(|| {
        let why =
            load.concurrency.map_or_else(String::new, |cap| format!(": the cap of {cap} decided the load"));
        Seen::new(format!("{} requests/s were sent of {} scheduled{why}", figure(sent), figure(scheduled)))
            .evidence(format!("sent / scheduled = {}", percent(sent / scheduled)))
    })
}

pub(super) fn gap_law(c: &FindingContext<'_>) -> Option<Seen> {
    let gaps = c.summary.load.gaps.as_ref().filter(|gaps| gaps.verdict == "fail")?;
    let seen = Seen::new(format!("what was sent does not follow the {} law", law_title(&gaps.law)));
    let cv = format!("coefficient of variation {}, asked {}", figure(gaps.cv), figure(gaps.asked_cv));
    Some(gaps.reasons.iter().cloned().chain([cv]).fold(seen, Seen::evidence))
}

/// How the completed rate stands to the sent one, where there is an arrival process.
struct Kept {
    completed: f64,
    /// Sent per second without the requests that failed: those did complete, in their way.
    expected: f64,
}

impl Kept {
    fn of(c: &FindingContext<'_>) -> Option<Self> {
        let s = c.summary;
        // A burst of everything at once has no rate that a server could keep up with.
        let rated = s.load.kind != LoadKind::Closed.name() && s.load.scheduled_rps.is_some();
        // Under a cap that holds requests back, the cap decides what is completed, which has a finding of its own.
        let capped = c.percentile("cap_wait", "p99").is_some_and(|wait| wait > LATE_MS);
        let rated = rated && s.counts.issued >= ENOUGH && !capped;
        let (completed, sent) = s.throughput.requests_per_s.zip(s.load.offered_rps).filter(|_| rated)?;
        Some(Self { completed, expected: sent * c.share(s.counts.ok + c.outcome("cancelled")) })
    }

    fn behind(&self) -> bool {
        self.completed < KEPT_UP * self.expected
    }

    fn evidence(&self, seen: Seen) -> Seen {
        seen.evidence(format!(
            "completed {}/s, sent {}/s without failures",
            figure(self.completed),
            figure(self.expected)
        ))
    }
}

/// The metric that shows waiting: its median is far above what the server can do. TTFT where the server queues, TPOT where
/// it takes everybody in and serves them ever slower.
fn waiting(c: &FindingContext<'_>) -> Option<String> {
    [("ttft", "TTFT"), ("tpot", "TPOT")].into_iter().find_map(|(metric, title)| {
        let least = c.metric(metric)?.min?;
        let median = c.percentile(metric, "p50")?;
        let far = median > QUEUED * least;
        far.then(|| format!("{title} p50 {} ms, least {} ms", figure(median), figure(least)))
    })
}

pub(super) fn over_capacity(c: &FindingContext<'_>) -> Option<Seen> {
    let kept = Kept::of(c).filter(Kept::behind)?;
    let waiting = waiting(c)?;
    let seen = Seen::new(
        "more was offered than the server gets done: work piled up through the run, so latencies measure how much, and a \
         longer run would give longer ones",
    );
    Some(kept.evidence(seen).evidence(waiting))
}

pub(super) fn short_run(c: &FindingContext<'_>) -> Option<Seen> {
    let kept = Kept::of(c).filter(|kept| kept.behind() && waiting(c).is_none())?;
    let s = c.summary;
    let seen = Seen::new(
        "the run is short against the length of its requests: filling and draining the server is a large part of it, and \
         rates over the window are lower for that",
    );
    let e2e = optional(c.percentile("e2e", "p50"));
    Some(kept.evidence(seen).evidence(format!("window {} s, E2E p50 {e2e} ms", figure(s.window.duration_s))))
}

pub(super) fn little(c: &FindingContext<'_>) -> Option<Seen> {
    let ratio = c.summary.concurrency.little_ratio?;
    ((ratio - 1.0).abs() > LITTLE_OFF && c.summary.counts.issued >= ENOUGH).then(|| {
        Seen::new(format!(
            "arrival rate times time in flight is {} of the requests in flight: the window is not balanced",
            percent(ratio)
        ))
        .evidence(format!("mean in flight {}", optional(c.summary.concurrency.mean)))
    })
}

pub(super) fn steady_differs(c: &FindingContext<'_>) -> Option<Seen> {
    let s = c.summary;
    let all = || std::iter::once(&s.window).chain(&s.windows);
    let whole = all().find(|window| window.kind == "whole")?;
    let steady = all().find(|window| window.kind == "steady")?;
    let share = steady.duration_s / whole.duration_s;
    // Where nothing succeeded there is no state to be steady, and another finding says so.
    (s.counts.ok > 0 && whole.duration_s > 0.0 && share < STEADY_SHARE).then(|| {
        Seen::new(format!(
            "only {} of the run is steady: {} s of {} s; these figures cover the {} window",
            percent(share),
            figure(steady.duration_s),
            figure(whole.duration_s),
            s.window.kind
        ))
        .evidence(format!("{} requests whole, {} steady", count(whole.requests), count(steady.requests)))
        .evidence(format!("steady: {}", steady.how))
    })
}

pub(super) fn censored(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.outcome("cancelled");
    (n > 0).then(|| {
        Seen::new(format!(
            "{} were cut off by the run's own end: they have no latency, and the slowest are the likeliest to be cut",
            part(n, c.summary.counts.issued)
        ))
    })
}

pub(super) fn never_released(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.summary.counts.never_released;
    (n > 0).then(|| Seen::new(format!("{} of the schedule were never released", counted(n, "arrival"))))
}
