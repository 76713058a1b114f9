//! Goodness of fit: whether samples follow a law that was asked for.
//!
//! Used to check that what a load generator sent is the arrival process it was told to send. The law must be
//! given, not fitted to the same samples: then the p-value would be too large.
//!
//! Sources: Marsaglia, Tsang and Wang, "Evaluating Kolmogorov's distribution", J. Stat. Software 8 (2003), exact;
//! Vrbik, "Small-sample corrections to Kolmogorov-Smirnov test statistic", Pioneer J. Theor. Appl. Stat. 15
//! (2018), for larger samples; Cox and Lewis, The Statistical Analysis of Series of Events (1966), dispersion.

use statrs::distribution::{ContinuousCDF, Gamma};

/// Up to this many samples the p-value is exact; beyond, the corrected limit law is off by less than 0.03 / n.
const EXACT_UP_TO: usize = 100;

/// A Kolmogorov-Smirnov test of one sample against a given law, two-sided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KsTest {
    /// Largest distance between the samples' distribution function and the law's, in [0, 1].
    pub statistic: f64,
    /// Probability of a distance at least as large if the samples do follow the law.
    pub p_value: f64,
}

/// Tests samples in ascending order against the distribution function `cdf`. `None` for no samples.
#[must_use]
pub fn kolmogorov_smirnov(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> Option<KsTest> {
    kolmogorov_smirnov_within(sorted, cdf, 0.0)
}

/// The same where every sample is known to `tolerance` only, in its own unit: the distance is what remains after each
/// sample may have moved by that much towards the law. With many samples the plain test finds the resolution of a timer;
/// this one says whether more than that is wrong. The p-value is an upper bound.
#[must_use]
pub fn kolmogorov_smirnov_within(sorted: &[f64], cdf: impl Fn(f64) -> f64, tolerance: f64) -> Option<KsTest> {
    if sorted.is_empty() {
        return None;
    }
    let n = sorted.len() as f64;
    let statistic = sorted.iter().enumerate().fold(0.0_f64, |largest, (index, value)| {
        let too_few_below = cdf(value - tolerance) - index as f64 / n;
        let too_many_below = (index + 1) as f64 / n - cdf(value + tolerance);
        largest.max(too_few_below).max(too_many_below)
    });
    Some(KsTest { statistic, p_value: ks_p_value(sorted.len(), statistic) })
}

/// P(D_n >= d) under the law, for independent samples of a continuous law.
///
/// Exact (Marsaglia, Tsang and Wang) up to 100 samples; then Kolmogorov's limit at Vrbik's corrected argument,
/// which is off by less than 0.03 / n.
#[must_use]
pub fn ks_p_value(n: usize, distance: f64) -> f64 {
    let count = n as f64;
    if n == 0 || distance <= 0.5 / count {
        return 1.0;
    }
    // Both tails are below 1e-15 here, and the matrix would be large.
    if distance >= 1.0 || count * distance * distance > 18.0 {
        return 0.0;
    }
    if n <= EXACT_UP_TO {
        return (1.0 - exact_ks_cdf(n, distance)).clamp(0.0, 1.0);
    }
    let t = distance * count.sqrt();
    kolmogorov_tail(t + 1.0 / (6.0 * count.sqrt()) + (t - 1.0) / (4.0 * count))
}

/// 1 - K(x), Kolmogorov's limit law: the alternating series, or its theta-function twin where that one is slow.
fn kolmogorov_tail(x: f64) -> f64 {
    use std::f64::consts::{PI, TAU};
    if x <= 0.0 {
        return 1.0;
    }
    if x < 1.0 {
        let sum: f64 = (1..=10)
            .map(|k| f64::from(2 * k - 1))
            .map(|odd| (-odd * odd * PI * PI / (8.0 * x * x)).exp())
            .sum();
        return (1.0 - TAU.sqrt() / x * sum).clamp(0.0, 1.0);
    }
    let sum: f64 = (1..=10)
        .map(|k| (if k % 2 == 1 { 2.0 } else { -2.0 }) * (-2.0 * f64::from(k * k) * x * x).exp())
        .sum();
    sum.clamp(0.0, 1.0)
}

/// P(D_n < d) by Durbin's matrix, as Marsaglia, Tsang and Wang compute it: n!/n^n times the middle element of the
/// n-th power of H.
fn exact_ks_cdf(n: usize, d: f64) -> f64 {
    let nd = n as f64 * d;
    let k = nd.floor() as usize + 1;
    let h = k as f64 - nd;
    let size = 2 * k - 1;
    let mut matrix = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..size.min(row + 2) {
            // Divided by (row - column + 1)! below.
            matrix[row * size + column] = 1.0;
        }
    }
    for index in 0..size {
        matrix[index * size] -= h.powi(index as i32 + 1);
        matrix[(size - 1) * size + index] -= h.powi((size - index) as i32);
    }
    if h > 0.5 {
        matrix[(size - 1) * size] += (2.0 * h - 1.0).powi(size as i32);
    }
    for row in 0..size {
        for column in 0..=row {
            let factorial: f64 = (1..=row - column + 1).map(|factor| factor as f64).product();
            matrix[row * size + column] /= factorial;
        }
    }
    let power = Power::of(&matrix, size, n);
    let mut scale = power.exponent;
    let mut value = power.matrix[(k - 1) * size + k - 1];
    for factor in 1..=n {
        value *= factor as f64 / n as f64;
        if value < 1e-140 {
            value *= 1e140;
            scale -= 140;
        }
    }
    value * 10_f64.powi(scale)
}

