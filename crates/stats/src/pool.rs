//! Pooling of parts: runs, replicas, shards, seeds.
//!
//! Percentiles do not average. The p99 of two replicas is the p99 of all their requests together, which lies
//! between their own p99s but is in general not the middle of them. So parts are pooled as samples, and there is
//! no function here, nor anywhere in this crate, that takes quantiles and gives a quantile.

use crate::sample::Samples;

/// All samples of all parts, in one multiset. The order of the parts does not matter.
///
/// With [`crate::Method::InverseCdf`] and exact samples, every quantile of the result lies between the smallest
/// and the largest of the non-empty parts'. (Linear interpolation has no such law.)
#[must_use]
pub fn pool<'a>(parts: impl IntoIterator<Item = &'a Samples>) -> Samples {
    let mut all = Samples::new();
    for part in parts {
        all.merge(part);
    }
    all
}
