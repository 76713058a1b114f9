//! Intervals of percentiles: from order statistics where samples are independent, from a bootstrap over stretches of
//! time where they are not.
//!
//! Requests close in time share a queue, and the gaps of one request share a request. Order statistics take every
//! sample as independent, so their intervals are then too narrow. The other way cuts the window by request start into
//! blocks of equal length, draws whole blocks again, and so keeps together what depends on each other. A block must
//! be longer than the dependence reaches; a window has at most 50 of them, so a block is at least 2 % of it.
//!
//! Never here: which interval a figure got without saying so. `Gathered::how` goes beside every one.
//!
//! Sources: Conover, Practical Nonparametric Statistics (order statistics); Field and Welsh, "Bootstrapping clustered
//! data", JRSS B 69 (2007).

use crate::metric::Sample;
use crate::time::Nanos;
use goodput_stats::{Blocks, Method, Resampling, Samples, Sorted};
use std::rc::Rc;

/// Confidence of every interval.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Blocks that a window is cut into.
const MOST_BLOCKS: usize = 50;
/// With fewer blocks that have samples there is too little to draw from.
const LEAST_BLOCKS: usize = 10;
/// The same interval each time a run is read.
const BOOTSTRAP: Resampling = Resampling { resamples: 200, confidence: CONFIDENCE, seed: 1 };

/// How the interval of a percentile is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntervalMethod {
    /// Distribution-free, from order statistics: samples are taken as independent.
    OrderStatistics,
    /// A bootstrap over blocks of time: samples may depend on others of the same block.
    TimeBlocks,
}

impl IntervalMethod {
    /// The name beside every interval.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderStatistics => "order statistics",
            Self::TimeBlocks => "time-block bootstrap",
        }
    }

    /// What is used unless something else is asked for: gaps and tokens of one request are never independent.
    #[must_use]
    pub const fn usual(sample: Sample) -> Self {
        match sample {
            Sample::Request => Self::OrderStatistics,
            Sample::Gap | Sample::Token => Self::TimeBlocks,
        }
    }
}

/// A window cut into blocks of equal length, by request start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeCut {
    first: Nanos,
    length: u64,
}

impl TimeCut {
    /// From the first to the last of these starts.
    pub(crate) fn of(starts: impl Iterator<Item = Nanos> + Clone) -> Self {
        let first = starts.clone().min().unwrap_or_default();
        let last = starts.max().unwrap_or_default();
        Self { first, length: last.since(first).0.saturating_add(1) }
    }

    /// The block of a request that starts at `start`; the first or the last one for a start outside.
    pub(crate) fn block(&self, start: Nanos) -> usize {
        let block = u128::from(start.since(self.first).0) * MOST_BLOCKS as u128 / u128::from(self.length);
        usize::try_from(block).map_or(MOST_BLOCKS - 1, |block| block.min(MOST_BLOCKS - 1))
    }
}

/// The samples of one metric while they come.
#[derive(Debug, Clone)]
pub(crate) struct Gathering {
    sample: Sample,
    samples: Samples,
    /// Where the interval is to come from blocks of time.
    blocks: Option<Blocks>,
    /// Requests for which the metric does not exist.
    pub(crate) undefined: u64,
}

impl Gathering {
    pub(crate) fn new(sample: Sample, method: IntervalMethod) -> Self {
        let blocks = (method == IntervalMethod::TimeBlocks).then(|| Blocks::new(MOST_BLOCKS));
        Self { sample, samples: Samples::new(), blocks, undefined: 0 }
    }

    /// Adds `n` samples of one value, of a request in this block of time.
    pub(crate) fn push_n(&mut self, block: usize, value: f64, n: u64) {
        self.samples.push_n(value, n);
        if let Some(blocks) = &mut self.blocks {
            blocks.push_n(block, value, n);
        }
    }

    /// Adds everything that `other` has gathered of the same metric in the same window.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.undefined += other.undefined;
        if self.samples.is_empty() {
            self.samples.clone_from(&other.samples);
            self.blocks.clone_from(&other.blocks);
            return;
        }
        self.samples.merge(&other.samples);
        if let (Some(blocks), Some(more)) = (&mut self.blocks, &other.blocks) {
            blocks.merge(more);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    pub(crate) fn freeze(self) -> Gathered {
        // In vain: blocks were asked for and there are too few of them.
        let in_vain = self.blocks.as_ref().is_some_and(|blocks| blocks.occupied() < LEAST_BLOCKS);
        Gathered {
            sorted: Rc::new(self.samples.freeze()),
            blocks: self.blocks.filter(|_| !in_vain).map(Rc::new),
            undefined: self.undefined,
            taken_as_independent: in_vain || self.sample != Sample::Request,
        }
    }
}

/// The samples of one metric, complete. A clone shares them.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    pub(crate) sorted: Rc<Sorted>,
    pub(crate) undefined: u64,
    blocks: Option<Rc<Blocks>>,
    /// Whether order statistics need the remark that the samples are not known to be independent.
    taken_as_independent: bool,
}

impl Gathered {
    /// Lower and upper end at each level, `None` where the samples give none.
    pub(crate) fn intervals(&self, levels: &[f64], method: Method) -> Vec<(Option<f64>, Option<f64>)> {
        let independent = levels.iter().map(|level| self.sorted.quantile_interval(*level, CONFIDENCE));
        let Some(blocks) = &self.blocks else { return independent.collect() };
        let resampled = blocks.quantile_intervals(&self.sorted, levels, method, &BOOTSTRAP);
        // No resample reaches beyond the largest sample. Samples that could not give an end if they were independent
        // cannot give one when they are not.
        independent
            .zip(resampled)
            .map(|((low, high), own)| (low.and(own.map(|i| i.low)), high.and(own.map(|i| i.high))))
            .collect()
    }

    /// How the intervals are made, in words.
    pub(crate) fn how(&self) -> String {
        let percent = CONFIDENCE * 100.0;
        match &self.blocks {
            Some(blocks) => {
                let name = IntervalMethod::TimeBlocks.name();
                format!("{name} {percent:.0} %, {} blocks", blocks.occupied())
            }
            None => {
                let remark = if self.taken_as_independent { ", samples taken as independent" } else { "" };
                format!("{} {percent:.0} %{remark}", IntervalMethod::OrderStatistics.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_cut_into_equal_blocks() {
        let cut = TimeCut::of([Nanos(100), Nanos(1_099)].into_iter());
        let blocks: Vec<usize> = [100, 119, 120, 1_079, 1_080, 1_099].map(|at| cut.block(Nanos(at))).into();
        assert_eq!(blocks, [0, 0, 1, 48, 49, 49]);
        let instant = TimeCut::of([Nanos(7)].into_iter());
        assert_eq!(instant.block(Nanos(7)), 0);
        assert_eq!(TimeCut::of(std::iter::empty()).block(Nanos(0)), 0);
    }

    #[test]
    fn what_independent_samples_cannot_give_dependent_ones_cannot_either() {
        // 100 samples in 50 blocks: the p99 has no upper end by order statistics.
        let mut gathering = Gathering::new(Sample::Gap, IntervalMethod::TimeBlocks);
        (0..100_u32).for_each(|i| gathering.push_n(i as usize / 2, f64::from(i), 1));
        let gathered = gathering.freeze();
        assert_eq!(gathered.how(), "time-block bootstrap 95 %, 50 blocks");
        let ends = gathered.intervals(&[0.5, 0.99], Method::Linear);
        assert!(matches!(ends[..], [(Some(_), Some(_)), (Some(_), None)]), "{ends:?}");
    }
}
