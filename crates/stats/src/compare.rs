//! The difference of two sets of samples, with an interval.
//!
//! The verdict (noise, real, suspicious) is not made here: it needs to know what was held equal.

use crate::bootstrap::{Draw, Estimate, Resampling, percentile_interval};

/// `statistic(after) - statistic(before)` with its bootstrap percentile interval.
///
/// The two sets are independent of each other and so are the samples of each; every resample draws both anew.
/// `statistic` may reorder its samples; for a quantile, sort them and call [`crate::quantile::quantile`]. `None`
/// if the statistic is undefined for either set or for every resample, or if the confidence is outside (0, 1).
pub fn difference(
    before: &[f64],
    after: &[f64],
    how: &Resampling,
    statistic: impl Fn(&mut [f64]) -> Option<f64>,
) -> Option<Estimate> {
    let value = statistic(&mut after.to_vec())? - statistic(&mut before.to_vec())?;
    let mut resample = Vec::with_capacity(before.len().max(after.len()));
    let mut drawn = |samples: &[f64], draw: &mut Draw| {
        resample.clear();
        resample.extend((0..samples.len()).map(|_| samples[draw.below(samples.len())]));
        statistic(&mut resample)
    };
    percentile_interval(value, how, |draw| {
        let before = drawn(before, draw)?;
        Some(drawn(after, draw)? - before)
    })
}
