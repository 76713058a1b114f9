//! Bootstrap intervals of quantiles over blocks, in one pass and bounded memory.
//!
//! [`Blocks`] counts, block by block, how many samples fell into each of a fixed set of bins; the samples themselves
//! are in a [`Sorted`] that holds them all. A resample draws as many blocks as have samples, with replacement, adds
//! up their counts, and reads its quantile. Only the rank comes from the bins: the value is one of the samples of
//! that bin. So a resample's quantile is off by at most 2^-9 of itself (from 2^-20 to 2^44), and
//! exact where every bin holds one value.
//!
//! The intervals are those of [`crate::bootstrap::clustered_quantile`] with blocks as clusters, and the same draws;
//! but there is no need to hold, or to sort, the samples by cluster. Stretches of time as blocks keep together what
//! depends on each other: neighbours in a queue, and the gaps of one request. A block must be longer than the
//! dependence reaches, else the interval is too narrow.
//!
//! Memory: 8 bytes a block and bin in use, of at most 32,769 bins.
//!
//! Source: Field and Welsh, "Bootstrapping clustered data", JRSS B 69 (2007).

use crate::bootstrap::{Draw, Resampling, central};
use crate::interval::Interval;
use crate::quantile::Method;
use crate::sample::Sorted;

/// Low bits of a value that do not tell bins apart: 9 bits of fraction remain, so a bin is at most 2^-9 of its value
/// wide.
const DROPPED_BITS: u32 = 43;
/// Bins of one octave.
const OCTAVE: u64 = 1 << (52 - DROPPED_BITS);
/// The first octave with bins of its own begins at 2^-20; anything smaller and positive is in the first bin.
const FIRST_OCTAVE: u64 = (1023 - 20) * OCTAVE;
/// 64 octaves, up to 2^44; anything larger is in the last bin. Bin 0 is for zero and below.
const BINS: usize = 64 * OCTAVE as usize + 1;

/// How many samples of each block fell into each bin.
#[derive(Debug, Clone)]
pub struct Blocks {
    blocks: usize,
    /// Number of a bin's row in `counts`, where it has one.
    rows: Vec<Option<u16>>,
    /// By row, then by block.
    counts: Vec<u64>,
}

impl Blocks {
    /// This many blocks without samples.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self { blocks, rows: vec![None; BINS], counts: Vec::new() }
    }

    /// Adds `count` samples of the same value to a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn push_n(&mut self, block: usize, value: f64, count: u64) {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        self.row(bin_of(value))[block] += count;
    }

    /// Adds every sample of `other`. The order of merges does not matter.
    ///
    /// # Panics
    /// If `other` has another number of blocks.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.blocks, other.blocks, "blocks of one window");
        for (bin, row) in other.rows.iter().enumerate() {
            let Some(row) = row.map(|row| usize::from(row) * other.blocks) else { continue };
            let more = &other.counts[row..][..other.blocks];
            self.row(bin).iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
    }

    /// The counts of a bin, by block.
    fn row(&mut self, bin: usize) -> &mut [u64] {
        let row = *self.rows[bin].get_or_insert_with(|| {
            let row = self.counts.len() / self.blocks;
            self.counts.resize(self.counts.len() + self.blocks, 0);
            row as u16
        });
        &mut self.counts[usize::from(row) * self.blocks..][..self.blocks]
    }

    /// Number of blocks that have samples.
    #[must_use]
    pub fn occupied(&self) -> usize {
        self.sizes().iter().filter(|size| **size > 0).count()
    }

    /// The bootstrap percentile interval of the quantile at each of these levels, blocks drawn with replacement.
    ///
    /// `sorted` holds the samples of all blocks. An interval is widened to hold the quantile of the samples
    /// themselves, which a resampled one need not. `None` where a level is outside [0, 1], for no samples, for a
    /// confidence outside (0, 1), and where `sorted` does not have as many samples as the blocks.
    #[must_use]
    pub fn quantile_intervals(
        &self,
        sorted: &Sorted,
        levels: &[f64],
        method: Method,
        how: &Resampling,
    ) -> Vec<Option<Interval>> {
        let table = Table::new(self, sorted);
        let fits = table.pooled.last().copied().unwrap_or(0) == sorted.n();
        if !(fits && how.confidence > 0.0 && how.confidence < 1.0) {
            return vec![None; levels.len()];
        }
        let mut drawn = vec![Vec::new(); levels.len()];
        let mut resample = Vec::new();
        for index in 0..how.resamples {
            table.draw(&mut Draw::new(how.seed, index), &mut resample);
            for (level, drawn) in levels.iter().zip(&mut drawn) {
                drawn.extend(table.quantile(&resample, *level, method));
            }
        }
        let widened = |(level, drawn): (&f64, Vec<f64>)| {
            let Interval { low, high } = central(drawn, how.confidence)?;
            let own = sorted.quantile(*level, method)?;
            Some(Interval { low: low.min(own), high: high.max(own) })
        };
        levels.iter().zip(drawn).map(widened).collect()
    }

    /// Samples by block.
    fn sizes(&self) -> Vec<u64> {
        let mut sizes = vec![0; self.blocks];
        for row in self.counts.chunks_exact(self.blocks) {
            row.iter().zip(&mut sizes).for_each(|(count, size)| *size += count);
        }
        sizes
    }
}

