//! A growing multiset of samples in bounded memory.
//!
//! [`Samples`] takes values, [`Sorted`] answers questions about them. Values are kept exactly, each with its
//! count, until there are more than [`DISTINCT_LIMIT`] different ones. From then on only the leading bits of each
//! value are kept: sign, exponent and the first 15 bits of the fraction, so a bin is at most 2^-15 of its value
//! wide and a quantile is off by at most 2^-16 of it. Should a range so wide be filled that these bins are more
//! than the limit too (over 30 octaves, every bin of them), one more bit is dropped. [`Sorted::relative_error`]
//! says which. Count, mean, standard deviation, smallest and largest stay exact throughout.
//!
//! The state is a function of the multiset alone: which bits are kept depends only on how many different values
//! there are, which only grows. So samples may be pushed, split and merged in any order with the same answers, to the
//! last bit.
//!
//! Memory: 16 bytes an entry and at most 1.5 times [`DISTINCT_LIMIT`] entries, about 24 MB, and half of that again for
//! a moment while new values are sorted in. In bins it is 8 bytes a bin, at most 16 MB.

use crate::bins::{Bins, ZERO};
use crate::bound::{early_stopping_rank, order_statistic_ranks};
use crate::moments::Moments;
use crate::quantile::Method;

/// The number of different values that are kept exactly.
pub const DISTINCT_LIMIT: usize = 1_000_000;

/// Low bits dropped at first when there are too many different values: 52 - 37 = 15 bits of fraction remain.
const FIRST_DROP: u32 = 37;

/// New values are sorted in when there are this many, or half as many as there are entries, whichever is more.
const PENDING_LEAST: usize = 4096;

/// A value's order-preserving bits and how often it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: u64,
    count: u64,
}

/// A multiset of finite `f64` samples that grows, merges and never forgets how many there were.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Ascending keys, each once; in bins only those that have none.
    entries: Vec<Entry>,
    /// New entries in order of arrival.
    pending: Vec<Entry>,
    /// Where most values go once they are not kept exactly.
    bins: Option<Bins>,
    /// Low bits of a key that are not kept; 0 while exact.
    dropped_bits: u32,
    distinct_limit: usize,
    moments: Moments,
}

impl Default for Samples {
    fn default() -> Self {
        Self::new()
    }
}

impl Samples {
    /// No samples.
    #[must_use]
    pub fn new() -> Self {
        Self::with_distinct_limit(DISTINCT_LIMIT)
    }

    /// No samples, and a limit of one's own for the number of different values that are kept exactly (at least 2).
    /// Only samples with the same limit should be merged; the smaller limit holds afterwards.
    #[must_use]
    pub fn with_distinct_limit(limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            pending: Vec::new(),
            bins: None,
            dropped_bits: 0,
            distinct_limit: limit.max(2),
            moments: Moments::new(),
        }
    }

    /// Adds one sample.
    ///
    /// # Panics
    /// If the value is not finite: an undefined figure is no sample.
    pub fn push(&mut self, value: f64) {
        self.push_n(value, 1);
    }

    /// Adds `count` samples of the same value, at the cost of one.
    ///
    /// # Panics
    /// If the value is not finite: an undefined figure is no sample.
    pub fn push_n(&mut self, value: f64, count: u64) {
        assert!(value.is_finite(), "a sample must be finite, not {value}");
        if count == 0 {
            return;
        }
        let value = value + 0.0; // -0.0 becomes 0.0: they are one value.
        self.moments.add(value, count);
        self.keep(Entry { key: key_of(value) & self.mask(), count });
    }

    /// Adds every sample of `other`. The order of merges does not matter.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.distinct_limit = self.distinct_limit.min(other.distinct_limit);
        if other.dropped_bits > self.dropped_bits {
            self.settle();
            self.coarsen(other.dropped_bits.max(self.dropped_bits));
        }
        let binned = other.bins.iter().flat_map(Bins::iter).map(|(key, count)| Entry { key, count });
        for entry in other.entries.iter().chain(&other.pending).copied().chain(binned) {
            self.keep(Entry { key: entry.key & self.mask(), count: entry.count });
        }
    }

    /// Number of samples.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.moments.n()
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moments.n() == 0
    }

    /// Arithmetic mean; `None` for no samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.moments.mean()
    }

    /// Population standard deviation (divisor n); `None` for no samples.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        self.moments.std()
    }

    /// Sum of all samples.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.moments.sum()
    }

    /// Smallest sample; `None` for no samples.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.moments.min()
    }

    /// Largest sample; `None` for no samples.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.moments.max()
    }

    /// Sorts the samples, ready for any number of questions.
    #[must_use]
    pub fn freeze(mut self) -> Sorted {
        self.settle();
        if let Some(bins) = self.bins.take() {
            self.entries.reserve_exact(bins.used());
            self.entries.extend(bins.iter().map(|(key, count)| Entry { key, count }));
            self.entries.sort();
        }
        let mut up_to = 0;
        for entry in &mut self.entries {
            up_to += entry.count;
            entry.count = up_to;
        }
        Sorted { cumulative: self.entries, dropped_bits: self.dropped_bits, moments: self.moments }
    }

    fn mask(&self) -> u64 {
        u64::MAX << self.dropped_bits
    }

    fn keep(&mut self, entry: Entry) {
        if let Some(bins) = &mut self.bins
            && bins.add(entry.key, entry.count)
        {
            if bins.used() + self.entries.len() > self.distinct_limit {
                self.settle();
            }
        } else {
            self.add_pending(entry);
        }
    }

    fn add_pending(&mut self, entry: Entry) {
        if let Some(last) = self.pending.last_mut().filter(|last| last.key == entry.key) {
            last.count += entry.count;
            return;
        }
        self.pending.push(entry);
        if self.pending.len() >= PENDING_LEAST.max(self.entries.len() / 2) {
            self.settle();
        }
    }

    /// Sorts the new entries in, and drops bits as long as there are too many different values.
    fn settle(&mut self) {
        self.pending.sort_unstable();
        self.entries.reserve_exact(self.pending.len());
        self.entries.append(&mut self.pending);
        self.unite();
        while self.entries.len() + self.bins.as_ref().map_or(0, Bins::used) > self.distinct_limit {
            self.coarsen(self.next_drop());
        }
    }

    /// How many bits are to be dropped next. Where all samples are entries, that is enough of them.
    fn next_drop(&self) -> u32 {
        let mut drop = FIRST_DROP.max(self.dropped_bits + 1);
        let changes =
            |drop: u32| self.entries.windows(2).filter(|w| w[0].key >> drop != w[1].key >> drop).count();
        while self.bins.is_none() && changes(drop) >= self.distinct_limit {
            drop += 1;
        }
        drop
    }

    /// Makes one ascending entry of all that have the same key. A stable sort takes ascending runs as they are.
    fn unite(&mut self) {
        self.entries.sort();
        self.entries.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            kept.count += if same { next.count } else { 0 };
            same
        });
    }

    /// Keeps fewer bits of what has been sorted in.
    fn coarsen(&mut self, dropped_bits: u32) {
        self.dropped_bits = dropped_bits;
        let mask = self.mask();
        let finer = std::mem::replace(&mut self.bins, Bins::new(dropped_bits));
        let binned = finer.iter().flat_map(Bins::iter).map(|(key, count)| Entry { key, count });
        let mut without_bin = Vec::new();
        for entry in self.entries.drain(..).chain(binned) {
            let entry = Entry { key: entry.key & mask, count: entry.count };
            if !self.bins.as_mut().is_some_and(|bins| bins.add(entry.key, entry.count)) {
                without_bin.push(entry);
            }
        }
        self.entries = without_bin;
        self.unite();
    }
}

