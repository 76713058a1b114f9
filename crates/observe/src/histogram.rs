//! Classic histograms: counts by upper edge, and what they can and cannot say.
//!
//! A bucket says how many observations lay at or below its edge and nothing of where between two edges they lay.
//! So every quantile is an interval ([`Bounds`]), and the number that Prometheus' `histogram_quantile` would draw
//! through the bucket stands beside it, named as the interpolation it is. The rules of that number are those of
//! Prometheus for classic histograms (`promql/quantile.go`): edges that are equal are one, counts that fall are
//! raised to the count before, a lowest bucket with a positive edge begins at 0, and a rank in the last bucket
//! gives its lower edge. The interval holds the inverse-CDF quantile (Hyndman-Fan 1) of what was observed.
//!
//! It never assumes edges, and it never says 0 where nothing was observed.

use crate::expose::{Kind, Labels, Page, number};
use std::collections::BTreeMap;
use std::fmt;

/// A classic histogram: observations counted by upper edge.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper edges in the family's unit, rising; the last is +Inf.
    edges: Vec<f64>,
    /// How many observations were at or below each edge; never falling.
    cumulative: Vec<f64>,
    /// The sum of all observations, where the page gives a number.
    sum: Option<f64>,
    /// Whether counts fell from one edge to the next and were raised.
    repaired: bool,
}

/// Why a family does not make histograms.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// The page has no histogram of this name.
    #[error("the page has no histogram `{0}`")]
    Missing(String),
    /// A bucket without an edge.
    #[error("a bucket of `{family}{labels}` has no number as its `le` label")]
    NoEdge {
        /// The family.
        family: String,
        /// The labels of the line.
        labels: Labels,
    },
    /// No bucket for what lies above all edges, so the total is unknown.
    #[error("`{family}{labels}` has no bucket le=\"+Inf\", so its total is unknown")]
    NoTotal {
        /// The family.
        family: String,
        /// The labels of the series, `le` left out.
        labels: Labels,
    },
    /// A count that is no count.
    #[error("a bucket of `{family}{labels}` holds {value}, and a count was expected")]
    NotACount {
        /// The family.
        family: String,
        /// The labels of the series, `le` left out.
        labels: Labels,
        /// What it holds.
        value: f64,
    },
}

/// Two histograms that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "histograms with different bucket edges cannot be added: {left} against {right}; give both servers the same \
     buckets, or report them apart"
)]
pub struct EdgesDiffer {
    /// Finite edges of the one.
    left: String,
    /// Finite edges of the other.
    right: String,
}

/// Why there is no quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoQuantile {
    /// Nothing was observed.
    #[error("no observation")]
    NoObservation,
    /// All edges are infinite, so nothing is known but the count.
    #[error("no finite bucket edge")]
    NoEdges,
    /// What was asked for is no probability.
    #[error("a quantile is asked for with a number from 0 to 1")]
    NotAProbability,
}

/// Where a quantile lies, as far as buckets can say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// At or below the lowest edge: below what this histogram resolves.
    UpTo {
        /// The lowest edge.
        floor: f64,
    },
    /// Above one edge and at or below the next.
    Within {
        /// The lower edge, not reached.
        above: f64,
        /// The upper edge, included.
        up_to: f64,
    },
    /// Above the highest finite edge, and nobody knows how far.
    Above {
        /// The highest finite edge.
        ceiling: f64,
    },
}

/// A quantile of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// Which one, 0 to 1.
    pub q: f64,
    /// What is known of it.
    pub bounds: Bounds,
    /// What Prometheus' `histogram_quantile` gives: linear within the bucket, its lower edge above all finite edges.
    /// An interpolation, not a measurement. `None` where Prometheus says NaN although something was observed (q = 0
    /// over an empty first bucket).
    pub interpolated: Option<f64>,
}

/// What is wrong with a sum beside its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumDoubt {
    /// Observations that cannot have been 0 sum to 0.
    Zero,
    /// The mean lies above the highest finite edge: the buckets end below what is common.
    Saturated,
    /// No observations in these buckets have this sum.
    OutsideBuckets,
}