/// A matrix power with a decimal exponent of its own, because the elements leave the range of `f64`.
struct Power {
    matrix: Vec<f64>,
    exponent: i32,
}

impl Power {
    fn of(base: &[f64], size: usize, n: usize) -> Self {
        if n == 1 {
            return Self { matrix: base.to_vec(), exponent: 0 };
        }
        let half = Self::of(base, size, n / 2);
        let mut matrix = product(&half.matrix, &half.matrix, size);
        let mut exponent = 2 * half.exponent;
        if n % 2 == 1 {
            matrix = product(base, &matrix, size);
        }
        if matrix[(size / 2) * size + size / 2] > 1e140 {
            matrix.iter_mut().for_each(|element| *element *= 1e-140);
            exponent += 140;
        }
        Self { matrix, exponent }
    }
}

fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    for (row, out_row) in a.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
        for (factor, b_row) in row.iter().zip(b.chunks_exact(size)) {
            for (element, value) in out_row.iter_mut().zip(b_row) {
                *element += factor * value;
            }
        }
    }
    out
}

/// The exponential distribution function with the given mean; `None` unless the mean is positive and finite.
#[must_use]
pub fn exponential_cdf(mean: f64) -> Option<impl Fn(f64) -> f64> {
    (mean > 0.0 && mean.is_finite()).then_some(move |x: f64| -(-x.max(0.0) / mean).exp_m1())
}

/// The gamma distribution function with the given shape (1/CV^2, the burstiness of a load) and mean; `None`
/// unless both are positive and finite.
#[must_use]
pub fn gamma_cdf(shape: f64, mean: f64) -> Option<impl Fn(f64) -> f64> {
    let usable = [shape, mean].iter().all(|parameter| *parameter > 0.0 && parameter.is_finite());
    let law = usable.then(|| Gamma::new(shape, shape / mean).ok())??;
    Some(move |x: f64| law.cdf(x))
}

/// Standard deviation over mean (population): 1 for a Poisson process's gaps, 0 for a constant rate's.
///
/// `None` for no samples and for a mean of zero.
#[must_use]
pub fn coefficient_of_variation(samples: &[f64]) -> Option<f64> {
    let samples: crate::Samples = samples.iter().copied().collect();
    let mean = samples.mean().filter(|mean| *mean != 0.0)?;
    samples.std().map(|std| std / mean)
}

/// Variance over mean of counts in equal windows, with divisor n-1: 1 for a Poisson process at any window, 0 for
/// a constant rate, more than 1 for bursts.
///
/// `None` for fewer than two windows and for counts that are all zero.
#[must_use]
pub fn index_of_dispersion(counts: &[u64]) -> Option<f64> {
    let n = counts.len() as f64;
    let mean = counts.iter().map(|count| *count as f64).sum::<f64>() / n;
    if counts.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
    Some(squares / (n - 1.0) / mean)
}
