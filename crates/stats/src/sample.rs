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
//! Memory: 16 to 32 bytes for each different value, about 25 MB at the limit, and nearly twice that for a moment while
//! room is made. In bins it is 8 bytes a bin, at most 16 MB.

use crate::bins::{Bins, ZERO};
use crate::bound::{early_stopping_rank, order_statistic_ranks};
use crate::moments::Moments;
use crate::quantile::Method;
use crate::table::{Entry, Table};

/// The number of different values that are kept exactly.
pub const DISTINCT_LIMIT: usize = 1_000_000;

/// Low bits dropped at first when there are too many different values: 52 - 37 = 15 bits of fraction remain.
const FIRST_DROP: u32 = 37;

/// A multiset of finite `f64` samples that grows, merges and never forgets how many there were.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Every key; in bins only those that have none.
    table: Table,
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
            table: Table::default(),
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
        self.keep(Entry { key: key_of(value), count });
    }

    /// Adds every sample of `other`. The order of merges does not matter.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.distinct_limit = self.distinct_limit.min(other.distinct_limit);
        if other.dropped_bits > self.dropped_bits {
            self.coarsen(other.dropped_bits);
        }
        if self.bins.is_none() {
            self.table.reserve((self.table.len() + other.table.len()).min(self.distinct_limit + 1));
        }
        other.entries().for_each(|entry| self.keep(entry));
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
        let binned = self.bins.take();
        let mut cumulative = std::mem::take(&mut self.table).into_sorted();
        if let Some(bins) = binned {
            cumulative.reserve_exact(bins.used());
            cumulative.extend(bins.iter());
            // Two ascending runs, which a stable sort takes as they are.
            cumulative.sort();
        }
        let mut up_to = 0;
        for entry in &mut cumulative {
            up_to += entry.count;
            entry.count = up_to;
        }
        Sorted { cumulative, dropped_bits: self.dropped_bits, moments: self.moments }
    }

    /// Every key that is kept, in no order.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.table.iter().chain(self.bins.iter().flat_map(Bins::iter))
    }

    /// Number of different keys.
    fn distinct(&self) -> usize {
        self.table.len() + self.bins.as_ref().map_or(0, Bins::used)
    }

    /// Adds a key, as coarse as keys are now, and drops bits as long as there are too many different ones.
    fn keep(&mut self, entry: Entry) {
        let entry = Entry { key: entry.key & (u64::MAX << self.dropped_bits), count: entry.count };
        if !self.bins.as_mut().is_some_and(|bins| bins.add(entry)) {
            self.table.add(entry);
        }
        while self.distinct() > self.distinct_limit {
            self.coarsen(FIRST_DROP.max(self.dropped_bits + 1));
        }
    }

    /// Keeps fewer bits.
    fn coarsen(&mut self, dropped_bits: u32) {
        self.dropped_bits = dropped_bits;
        let table = std::mem::take(&mut self.table);
        let finer = self.bins.take_if(|bins| !bins.coarsen(dropped_bits));
        if self.bins.is_none() {
            self.bins = Bins::new(dropped_bits);
        }
        table.iter().chain(finer.iter().flat_map(Bins::iter)).for_each(|entry| self.keep(entry));
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