/// The counts with bins in ascending order and without empty blocks.
struct Table<'a> {
    sorted: &'a Sorted,
    occupied: usize,
    /// By bin, then by block.
    counts: Vec<u64>,
    /// Samples up to and including each bin.
    pooled: Vec<u64>,
}

impl<'a> Table<'a> {
    fn new(blocks: &Blocks, sorted: &'a Sorted) -> Self {
        let occupied: Vec<usize> = blocks
            .sizes()
            .iter()
            .enumerate()
            .filter(|(_, size)| **size > 0)
            .map(|(block, _)| block)
            .collect();
        let mut table = Self { sorted, occupied: occupied.len(), counts: Vec::new(), pooled: Vec::new() };
        for row in blocks.rows.iter().flatten() {
            let row = &blocks.counts[usize::from(*row) * blocks.blocks..][..blocks.blocks];
            table.counts.extend(occupied.iter().map(|block| row[*block]));
        }
        let mut pooled = Vec::new();
        table.add_up(&vec![1; occupied.len()], &mut pooled);
        table.pooled = pooled;
        table
    }

    /// Draws as many blocks as there are; `resample` becomes its samples up to and including each bin.
    fn draw(&self, draw: &mut Draw, resample: &mut Vec<u64>) {
        let mut times = vec![0; self.occupied];
        for _ in 0..self.occupied {
            times[draw.below(self.occupied)] += 1;
        }
        self.add_up(&times, resample);
    }

    /// Samples up to and including each bin if every block were there this many times.
    fn add_up(&self, times: &[u64], up_to: &mut Vec<u64>) {
        up_to.clear();
        let mut total = 0;
        for bin in self.counts.chunks_exact(self.occupied.max(1)) {
            total += bin.iter().zip(times).map(|(count, times)| count * times).sum::<u64>();
            up_to.push(total);
        }
    }

    fn quantile(&self, resample: &[u64], p: f64, method: Method) -> Option<f64> {
        let n = resample.last().copied().unwrap_or(0);
        method.of(n, p, |rank| {
            let bin = resample.partition_point(|up_to| *up_to < rank);
            let of = |up_to: &[u64]| {
                let before = bin.checked_sub(1).map_or(0, |bin| up_to[bin]);
                (before, up_to[bin] - before)
            };
            let ((before, drawn), (pooled_before, pooled)) = (of(resample), of(&self.pooled));
            // As far into the bin's samples as the rank is into the bin's drawn ones.
            let place = (u128::from(rank - before) * u128::from(pooled)).div_ceil(u128::from(drawn)) as u64;
            self.sorted.order_statistic(pooled_before + place).unwrap_or(f64::NAN)
        })
    }
}

/// The bin of a value; the order of bins is that of values.
fn bin_of(value: f64) -> usize {
    if value > 0.0 {
        ((value.to_bits() >> DROPPED_BITS).saturating_sub(FIRST_OCTAVE) as usize + 1).min(BINS - 1)
    } else {
        0
    }
}
