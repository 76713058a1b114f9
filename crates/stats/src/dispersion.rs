//! Whether arrivals cluster: the index of dispersion of their counts, held against the process that was asked for.
//!
//! A test of the gaps one by one (Kolmogorov-Smirnov) does not see their order: short gaps that come together make
//! bursts although every gap is of the right law. Counts over windows longer than such a burst vary more than the law
//! allows, and counts of a stream that evens itself out vary less.
//!
//! # The windows
//! `k` equal windows from the first to the last arrival, with `m` arrivals in each on average. `m` is the square root of
//! the number of arrivals, so that there are as many windows as arrivals in one: fewer windows would be too few to judge
//! the variance by, shorter ones blind to slow swings. For gaps whose squared coefficient of variation `c2` is far from 1
//! they are longer: `m` is at least `5 / c2`, else counts are 0 or 1 off their mean and no more, and at least `10 c2`,
//! else they are far from normal. Under five windows there is no statement.
//!
//! # What the law allows
//! For a renewal process of gamma gaps the variance of the count of a window over its mean is
//! `c2 + (1 - c2^2) / (6 m)` up to what vanishes with longer windows: 1 exactly for a Poisson process, and `c2` in the
//! limit. The variance of `k` counts is then as that many times a chi-square with `k - 1` degrees of freedom over
//! `k - 1`. For a Poisson process between two of its arrivals this is the classical dispersion test.
//!
//! Sources: Cox and Lewis, The Statistical Analysis of Series of Events (1966), section 6.3, for the test; Cox, Renewal
//! Theory (1962), section 4.5, for the variance of a renewal count.

use crate::gof::index_of_dispersion;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Fewer windows than this say nothing about a variance.
const MIN_WINDOWS: usize = 5;
/// Arrivals in a window, for counts that move by more than one.
const LEAST_VARIANCE: f64 = 5.0;
/// Arrivals in a window for each unit of squared variation, for counts that are nearly normal.
const NEARLY_NORMAL: f64 = 10.0;

/// The index of dispersion of a stream of arrivals, and the interval in which the law has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dispersion {
    /// Variance over mean of the counts (see [`index_of_dispersion`]).
    pub index: f64,
    /// Number of equal windows.
    pub windows: usize,
    /// The least that the law allows at the level.
    pub low: f64,
    /// The most that the law allows at the level.
    pub high: f64,
}

impl Dispersion {
    /// Of `points` in ascending order, held against a renewal process of gamma gaps with this squared coefficient of
    /// variation (1 is Poisson). The interval is left by chance with probability `level`, half of it on each side.
    ///
    /// `None` where there are too few points for five windows, for points that do not move, and for a variation or level
    /// that is not one.
    #[must_use]
    pub fn of_renewal(points: &[f64], squared_cv: f64, level: f64) -> Option<Self> {
        let usable = squared_cv > 0.0 && squared_cv.is_finite() && level > 0.0 && level < 1.0;
        let inner = inner(points).filter(|_| usable)?;
        let least = (LEAST_VARIANCE / squared_cv).max(NEARLY_NORMAL * squared_cv);
        let (index, windows) = over_windows(points, inner, least)?;
        let mean = inner.len() as f64 / windows as f64;
        let expected = squared_cv + (1.0 - squared_cv * squared_cv) / (6.0 * mean);
        let freedom = (windows - 1) as f64;
        let law = ChiSquared::new(freedom).ok()?;
        let bound = |probability: f64| expected * law.inverse_cdf(probability) / freedom;
        Some(Self { index, windows, low: bound(level / 2.0), high: bound(1.0 - level / 2.0) })
    }

    /// Of `points` in ascending order that should be evenly spaced up to gaps with this coefficient of variation. Counts
    /// of evenly spaced points differ by one at most, so the index may reach `cv^2 + 1 / m`; there is no least.
    ///
    /// `None` as for [`Dispersion::of_renewal`].
    #[must_use]
    pub fn of_constant(points: &[f64], largest_cv: f64) -> Option<Self> {
        let inner = inner(points)?;
        let (index, windows) = over_windows(points, inner, 0.0)?;
        let mean = inner.len() as f64 / windows as f64;
        Some(Self { index, windows, low: 0.0, high: largest_cv * largest_cv + 1.0 / mean })
    }

    /// Whether the law has such an index.
    #[must_use]
    pub fn is_within(&self) -> bool {
        (self.low..=self.high).contains(&self.index)
    }
}

/// The points between the first and the last one: those two make the windows and are in none.
fn inner(points: &[f64]) -> Option<&[f64]> {
    match points {
        [_, inner @ .., _] if !inner.is_empty() => Some(inner),
        _ => None,
    }
}

/// The index over equal windows with the square root of the number of points in each on average, and at least `least`.
fn over_windows(points: &[f64], inner: &[f64], least: f64) -> Option<(f64, usize)> {
    let (first, last) = (points.first()?, points.last()?);
    let n = inner.len() as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of points"
    )]
    let windows = (n / n.sqrt().max(least)) as usize;
    if windows < MIN_WINDOWS || last <= first {
        return None;
    }
    let per_unit = windows as f64 / (last - first);
    let mut counts = vec![0_u64; windows];
    for point in inner {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "points ascend from the first"
        )]
        let window = ((point - first) * per_unit) as usize;
        counts[window.min(windows - 1)] += 1;
    }
    index_of_dispersion(&counts).map(|index| (index, windows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_points_say_nothing() {
        let points: Vec<f64> = (0..26).map(f64::from).collect();
        assert_eq!(Dispersion::of_renewal(&points, 1.0, 0.01), None, "24 inner points make four windows");
        let points: Vec<f64> = (0..120).map(f64::from).collect();
        assert!(Dispersion::of_renewal(&points, 1.0, 0.01).is_some());
        assert_eq!(Dispersion::of_renewal(&points, 0.01, 0.01), None, "500 points a window");
        assert_eq!(Dispersion::of_renewal(&points, f64::INFINITY, 0.01), None);
        assert_eq!(Dispersion::of_renewal(&[1.0; 200], 1.0, 0.01), None, "they do not move");
        assert_eq!(Dispersion::of_constant(&[], 0.1), None);
    }

    #[test]
    fn even_points_are_constant_and_no_poisson_process() {
        let points: Vec<f64> = (0..1_000).map(f64::from).collect();
        let constant = Dispersion::of_constant(&points, 0.1).expect("enough points");
        assert!(constant.is_within() && constant.windows == 31, "{constant:?}");
        let poisson = Dispersion::of_renewal(&points, 1.0, 0.001).expect("enough points");
        assert!(poisson.index < poisson.low, "{poisson:?}");
    }

    #[test]
    fn a_slow_swing_of_an_even_stream_shows() {
        // Gaps of 0.9 in the first half and of 1.1 in the second: their CV is 0.1, and the rate moves.
        let mut at = 0.0;
        let gap = |i: i32| if i < 500 { 0.9 } else { 1.1 };
        let points: Vec<f64> = (0..1_000)
            .map(|i| {
                at += gap(i);
                at
            })
            .collect();
        let swing = Dispersion::of_constant(&points, 0.1).expect("enough points");
        assert!(!swing.is_within(), "{swing:?}");
    }
}
