//! Service-level objectives: what they say, and whether one request keeps them.
//!
//! An SLO names five things: metric, percentile (or the share of requests that must keep per-request limits),
//! window, workload and offered load. A file must have all five ([`Slo::from_toml`]); the short form of the
//! command line ([`Slo::parse`]) has only limits, and every report made with one says so.
//!
//! Limits are inclusive. A request keeps the SLO if it keeps every per-request objective.

mod file;
mod parse;

use crate::metric::{Metric, Unit};
use crate::plan::Protocol;
use crate::ruler::{Measures, Ruler};
use crate::time::Nanos;
use crate::timeline::Timeline;
use crate::window::WindowKind;
use std::fmt;

pub use parse::SloError;

/// The share of requests that must keep per-request limits where nothing else is said (DistServe, OSDI 2024).
pub const DEFAULT_ATTAINMENT: f64 = 0.9;

/// A set of objectives and the conditions they hold under.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    /// The objectives, in the order given.
    pub objectives: Vec<Objective>,
    /// The share of requests that must keep the per-request objectives, 0 to 1. `None` inline.
    pub attainment: Option<f64>,
    /// Over which window it is judged. `None` inline.
    pub window: Option<WindowKind>,
    /// The workload it is meant for, in words. `None` inline.
    pub workload: Option<String>,
    /// The offered load it is meant for. `None` inline.
    pub load: Option<OfferedLoad>,
}

/// The offered load an SLO is meant for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OfferedLoad {
    /// Requests per second of an open loop.
    Rate(f64),
    /// Slots of a closed loop.
    Concurrency(u32),
}

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// What is limited.
    pub metric: Metric,
    /// The limit in the metric's unit, inclusive: an upper one, for shares (fluidity) a lower one.
    pub limit: f64,
    /// Of what.
    pub target: Target,
}

/// What a limit applies to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Each request.
    PerRequest,
    /// The percentile at this level, in (0, 1), over the window.
    Percentile(f64),
}

impl Objective {
    /// Whether a value keeps the limit.
    #[must_use]
    pub fn keeps(&self, value: f64) -> bool {
        if self.metric.def().unit == Unit::Share { value >= self.limit } else { value <= self.limit }
    }

    /// The limit as a span, for metrics in milliseconds.
    fn limit_span(&self) -> Nanos {
        Nanos::from_secs_f64(self.limit / 1e3)
    }
}

impl fmt::Display for Objective {
    /// The form that [`Slo::parse`] reads: `ttft.p95:500 ms` without the blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.metric.name())?;
        if let Target::Percentile(level) = self.target {
            write!(f, ".{}", percentile_name(level))?;
        }
        let unit = if self.metric.def().unit == Unit::Milliseconds { "ms" } else { "" };
        write!(f, ":{}{unit}", self.limit)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, objective) in self.objectives.iter().enumerate() {
            write!(f, "{}{objective}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The stable name of a percentile at a level in [0, 1]: `p50`, `p99`, `p99.9`.
#[must_use]
pub fn percentile_name(level: f64) -> String {
    // Two roundings apart from the level a person typed: 0.999 * 100 is 99.9 only after rounding.
    format!("p{}", (level * 1e8).round() / 1e6)
}

/// How one request stands to one objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Within the limit.
    Met,
    /// Beyond the limit, or the request failed.
    Broken,
    /// The metric cannot apply (TPOT of one token): met, and counted as such.
    Vacuous,
    /// The metric could apply but is not known (TTFT of an answer that came as one body).
    NotEvaluable,
}

/// How one request stands to the whole SLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Successful, and every per-request objective met.
    Good,
    /// Failed, or an objective broken.
    Bad,
    /// Cut off by the run's own end with nothing broken: in neither count.
    Censored,
    /// Successful, nothing broken, but an objective could not be evaluated: in neither count.
    NotEvaluable,
}

/// One request as an SLO sees it.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// What happened.
    pub timeline: &'a Timeline,
    /// What the ruler makes of it.
    pub measures: &'a Measures,
    /// The ruler.
    pub ruler: &'a Ruler,
    /// The endpoint's protocol.
    pub protocol: Protocol,
}

