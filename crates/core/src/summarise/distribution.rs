//! One metric's samples as published: moments, percentiles with intervals, and how well the sample carries them.

use super::SummaryRequest;
use crate::interval::Gathered;
use crate::metric::MetricDef;
use crate::slo::percentile_name;
use crate::summary::{Distribution, Quantile};
use goodput_stats::{Method, support};

/// `lower_limit` is the smallest censored sample: percentiles at or above it are lower limits themselves.
pub(super) fn distribution(
    def: &MetricDef,
    gathered: &Gathered,
    request: &SummaryRequest<'_>,
    lower_limit: Option<f64>,
) -> Distribution {
    let (sorted, method) = (&gathered.sorted, request.ruler.percentile);
    let levels: Vec<f64> = request.percentiles.iter().map(|percent| percent / 100.0).collect();
    let intervals = gathered.intervals(&levels, method);
    let percentiles = levels
        .iter()
        .zip(intervals)
        .map(|(level, ends)| {
            (percentile_name(*level), quantile(gathered, (*level, ends), method, lower_limit))
        })
        .collect();
    // A mean over lower limits would look like a mean.
    let whole = |value: Option<f64>| value.filter(|_| lower_limit.is_none());
    Distribution {
        unit: def.unit.name().into(),
        sample: def.sample.name().into(),
        n: sorted.n(),
        undefined: gathered.undefined,
        mean: whole(sorted.mean()),
        std: whole(sorted.std()),
        min: sorted.min(),
        max: whole(sorted.max()),
        percentiles,
    }
}

/// A level and the ends of its interval.
type Level = (f64, (Option<f64>, Option<f64>));

fn quantile(
    gathered: &Gathered,
    (level, (low, high)): Level,
    method: Method,
    lower_limit: Option<f64>,
) -> Quantile {
    let sorted = &gathered.sorted;
    let mut words = format!("{}, {}", method.name(), gathered.how());
    if !sorted.is_exact() {
        words += &format!(", values to {:.1e}", sorted.relative_error());
    }
    let known = |v: Option<f64>| v.filter(|v| lower_limit.is_none_or(|limit| *v < limit));
    // A value interpolated between a whole sample and a censored one leans on a lower limit, so the upper neighbour
    // decides.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank between 1 and n")]
    let upper_rank = (sorted.n().saturating_sub(1) as f64 * level).ceil() as u64 + 1;
    let is_limit = lower_limit
        .is_some_and(|limit| sorted.order_statistic(upper_rank).is_some_and(|upper| upper >= limit));
    if is_limit {
        words += ", a lower limit";
    }
    Quantile {
        value: sorted.quantile(level, method),
        low,
        high: if is_limit { None } else { known(high) },
        support: support(sorted.n(), level).name().into(),
        method: words,
    }
}
