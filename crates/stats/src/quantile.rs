//! Quantiles by name, and how well a sample carries them.
//!
//! "The p99" is not one number: definitions differ by up to one order statistic, so every function here takes the
//! definition by name. Definitions and their numbering: Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", The American Statistician 50 (1996). Nothing here takes the mean of quantiles: parts are pooled as
//! samples (see [`crate::pool`]) and then quantiled.
//!
//! # Levels and floating point
//!
//! A level `p` is an `f64` in [0, 1]. `0.99` is not exactly 99/100, so that `100.0 * 0.07` is 7.000000000000001,
//! the ceiling of which is 8, and `100.0 * (1.0 - 0.9)` is 9.999999999999998, which is less than 10. [`portion`]
//! therefore returns the integer wherever the product is as close to one as the error of `p` and of the product
//! can explain (4 epsilon of `n`). Every rank and every threshold in this crate goes through it.

use serde::{Deserialize, Serialize};

/// A quantile's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Hyndman-Fan 7: linear between order statistics at position (n-1)p. The default of numpy, and of every
    /// tool whose figures one may want to lay beside these.
    #[default]
    Linear,
    /// Hyndman-Fan 1: the smallest sample with at least np samples at or below it; also called nearest rank,
    /// ceil(np). Always a value that was measured.
    InverseCdf,
    /// Hyndman-Fan 2: as [`Method::InverseCdf`], with the mean of the two neighbours where np is an integer.
    AveragedInverseCdf,
    /// Hyndman-Fan 6: linear at position (n+1)p; Python's `statistics.quantiles`.
    Weibull,
    /// Hyndman-Fan 8: linear at position (n+1/3)p + 1/3, about median-unbiased for any law.
    MedianUnbiased,
}

impl Method {
    /// Every definition, in the order of the enum.
    pub const ALL: [Self; 5] =
        [Self::Linear, Self::InverseCdf, Self::AveragedInverseCdf, Self::Weibull, Self::MedianUnbiased];

    /// The name printed beside a figure; numpy's name of the same definition.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::InverseCdf => "inverted_cdf",
            Self::AveragedInverseCdf => "averaged_inverted_cdf",
            Self::Weibull => "weibull",
            Self::MedianUnbiased => "median_unbiased",
        }
    }

    /// The type's number in Hyndman and Fan (1996).
    #[must_use]
    pub fn hyndman_fan(self) -> u8 {
        match self {
            Self::InverseCdf => 1,
            Self::AveragedInverseCdf => 2,
            Self::Weibull => 6,
            Self::Linear => 7,
            Self::MedianUnbiased => 8,
        }
    }

    /// Where the quantile lies in `n` sorted samples: two 1-based ranks and the weight of the upper one.
    /// `n` is at least 1 and `p` in [0, 1].
    fn place(self, n: u64, p: f64) -> Place {
        let count = n as f64;
        let below = portion(n, p);
        match self {
            Self::InverseCdf => Place::at(below.ceil(), n),
            Self::AveragedInverseCdf if below.fract() == 0.0 => Place::between(below, below + 1.0, 0.5, n),
            Self::AveragedInverseCdf => Place::at(below.ceil(), n),
            Self::Linear => Place::interpolated(1.0 + (count - 1.0) * p, n),
            Self::Weibull => Place::interpolated((count + 1.0) * p, n),
            Self::MedianUnbiased => Place::interpolated((count + 1.0 / 3.0) * p + 1.0 / 3.0, n),
        }
    }

    /// The quantile at level `p` of `n` sorted samples, of which `order_statistic` gives the one with a 1-based
    /// rank in 1..=n. `None` for no samples and for a level outside [0, 1].
    pub(crate) fn of(self, n: u64, p: f64, order_statistic: impl Fn(u64) -> f64) -> Option<f64> {
        if n == 0 || !(0.0..=1.0).contains(&p) {
            return None;
        }
        let place = self.place(n, p);
        let low = order_statistic(place.low);
        if place.weight == 0.0 {
            return Some(low);
        }
        Some(between(low, order_statistic(place.high), place.weight))
    }
}

/// A place in sorted samples: `low` and `high` are 1-based ranks, `weight` in [0, 1) is that of `high`.
struct Place {
    low: u64,
    high: u64,
    weight: f64,
}

impl Place {
    fn at(rank: f64, n: u64) -> Self {
        Self::between(rank, rank, 0.0, n)
    }

    fn interpolated(position: f64, n: u64) -> Self {
        let position = position.clamp(1.0, n as f64);
        Self::between(position.floor(), position.floor() + 1.0, position.fract(), n)
    }

    fn between(low: f64, high: f64, weight: f64, n: u64) -> Self {
        let rank = |position: f64| (position as u64).clamp(1, n);
        Self { low: rank(low), high: rank(high), weight }
    }
}

/// From `low` to `high` by `weight`; measured from the nearer end, as numpy does, and never outside.
fn between(low: f64, high: f64, weight: f64) -> f64 {
    let gap = high - low;
    let value = if weight < 0.5 { low + gap * weight } else { high - gap * (1.0 - weight) };
    value.clamp(low, high)
}

/// The quantile at level `p` in [0, 1] of samples in ascending order, in their unit.
///
/// `None` for no samples and for a level outside [0, 1]. One sample is every quantile of itself.
/// The samples must be finite and sorted; unsorted ones give a meaningless value.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64, method: Method) -> Option<f64> {
    method.of(sorted.len() as u64, p, |rank| sorted[rank as usize - 1])
}

/// `n * p`, as an integer where it differs from one by no more than floating point explains.
///
/// See the module's text on levels.
#[must_use]
pub fn portion(n: u64, p: f64) -> f64 {
    snapped(n, n as f64 * p)
}

/// The number of samples beyond a quantile, `n (1 - p)`, with the same care as [`portion`].
///
/// Under the median it is the samples below, `n p`: a p1 is as thinly carried as a p99.
#[must_use]
pub fn beyond(n: u64, p: f64) -> f64 {
    snapped(n, n as f64 * p.min(1.0 - p))
}

fn snapped(n: u64, product: f64) -> f64 {
    let nearest = product.round();
    if (product - nearest).abs() <= 4.0 * f64::EPSILON * n as f64 { nearest } else { product }
}

/// How well a sample carries a quantile, by the number of samples beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// Fewer than 3 samples beyond: an anecdote, shown only on request.
    Anecdote,
    /// 3 or more and fewer than 10 samples beyond.
    Weak,
    /// 10 or more samples beyond.
    Ok,
}

impl Support {
    /// `ok`, `weak` or `anecdote`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Weak => "weak",
            Self::Anecdote => "anecdote",
        }
    }
}

/// How well `n` samples carry the quantile at level `p`: by [`beyond`].
#[must_use]
pub fn support(n: u64, p: f64) -> Support {
    let beyond = beyond(n, p);
    if beyond >= 10.0 {
        Support::Ok
    } else if beyond >= 3.0 {
        Support::Weak
    } else {
        Support::Anecdote
    }
}
