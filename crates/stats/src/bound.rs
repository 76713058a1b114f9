//! Distribution-free bounds of a quantile: which order statistics enclose it, and which one certifies it.
//!
//! Both rest on one fact: of `n` independent samples the number at or below the true quantile at level `p` is
//! Binomial(n, p), whatever the law of the samples. Requests that share a queue are not independent; divide `n`
//! by the integrated autocorrelation time ([`crate::batch`]) or use blocks ([`crate::bootstrap`]).
//!
//! Sources: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2 (interval); the early-stopping
//! rule of MLPerf's LoadGen (certificate).

use crate::binomial::Binomial;

/// Room for floating point where a tail probability equals the limit exactly, as 0.1 and 1 - 0.9 do.
const TIE: f64 = 1.0 + 1e-12;

/// 1-based ranks of the order statistics that enclose a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankInterval {
    /// Rank of the lower bound; `None` where the samples are too few to give one.
    pub low: Option<u64>,
    /// Rank of the upper bound; `None` where the samples are too few to give one.
    pub high: Option<u64>,
}

/// The two-sided, equal-tailed interval of the quantile at level `p` from `n` samples.
///
/// With B ~ Binomial(n, p) and a = 1 - confidence, `low` is the largest rank r with P(B <= r-1) <= a/2 and `high`
/// the smallest rank s with P(B >= s) <= a/2. So each side errs with at most a/2 and the coverage is at least
/// `confidence`, never under it. A rank that would be 0 or n+1 is `None`: no sample bounds the quantile there.
/// Both are `None` for a level outside [0, 1] or a confidence outside (0, 1).
#[must_use]
pub fn order_statistic_ranks(n: u64, p: f64, confidence: f64) -> RankInterval {
    if n == 0 || !(0.0..=1.0).contains(&p) || !is_open_unit(confidence) {
        return RankInterval { low: None, high: None };
    }
    let tail = (1.0 - confidence) / 2.0 * TIE;
    let law = Binomial::new(n, p);
    let low = law.smallest_above(tail);
    let high = law.largest_above(tail) + 1;
    RankInterval { low: (low >= 1).then_some(low), high: (high <= n).then_some(high) }
}

/// The smallest number of samples that certifies the quantile at level `p` when `over` of them exceed the limit.
///
/// It is the least n with P(Binomial(n, 1-p) <= over) <= 1 - confidence: were a share 1-p or more of all requests
/// over the limit, seeing so few over would be that unlikely. 459 for p99 at 0.99 with none over. An *estimate* by
/// [`early_stopping_rank`] needs one over: 662. `None` for a level or a confidence outside (0, 1).
#[must_use]
pub fn early_stopping_samples(p: f64, confidence: f64, over: u64) -> Option<u64> {
    if !is_open_unit(p) || !is_open_unit(confidence) {
        return None;
    }
    let mut too_few = over;
    let mut enough = over + 1;
    while !certifies(enough, p, confidence, over) {
        too_few = enough;
        enough = enough.checked_mul(2)?;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if certifies(middle, p, confidence, over) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Some(enough)
}

/// Which sample, counted from the largest, is an upper bound of the quantile at level `p` with `confidence`.
///
/// 1 is the largest sample. It is the largest `over` for which [`early_stopping_samples`] is at most `n`, as
/// LoadGen's early-stopping estimate takes it (one rank more cautious than the test itself needs). `None` when
/// `n` is too small for any, or a level or a confidence is outside (0, 1).
#[must_use]
pub fn early_stopping_rank(n: u64, p: f64, confidence: f64) -> Option<u64> {
    if !is_open_unit(p) || !is_open_unit(confidence) {
        return None;
    }
    // The smallest count whose tail is too heavy; every smaller count certifies.
    let heavy = Binomial::new(n, 1.0 - p).smallest_above((1.0 - confidence) * TIE);
    heavy.checked_sub(1).filter(|over| *over >= 1)
}

/// Whether `n` samples with `over` of them over the limit certify the quantile.
fn certifies(n: u64, p: f64, confidence: f64, over: u64) -> bool {
    Binomial::new(n, 1.0 - p).cdf(over) <= (1.0 - confidence) * TIE
}

fn is_open_unit(x: f64) -> bool {
    x > 0.0 && x < 1.0
}