impl Histogram {
    /// A histogram from edges with cumulative counts, in any order. Equal edges are added; counts that fall are
    /// raised. `None` unless the highest edge is +Inf and every count is a number that is not negative.
    #[must_use]
    pub fn new(buckets: impl IntoIterator<Item = (f64, f64)>, sum: Option<f64>) -> Option<Self> {
        let mut buckets: Vec<_> = buckets.into_iter().collect();
        if buckets.iter().any(|(edge, count)| edge.is_nan() || !is_count(*count)) {
            return None;
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        if buckets.last().is_none_or(|last| last.0 != f64::INFINITY) {
            return None;
        }
        let (mut edges, mut cumulative, mut repaired): (Vec<f64>, Vec<f64>, bool) = (vec![], vec![], false);
        for (edge, count) in buckets {
            match cumulative.last_mut() {
                // Zero has two signs, and they are one edge.
                Some(last) if edges.last() == Some(&edge) => *last += count,
                _ => {
                    edges.push(edge);
                    cumulative.push(count);
                }
            }
        }
        for at in 1..cumulative.len() {
            if cumulative[at] < cumulative[at - 1] {
                cumulative[at] = cumulative[at - 1];
                repaired = true;
            }
        }
        Some(Self { edges, cumulative, sum: sum.filter(|sum| sum.is_finite()), repaired })
    }

    /// All histograms of a family, by the labels of their series (`le` left out).
    ///
    /// # Errors
    /// No such family, or a series of it that is no histogram.
    pub fn of(page: &Page, family: &str) -> Result<BTreeMap<Labels, Self>, HistogramError> {
        let found = page.family(family).filter(|found| found.kind == Kind::Histogram);
        let found = found.ok_or_else(|| HistogramError::Missing(family.to_owned()))?;
        let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        let bucket = format!("{family}_bucket");
        for sample in found.samples.iter().filter(|sample| sample.name == bucket) {
            let edge = sample.labels.get("le").and_then(number::parse).filter(|edge| !edge.is_nan());
            let edge = edge.ok_or_else(|| HistogramError::NoEdge {
                family: family.to_owned(),
                labels: sample.labels.clone(),
            })?;
            series.entry(sample.labels.without("le")).or_default().push((edge, sample.value));
        }
        let sum = format!("{family}_sum");
        let read = |(labels, buckets): (Labels, Vec<(f64, f64)>)| {
            let bad = buckets.iter().map(|bucket| bucket.1).find(|&count| !is_count(count));
            let whole = Self::new(buckets, page.value(&sum, &labels));
            let family = family.to_owned();
            match (whole, bad) {
                (Some(histogram), _) => Ok((labels, histogram)),
                (None, Some(value)) => Err(HistogramError::NotACount { family, labels, value }),
                (None, None) => Err(HistogramError::NoTotal { family, labels }),
            }
        };
        series.into_iter().map(read).collect()
    }

    /// Upper edges, rising; the last is +Inf.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// How many observations were at or below each edge.
    #[must_use]
    pub fn cumulative(&self) -> &[f64] {
        &self.cumulative
    }

    /// How many observations there are: the bucket of +Inf, which is what Prometheus goes by.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.cumulative.last().copied().unwrap_or(0.0)
    }

    /// The sum of all observations, in the family's unit; `None` where the page has no finite number for it.
    #[must_use]
    pub const fn sum(&self) -> Option<f64> {
        self.sum
    }

    /// Whether counts fell from one edge to a higher one and were raised, as Prometheus does. A page that is whole
    /// and was written at one instant has no such counts.
    #[must_use]
    pub const fn is_repaired(&self) -> bool {
        self.repaired
    }

