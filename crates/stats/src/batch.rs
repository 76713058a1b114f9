//! Series in the order of time: where the steady state begins, and how many independent samples a series is worth.
//!
//! Sources: White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
//! (1997), and White, Cobb and Spratt (2000) for batches of five (MSER-5); Geyer, "Practical Markov chain Monte
//! Carlo", Statistical Science 7 (1992), for the initial positive sequence.

use crate::fft::autocovariance_sums;
use crate::interval::{Interval, student_t_mean};

/// Samples per batch of MSER-5.
const BATCH: usize = 5;

/// Batches that are always kept: a handful at the end can agree by chance, which says nothing of a steady state.
const KEPT_BATCHES: usize = 5;

/// What MSER-5 says of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The steady state begins at this sample (a multiple of 5; 0 if there is no start-up to cut).
    From(usize),
    /// The best cut is in the second half: the series had not settled, or is too short to tell.
    NotSettled,
    /// Fewer than 50 samples: no statement.
    TooShort,
}

/// The MSER-5 truncation point of a series in the order of time.
///
/// Batch means of five; the cut `d` that gives the smallest sum of squared deviations of the batches after it,
/// over the square of their number. The last five batches are never cut, samples after the last full batch are
/// not looked at, and of equal cuts the earliest is taken. Linear time.
#[must_use]
pub fn mser5(series: &[f64]) -> Truncation {
    let means: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if means.len() < 2 * KEPT_BATCHES {
        return Truncation::TooShort;
    }
    // From the end, so that each cut's deviations follow from the next one's (Welford's update).
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let (mut best, mut best_score) = (0, f64::INFINITY);
    for (cut, value) in means.iter().enumerate().rev() {
        count += 1.0;
        let from_old_mean = value - mean;
        mean += from_old_mean / count;
        squares += from_old_mean * (value - mean);
        let score = squares / (count * count);
        if cut + KEPT_BATCHES <= means.len() && score <= best_score {
            (best, best_score) = (cut, score);
        }
    }
    if best > means.len() / 2 { Truncation::NotSettled } else { Truncation::From(best * BATCH) }
}

/// Autocorrelation at lags 0 to `max_lag` (fewer if the series is shorter), by the usual biased estimator: every
/// lag's sum of products is divided by `n`, not by `n - lag`.
///
/// `None` for an empty series and for one that does not vary.
#[must_use]
pub fn autocorrelation(series: &[f64], max_lag: usize) -> Option<Vec<f64>> {
    let first = series.first()?;
    if series.iter().all(|value| value == first) {
        return None;
    }
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let mut covariance = autocovariance_sums(&centred);
    covariance.truncate(max_lag.saturating_add(1).min(series.len()));
    let variance = covariance[0];
    Some(covariance.into_iter().map(|value| value / variance).collect())
}

/// Integrated autocorrelation time in samples, 1 + 2 * (sum of autocorrelations), by Geyer's initial positive
/// sequence: neighbouring lags are added in pairs and the sum ends before the first pair that is not positive.
///
/// Never under 1: negative correlation is not taken as more than independence. `None` for an empty series and
/// for one that does not vary.
#[must_use]
pub fn integrated_time(series: &[f64]) -> Option<f64> {
    let correlation = autocorrelation(series, series.len())?;
    let pairs: f64 =
        correlation.chunks_exact(2).map(|pair| pair[0] + pair[1]).take_while(|sum| *sum > 0.0).sum();
    Some((2.0 * pairs - 1.0).max(1.0))
}

/// How many independent samples would fix the mean as well as this series does: n / [`integrated_time`].
///
/// At most n. `None` for an empty series and for one that does not vary.
#[must_use]
pub fn effective_samples(series: &[f64]) -> Option<f64> {
    integrated_time(series).map(|time| series.len() as f64 / time)
}

/// The mean of a series in the order of time with its interval by batch means: `batches` equal batches, whose means are
/// taken for independent samples (Student's t). They are that only if a batch is much longer than the series remembers;
/// samples after the last full batch are left out of the interval.
///
/// `None` for fewer than two batches, for batches without a sample, and for a confidence outside (0, 1).
#[must_use]
pub fn batch_means(series: &[f64], batches: usize, confidence: f64) -> Option<Interval> {
    let size = series.len().checked_div(batches).filter(|size| *size > 0)?;
    let means: Vec<f64> = series
        .chunks_exact(size)
        .take(batches)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect();
    student_t_mean(&means, confidence)
}