impl Slo {
    /// Whether window, workload and load are missing because the SLO came in its short form.
    #[must_use]
    pub const fn is_inline(&self) -> bool {
        self.window.is_none() || self.workload.is_none() || self.load.is_none()
    }

    /// The per-request objectives.
    pub fn per_request(&self) -> impl Iterator<Item = &Objective> {
        self.objectives.iter().filter(|o| o.target == Target::PerRequest)
    }

    /// The TTFT and TPOT limits per request, which together are the deadlines of fluidity.
    #[must_use]
    pub fn deadlines(&self) -> Option<(Nanos, Nanos)> {
        let limit = |metric| self.per_request().find(|o| o.metric == metric).map(Objective::limit_span);
        limit(Metric::Ttft).zip(limit(Metric::Tpot))
    }

    /// How a request stands to one of the per-request objectives.
    ///
    /// A request that failed breaks every objective. One that the run cut off breaks those whose limit it had
    /// already passed; the others are not evaluable.
    #[must_use]
    pub fn judge_objective(&self, objective: &Objective, request: Judged<'_>) -> Judgement {
        let m = request.measures;
        if request.timeline.outcome.is_censored() {
            let broken = passed_before_cut(objective, request);
            return if broken { Judgement::Broken } else { Judgement::NotEvaluable };
        }
        if !m.success {
            return Judgement::Broken;
        }
        let value = match objective.metric {
            Metric::Tpot => m.tpot_for_limit(request.ruler),
            Metric::Fluidity => self.fluidity(request),
            metric => m.get(metric),
        };
        match value {
            Some(value) if objective.keeps(value) => Judgement::Met,
            Some(_) => Judgement::Broken,
            None if cannot_apply(objective.metric, m) => Judgement::Vacuous,
            None => Judgement::NotEvaluable,
        }
    }

    /// How a request stands to all per-request objectives together.
    #[must_use]
    pub fn judge(&self, request: Judged<'_>) -> Verdict {
        let mut all_known = true;
        for objective in self.per_request() {
            match self.judge_objective(objective, request) {
                Judgement::Broken => return Verdict::Bad,
                Judgement::NotEvaluable => all_known = false,
                Judgement::Met | Judgement::Vacuous => {}
            }
        }
        if request.timeline.outcome.is_censored() {
            Verdict::Censored
        } else if !request.measures.success {
            Verdict::Bad
        } else if all_known {
            Verdict::Good
        } else {
            Verdict::NotEvaluable
        }
    }

    /// Fluidity under this SLO's deadlines; `None` without them.
    #[must_use]
    pub fn fluidity(&self, request: Judged<'_>) -> Option<f64> {
        let (ttft, tpot) = self.deadlines()?;
        request.ruler.fluidity(request.timeline, request.protocol, ttft, tpot)
    }
}

/// Whether a metric is undefined because the answer is too short for it.
fn cannot_apply(metric: Metric, m: &Measures) -> bool {
    match metric {
        Metric::Tpot => m.output_tokens.is_some_and(|n| n < 2),
        Metric::MaxItl | Metric::ChunkGap => !m.whole && m.token_events < 2,
        _ => false,
    }
}

/// Whether a request that was cut off had already passed a limit. TPOT, the mean gap and fluidity depend on the
/// tokens to come and are left open.
fn passed_before_cut(objective: &Objective, request: Judged<'_>) -> bool {
    let m = request.measures;
    let cut = request.timeline.instants.closed.unwrap_or(m.start);
    let elapsed = |from: Nanos| cut.since(from).as_millis_f64();
    match objective.metric {
        Metric::Ttft => !objective
            .keeps(m.first_token.map_or(elapsed(m.start), |first| first.since(m.start).as_millis_f64())),
        Metric::E2e => !objective.keeps(elapsed(m.start)),
        Metric::MaxItl => {
            let open_gap = request.timeline.token_chunks().next_back().map(|c| elapsed(c.at));
            [m.observed(Metric::MaxItl), open_gap].into_iter().flatten().any(|gap| !objective.keeps(gap))
        }
        _ => false,
    }
}