    /// Sum over count: the true mean of what was observed. `None` where nothing was, or the sum is unknown.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.sum.filter(|_| self.count() > 0.0).map(|sum| sum / self.count())
    }

    /// The lowest edge: nothing below it is resolved. `None` without a finite edge.
    #[must_use]
    pub fn floor(&self) -> Option<f64> {
        self.edges.first().copied().filter(|edge| edge.is_finite())
    }

    /// The quantile `q` (0 to 1), as an interval and as Prometheus interpolates it.
    ///
    /// # Errors
    /// Nothing was observed, there is no finite edge, or `q` is no probability.
    pub fn quantile(&self, q: f64) -> Result<Quantile, NoQuantile> {
        if !(0.0..=1.0).contains(&q) {
            return Err(NoQuantile::NotAProbability);
        }
        if self.count() <= 0.0 {
            return Err(NoQuantile::NoObservation);
        }
        let last = self.edges.len() - 1;
        if last == 0 {
            return Err(NoQuantile::NoEdges);
        }
        let rank = q * self.count();
        // The last bucket is where a rank lands that no other bucket reaches, so it is not searched.
        let bucket = self.cumulative[..last].partition_point(|&count| count < rank);
        // The smallest observation (q = 0) lies in the first bucket that holds one.
        let held = self.cumulative[..last].partition_point(|&count| count < rank || count == 0.0);
        let bounds = match held {
            at if at == last => Bounds::Above { ceiling: self.edges[last - 1] },
            0 => Bounds::UpTo { floor: self.edges[0] },
            at => Bounds::Within { above: self.edges[at - 1], up_to: self.edges[at] },
        };
        Ok(Quantile { q, bounds, interpolated: self.interpolate(bucket, rank) })
    }

    /// Prometheus' number for a rank in a bucket.
    fn interpolate(&self, bucket: usize, rank: f64) -> Option<f64> {
        let last = self.edges.len() - 1;
        let upper = self.edges[bucket.min(last - 1)];
        if bucket == last || (bucket == 0 && upper <= 0.0) {
            return Some(upper);
        }
        let (lower, below) =
            if bucket == 0 { (0.0, 0.0) } else { (self.edges[bucket - 1], self.cumulative[bucket - 1]) };
        let share = (rank - below) / (self.cumulative[bucket] - below);
        Some(lower + (upper - lower) * share).filter(|value| !value.is_nan())
    }

    /// What makes the sum implausible beside the buckets. `positive` says that no observation can be 0 (a latency;
    /// not a number of preemptions).
    #[must_use]
    pub fn sum_doubt(&self, positive: bool) -> Option<SumDoubt> {
        let sum = self.sum.filter(|_| self.count() > 0.0)?;
        if positive && sum == 0.0 {
            return Some(SumDoubt::Zero);
        }
        let last = self.edges.len() - 1;
        if last > 0 && sum / self.count() > self.edges[last - 1] {
            return Some(SumDoubt::Saturated);
        }
        let (mut low, mut high, mut below) = (0.0, 0.0, 0.0);
        for (at, &cumulative) in self.cumulative.iter().enumerate() {
            let count = cumulative - below;
            below = cumulative;
            if count > 0.0 {
                low += count
                    * match at {
                        0 if self.edges[0] > 0.0 => 0.0,
                        0 => f64::NEG_INFINITY,
                        at => self.edges[at - 1],
                    };
                high += count * self.edges[at];
            }
        }
        let slack = 1e-9 * sum.abs().max(1e-9);
        (sum < low - slack || sum > high + slack).then_some(SumDoubt::OutsideBuckets)
    }

    /// Histograms added by edge, as the histogram of all their observations together. `None` of nothing.
    ///
    /// The sum is known where every part's is.
    ///
    /// # Errors
    /// The parts do not have the same edges.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Option<Self>, EdgesDiffer> {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Ok(None) };
        let mut all = first.clone();
        for part in parts {
            if part.edges != all.edges {
                return Err(EdgesDiffer { left: show_edges(&all.edges), right: show_edges(&part.edges) });
            }
            all.cumulative.iter_mut().zip(&part.cumulative).for_each(|(all, part)| *all += part);
            all.sum = all.sum.zip(part.sum).map(|(all, part)| all + part);
            all.repaired |= part.repaired;
        }
        Ok(Some(all))
    }

    /// What was observed since `before`, which has the same edges and nothing that this one lacks. `None` otherwise:
    /// the counter was reset in between.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        if self.edges != before.edges {
            return None;
        }
        let fell = self.cumulative.iter().zip(&before.cumulative).any(|(after, before)| after < before);
        if fell {
            return None;
        }
        let cumulative = self.cumulative.iter().zip(&before.cumulative).map(|(after, before)| after - before);
        let sum = self.sum.zip(before.sum).map(|(after, before)| after - before);
        let mut window = Self::new(self.edges.iter().copied().zip(cumulative), sum)?;
        window.repaired |= self.repaired || before.repaired;
        Some(window)
    }
}

fn is_count(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn show_edges(edges: &[f64]) -> String {
    let finite: Vec<_> =
        edges.iter().filter(|edge| edge.is_finite()).map(|&edge| number::spell(edge)).collect();
    format!("[{}]", finite.join(" "))
}

impl Bounds {
    /// The lowest the quantile can be, if it is known; latencies and counts begin at 0.
    #[must_use]
    pub const fn lower(self) -> Option<f64> {
        match self {
            Self::UpTo { .. } => None,
            Self::Within { above, .. } => Some(above),
            Self::Above { ceiling } => Some(ceiling),
        }
    }

    /// The highest the quantile can be, if it is known.
    #[must_use]
    pub const fn upper(self) -> Option<f64> {
        match self {
            Self::UpTo { floor } => Some(floor),
            Self::Within { up_to, .. } => Some(up_to),
            Self::Above { .. } => None,
        }
    }
}

/// `<= 0.1`, `in (0.1, 0.25]` or `> 10`.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpTo { floor } => write!(f, "<= {floor}"),
            Self::Within { above, up_to } => write!(f, "in ({above}, {up_to}]"),
            Self::Above { ceiling } => write!(f, "> {ceiling}"),
        }
    }
}
