//! One metric's samples as published: moments, percentiles with intervals, and how well the sample carries them.

use super::SummaryRequest;
use crate::goodput::CONFIDENCE;
use crate::metric::{MetricDef, Sample};
use crate::slo::percentile_name;
use crate::summary::{Distribution, Quantile};
use goodput_stats::{Sorted, support};

/// `lower_limit` is the smallest censored sample: percentiles at or above it are lower limits themselves.
pub(super) fn distribution(
    def: &MetricDef,
    sorted: &Sorted,
    undefined: u64,
    request: &SummaryRequest<'_>,
    lower_limit: Option<f64>,
) -> Distribution {
    let percentiles = request
        .percentiles
        .iter()
        .map(|percent| percent / 100.0)
        .map(|level| (percentile_name(level), quantile(def, sorted, level, request, lower_limit)))
        .collect();
    // A mean over lower limits would look like a mean.
    let whole = |value: Option<f64>| value.filter(|_| lower_limit.is_none());
    Distribution {
        unit: def.unit.name().into(),
        sample: def.sample.name().into(),
        n: sorted.n(),
        undefined,
        mean: whole(sorted.mean()),
        std: whole(sorted.std()),
        min: sorted.min(),
        max: whole(sorted.max()),
        percentiles,
    }
}

fn quantile(
    def: &MetricDef,
    sorted: &Sorted,
    level: f64,
    request: &SummaryRequest<'_>,
    lower_limit: Option<f64>,
) -> Quantile {
    let method = request.ruler.percentile;
    let value = sorted.quantile(level, method);
    let (low, high) = sorted.quantile_interval(level, CONFIDENCE);
    let mut words = format!("{}, order statistics {:.0} %", method.name(), CONFIDENCE * 100.0);
    if def.sample != Sample::Request {
        words += ", samples taken as independent";
    }
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
        value,
        low,
        high: if is_limit { None } else { known(high) },
        support: support(sorted.n(), level).name().into(),
        method: words,
    }
}