impl Extend<f64> for Samples {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        for value in values {
            self.push(value);
        }
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut samples = Self::new();
        samples.extend(values);
        samples
    }
}

/// The samples in order: any quantile in logarithmic time.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// Ascending keys, each with the number of samples up to and including it.
    cumulative: Vec<Entry>,
    dropped_bits: u32,
    moments: Moments,
}

impl Sorted {
    /// Number of samples.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.moments.n()
    }

    /// Arithmetic mean; `None` for no samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.moments.mean()
    }

    /// Population standard deviation (divisor n); `None` for no samples.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        self.moments.std()
    }

    /// Sum of all samples.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.moments.sum()
    }

    /// Smallest sample; `None` for no samples.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.moments.min()
    }

    /// Largest sample; `None` for no samples.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.moments.max()
    }

    /// Whether every sample was kept as it is.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.dropped_bits == 0
    }

    /// The largest relative error of an order statistic: 0 while exact, 2^-16 in bins.
    /// (Under 1e-307 the error is absolute and smaller than 1e-312.)
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        if self.is_exact() { 0.0 } else { f64::from(self.dropped_bits).exp2() / 2f64.powi(53) }
    }

    /// The sample with the given 1-based rank from the smallest; `None` for rank 0 and ranks over `n`.
    #[must_use]
    pub fn order_statistic(&self, rank: u64) -> Option<f64> {
        (1..=self.n()).contains(&rank).then(|| self.at(rank))
    }

    /// The quantile at level `p` in [0, 1]; `None` for no samples and for a level outside.
    #[must_use]
    pub fn quantile(&self, p: f64, method: Method) -> Option<f64> {
        method.of(self.n(), p, |rank| self.at(rank))
    }

    /// The distribution-free interval of the quantile at level `p`, lower and upper end, each `None` where the
    /// samples give none. See [`order_statistic_ranks`].
    #[must_use]
    pub fn quantile_interval(&self, p: f64, confidence: f64) -> (Option<f64>, Option<f64>) {
        let ranks = order_statistic_ranks(self.n(), p, confidence);
        (ranks.low.map(|rank| self.at(rank)), ranks.high.map(|rank| self.at(rank)))
    }

    /// An upper bound of the quantile at level `p` that holds with `confidence`; `None` where the samples are too
    /// few to certify one. See [`early_stopping_rank`].
    #[must_use]
    pub fn certified(&self, p: f64, confidence: f64) -> Option<f64> {
        early_stopping_rank(self.n(), p, confidence).map(|from_top| self.at(self.n() + 1 - from_top))
    }

    /// The sample with a rank in 1..=n.
    fn at(&self, rank: u64) -> f64 {
        let (min, max) = self.ends();
        if rank == 1 {
            return min;
        }
        if rank == self.n() {
            return max;
        }
        let index = self.cumulative.partition_point(|entry| entry.count < rank);
        self.value_of(self.cumulative[index].key)
    }

    /// The value a key stands for: itself, or the middle of its bin within what was seen. The bin of zero is zero.
    fn value_of(&self, key: u64) -> f64 {
        let middle = if self.is_exact() || key == ZERO { 0 } else { 1 << (self.dropped_bits - 1) };
        let (min, max) = self.ends();
        value_of(key | middle).clamp(min, max)
    }

    /// The smallest and the largest sample, of which there is one.
    fn ends(&self) -> (f64, f64) {
        (self.moments.min().unwrap_or(0.0), self.moments.max().unwrap_or(0.0))
    }
}

/// Bits in the order of the values: the sign turned over for positive values, all bits for negative ones.
fn key_of(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}

fn value_of(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key ^ (1 << 63) } else { !key })
}
