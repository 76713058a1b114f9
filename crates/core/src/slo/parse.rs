//! The short form of an SLO: `ttft:500ms,tpot:50ms,ttft.p95:400ms,fluidity:0.95`.

use super::{Objective, Slo, Target};
use crate::metric::{METRICS, Metric, Unit};
use crate::units::parse_duration;

/// Metrics that a limit per request may name.
const PER_REQUEST: [Metric; 6] =
    [Metric::Ttft, Metric::Tpot, Metric::E2e, Metric::MaxItl, Metric::ChunkGap, Metric::Fluidity];

/// An SLO that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SloError {
    /// Not `metric:limit` or `metric.pNN:limit`.
    #[error(
        "`{text}` is not an objective: write `metric:limit` or `metric.p95:limit`, for example `ttft:500ms`"
    )]
    Form {
        /// What was written.
        text: String,
    },
    /// No such metric, or it cannot carry a limit of this kind.
    #[error("`{name}` cannot be limited here: expected one of {expected}")]
    Metric {
        /// What was written.
        name: String,
        /// What may be.
        expected: String,
    },
    /// A percentile outside (0, 100).
    #[error("`{text}` is not a percentile: write a number between 0 and 100, for example p95")]
    Percentile {
        /// What was written.
        text: String,
    },
    /// A limit that is no duration or share.
    #[error("the limit of {metric} is `{text}`: expected {expected}")]
    Limit {
        /// The metric.
        metric: &'static str,
        /// What was written.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The same limit twice.
    #[error("{objective} is limited twice: keep one")]
    Twice {
        /// The metric, with its percentile where it has one.
        objective: String,
    },
    /// Fluidity without its deadlines.
    #[error("fluidity needs a ttft and a tpot limit per request: they are the deadlines")]
    NoDeadlines,
    /// One of the five parts is missing from a file.
    #[error(
        "the SLO has no {part}: an SLO names metric, percentile (or attainment), window, workload and offered load"
    )]
    Missing {
        /// The part.
        part: &'static str,
    },
    /// Not an SLO file.
    #[error("not an SLO file: {0}")]
    Syntax(String),
}

impl Slo {
    /// Reads the short form. It has no window, workload or load, so [`Slo::is_inline`] holds.
    ///
    /// # Errors
    /// [`SloError`] with what was expected.
    pub fn parse(text: &str) -> Result<Self, SloError> {
        let objectives = text.split(',').map(|part| objective(part.trim())).collect::<Result<_, _>>()?;
        checked(Self { objectives, attainment: None, window: None, workload: None, load: None })
    }
}

fn objective(text: &str) -> Result<Objective, SloError> {
    let (left, limit) = text.split_once(':').ok_or_else(|| SloError::Form { text: text.to_owned() })?;
    let (name, target) = match left.split_once(".p") {
        Some((name, percent)) => (name, Target::Percentile(level(percent)?)),
        None => (left, Target::PerRequest),
    };
    let metric = metric(name.trim(), target)?;
    Ok(Objective { metric, limit: limit_of(metric, limit.trim())?, target })
}

/// A level in (0, 1) from a percentage as text.
fn level(percent: &str) -> Result<f64, SloError> {
    let bad = || SloError::Percentile { text: format!("p{percent}") };
    let value: f64 = percent.trim().parse().map_err(|_| bad())?;
    checked_level(value).ok_or_else(bad)
}

/// A level in (0, 1) from a percentage.
pub(super) fn checked_level(percent: f64) -> Option<f64> {
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

/// The metric of this name, if it can carry such a limit.
pub(super) fn metric(name: &str, target: Target) -> Result<Metric, SloError> {
    let allowed = |m: Metric| match target {
        Target::PerRequest => PER_REQUEST.contains(&m),
        Target::Percentile(_) => m.def().unit == Unit::Milliseconds && m != Metric::E2eCensored,
    };
    Metric::from_name(name).filter(|m| allowed(*m)).ok_or_else(|| SloError::Metric {
        name: name.to_owned(),
        expected: METRICS.iter().filter(|d| allowed(d.metric)).map(|d| d.name).collect::<Vec<_>>().join(", "),
    })
}

/// A limit in the metric's unit.
pub(super) fn limit_of(metric: Metric, text: &str) -> Result<f64, SloError> {
    let bad = |expected| SloError::Limit { metric: metric.name(), text: text.to_owned(), expected };
    if metric.def().unit == Unit::Share {
        let expected = "a share between 0 and 1, for example `0.95`";
        let share: f64 = text.parse().map_err(|_| bad(expected))?;
        return if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad(expected)) };
    }
    let expected = "a duration with its unit, for example `500ms`";
    parse_duration(text).map(crate::time::Nanos::as_millis_f64).map_err(|_| bad(expected))
}

/// The rules that hold for both forms.
pub(super) fn checked(slo: Slo) -> Result<Slo, SloError> {
    for (i, o) in slo.objectives.iter().enumerate() {
        if slo.objectives[..i].iter().any(|p| p.metric == o.metric && p.target == o.target) {
            let objective = o.to_string().split(':').next().unwrap_or_default().to_owned();
            return Err(SloError::Twice { objective });
        }
    }
    let fluid = slo.per_request().any(|o| o.metric == Metric::Fluidity);
    if fluid && slo.deadlines().is_none() { Err(SloError::NoDeadlines) } else { Ok(slo) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_reads_and_prints_back() {
        let text =
            "ttft:500ms,tpot:50ms,e2e:5s,max_itl:1s,chunk_gap:80ms,fluidity:0.95,ttft.p99.9:2s,itl.p50:20ms";
        let slo = Slo::parse(text).expect("valid");
        assert!(slo.is_inline());
        let printed = slo.to_string();
        assert_eq!(
            printed,
            "ttft:500ms,tpot:50ms,e2e:5000ms,max_itl:1000ms,chunk_gap:80ms,fluidity:0.95,ttft.p99.9:2000ms,itl.p50:20ms"
        );
        assert_eq!(Slo::parse(&printed), Ok(slo));
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("", "is not an objective"),
            ("ttft", "is not an objective"),
            ("ttft:500", "with its unit"),
            ("ttft:-5ms", "with its unit"),
            ("itl:5ms", "expected one of ttft, tpot"),
            ("speed:5ms", "expected one of ttft, tpot"),
            ("ttft.p0:5ms", "between 0 and 100"),
            ("ttft.p100:5ms", "between 0 and 100"),
            ("ttft.pxx:5ms", "between 0 and 100"),
            ("fluidity.p5:0.5", "cannot be limited"),
            ("fluidity:0.9", "deadlines"),
            ("ttft:5ms,tpot:1ms,fluidity:1.5", "between 0 and 1"),
            ("ttft:5ms,ttft:6ms", "ttft is limited twice"),
            ("ttft.p95:5ms,ttft.p95:6ms", "ttft.p95 is limited twice"),
        ];
        for (text, expected) in cases {
            let error = Slo::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
