//! Bootstrap intervals: how far a statistic would move if the samples were drawn again.
//!
//! What is drawn again must be what is independent. [`plain`] draws samples one by one; [`block`] draws runs of
//! neighbours in time, because requests close in time share a queue; [`clustered`] draws whole clusters, because
//! the gaps of one request share a request. The choice belongs beside the figure.
//!
//! Every random choice comes from ChaCha8 keyed by the given seed, with one stream per resample: the same seed
//! gives the same interval everywhere, and resample `i` does not depend on how many there are.
//!
//! Sources: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13 (percentile interval);
//! Politis and Romano, "A circular block-resampling procedure for stationary data" (1992); Field and Welsh,
//! "Bootstrapping clustered data", JRSS B 69 (2007).

use crate::interval::Interval;
use crate::quantile::{Method, quantile};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// How a bootstrap is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Number of resamples: 1,000 is usual for an interval at 0.95, at least 100.
    pub resamples: u32,
    /// Two-sided confidence in (0, 1).
    pub confidence: f64,
    /// Seed of every random choice.
    pub seed: u64,
}

/// A statistic of the samples and its bootstrap percentile interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The statistic of the samples themselves. A biased statistic may lie outside its own interval.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Resamples for which the statistic was undefined; they are not in the interval.
    pub undefined: u32,
}

/// Bootstrap over independent samples.
///
/// `statistic` may reorder its samples (to sort them, say) and says `None` where it is undefined. The cost is
/// that of `resamples` statistics. `None` if the statistic of the samples is undefined, if it is for every
/// resample, or if the confidence is outside (0, 1).
pub fn plain(
    samples: &[f64],
    how: &Resampling,
    statistic: impl Fn(&mut [f64]) -> Option<f64>,
) -> Option<Estimate> {
    block(samples, 1, how, statistic)
}

/// Circular block bootstrap over samples in the order of time.
///
/// A resample is made of blocks of `block_length` neighbours that start anywhere, the end joined to the
/// beginning so that every sample is as likely as every other; the last block is cut so that the resample has
/// the size of the original. Choose a length of several integrated autocorrelation times
/// ([`crate::batch::integrated_time`]). Lengths are taken into 1..=n. `None` as in [`plain`].
pub fn block(
    samples: &[f64],
    block_length: usize,
    how: &Resampling,
    statistic: impl Fn(&mut [f64]) -> Option<f64>,
) -> Option<Estimate> {
    let n = samples.len();
    let length = block_length.clamp(1, n.max(1));
    let value = statistic(&mut samples.to_vec())?;
    let mut resample = Vec::with_capacity(n + length);
    percentile_interval(value, how, |draw| {
        resample.clear();
        while resample.len() < n {
            let start = draw.below(n);
            let to_the_end = length.min(n - start);
            resample.extend_from_slice(&samples[start..start + to_the_end]);
            resample.extend_from_slice(&samples[..length - to_the_end]);
        }
        resample.truncate(n);
        statistic(&mut resample)
    })
}

/// Bootstrap over clusters of samples: as many clusters as there are, drawn with replacement, each with all its
/// samples. `None` as in [`plain`], and if there is no cluster.
pub fn clustered<C: AsRef<[f64]>>(
    clusters: &[C],
    how: &Resampling,
    statistic: impl Fn(&mut [f64]) -> Option<f64>,
) -> Option<Estimate> {
    if clusters.is_empty() {
        return None;
    }
    let mut resample: Vec<f64> = clusters.iter().flat_map(|cluster| cluster.as_ref()).copied().collect();
    let value = statistic(&mut resample)?;
    percentile_interval(value, how, |draw| {
        resample.clear();
        for _ in 0..clusters.len() {
            resample.extend_from_slice(clusters[draw.below(clusters.len())].as_ref());
        }
        statistic(&mut resample)
    })
}

/// [`clustered`] for a quantile of the pooled samples, at the same draws and with the same answer, but without
/// sorting a resample: sorted once, each resample only counts how often every cluster came. Fit for millions of
/// gaps. `None` as in [`clustered`], and for a level outside [0, 1].
///
/// Stretches of time may serve as clusters too.
pub fn clustered_quantile<C: AsRef<[f64]>>(
    clusters: &[C],
    p: f64,
    method: Method,
    how: &Resampling,
) -> Option<Estimate> {
    let pooled = Pooled::new(clusters);
    let value = pooled.quantile(&vec![1; clusters.len()], p, method)?;
    let mut times = vec![0_u32; clusters.len()];
    percentile_interval(value, how, |draw| {
        times.fill(0);
        for _ in 0..clusters.len() {
            times[draw.below(clusters.len())] += 1;
        }
        pooled.quantile(&times, p, method)
    })
}

/// All samples of all clusters in descending order, each with its cluster.
struct Pooled {
    descending: Vec<(f64, u32)>,
    lengths: Vec<u64>,
}

impl Pooled {
    fn new<C: AsRef<[f64]>>(clusters: &[C]) -> Self {
        let lengths = clusters.iter().map(|cluster| cluster.as_ref().len() as u64).collect();
        let mut descending: Vec<(f64, u32)> = (0_u32..)
            .zip(clusters)
            .flat_map(|(index, cluster)| cluster.as_ref().iter().map(move |value| (*value, index)))
            .collect();
        descending.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        Self { descending, lengths }
    }

    /// The quantile if every sample of cluster `i` were there `times[i]` times.
    fn quantile(&self, times: &[u32], p: f64, method: Method) -> Option<f64> {
        let n = times.iter().zip(&self.lengths).map(|(count, length)| u64::from(*count) * length).sum();
        // From the top, because it is the upper quantiles that are asked for.
        method.of(n, p, |rank| {
            let mut left = n - rank;
            for (value, cluster) in &self.descending {
                match left.checked_sub(u64::from(times[*cluster as usize])) {
                    Some(rest) => left = rest,
                    None => return *value,
                }
            }
            f64::NAN
        })
    }
}

/// Draws the statistic `how.resamples` times and takes its central share of `how.confidence`.
pub(crate) fn percentile_interval(
    value: f64,
    how: &Resampling,
    mut statistic: impl FnMut(&mut Draw) -> Option<f64>,
) -> Option<Estimate> {
    if !(how.confidence > 0.0 && how.confidence < 1.0) {
        return None;
    }
    let drawn: Vec<f64> =
        (0..how.resamples).filter_map(|index| statistic(&mut Draw::new(how.seed, index))).collect();
    let undefined = how.resamples - drawn.len() as u32;
    let Interval { low, high } = central(drawn, how.confidence)?;
    Some(Estimate { value, low, high, undefined })
}

/// The central share of drawn statistics: their Hyndman-Fan 6 quantiles, rank (B + 1) a/2, as Efron and Tibshirani.
pub(crate) fn central(mut drawn: Vec<f64>, confidence: f64) -> Option<Interval> {
    drawn.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval {
        low: quantile(&drawn, tail, Method::Weibull)?,
        high: quantile(&drawn, 1.0 - tail, Method::Weibull)?,
    })
}

/// The random choices of one resample.
pub(crate) struct Draw {
    rng: ChaCha8Rng,
}

impl Draw {
    pub(crate) fn new(seed: u64, index: u32) -> Self {
        let mut key = *b"--------goodput-stats bootstrap.";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(u64::from(index));
        Self { rng }
    }

    /// Uniform in `0..bound`, `bound` > 0, without modulo bias (Lemire 2019).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.rng.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }
}
