//! Intervals of a proportion and of a mean, and the normal quantiles under them.
//!
//! Sources: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927);
//! Student (1908) for the mean of few repeats. For quantiles see [`crate::bound`] and [`crate::bootstrap`].

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A two-sided interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Wilson's score interval of a proportion, without continuity correction.
///
/// `None` for no trials, more successes than trials, or a confidence outside (0, 1). It always contains
/// successes / n and stays in [0, 1].
#[must_use]
pub fn wilson(successes: u64, n: u64, confidence: f64) -> Option<Interval> {
    if n == 0 || successes > n {
        return None;
    }
    let z = two_sided_z(confidence)?;
    let (count, share) = (n as f64, successes as f64 / n as f64);
    let spread = 1.0 + z * z / count;
    let centre = (share + z * z / (2.0 * count)) / spread;
    let half = z / spread * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    // At the ends the formula gives 0 and 1 exactly; floating point may not.
    Some(Interval {
        low: if successes == 0 { 0.0 } else { (centre - half).clamp(0.0, share) },
        high: if successes == n { 1.0 } else { (centre + half).clamp(share, 1.0) },
    })
}

/// Student's t interval of the mean of independent samples (for example one figure per repeat of a run).
///
/// `None` for fewer than two samples or a confidence outside (0, 1). Exact for normal samples only.
#[must_use]
pub fn student_t_mean(samples: &[f64], confidence: f64) -> Option<Interval> {
    let n = samples.len() as f64;
    if samples.len() < 2 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let t = student_t_quantile(n - 1.0, 0.5 + confidence / 2.0)?;
    let half = t * (variance / n).sqrt();
    Some(Interval { low: mean - half, high: mean + half })
}

/// The quantile at level `p` of Student's t with `freedom` degrees of freedom, to about 9 digits.
///
/// `None` for a level outside (0, 1) or degrees of freedom that are not positive. From 200 degrees of freedom it is
/// the expansion around the normal quantile (Abramowitz and Stegun 26.7.5), because the library's inversion loses
/// digits there.
#[must_use]
pub fn student_t_quantile(freedom: f64, p: f64) -> Option<f64> {
    let law = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let z = normal_quantile(p)?;
    if freedom < 200.0 {
        return Some(law.inverse_cdf(p));
    }
    let s = z * z;
    let terms = [
        (s + 1.0) / 4.0,
        ((5.0 * s + 16.0) * s + 3.0) / 96.0,
        (((3.0 * s + 19.0) * s + 17.0) * s - 15.0) / 384.0,
        ((((79.0 * s + 776.0) * s + 1482.0) * s - 1920.0) * s - 945.0) / 92_160.0,
    ];
    Some(z * (1.0 + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom)))
}

/// The standard normal quantile at level `p`; `None` for a level outside (0, 1).
#[must_use]
pub fn normal_quantile(p: f64) -> Option<f64> {
    (p > 0.0 && p < 1.0).then(|| Normal::standard().inverse_cdf(p))
}

/// The z for which a standard normal lies in [-z, z] with `confidence`: 1.96 for 0.95. `None` outside (0, 1).
#[must_use]
pub fn two_sided_z(confidence: f64) -> Option<f64> {
    normal_quantile(0.5 + confidence / 2.0).filter(|_| confidence > 0.0)
}
