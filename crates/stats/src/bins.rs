//! Counts by the leading bits of a value, found by position: adding a sample is one addition.
//!
//! The bins cover zero and the values from 2^-20 to 2^44, which in milliseconds is a nanosecond to half a million
//! years. What else there is has no place here and is for the caller to keep.
//!
//! Memory: 8 bytes a bin of the doublings between the smallest and the largest value that came, at most 16 MB with 15
//! bits of fraction.

use crate::table::Entry;

/// The key of zero; keys of positive values are above it, in the order of the values.
pub(crate) const ZERO: u64 = 1 << 63;

/// Bits of a key under the exponent.
const FRACTION_BITS: u32 = 52;
/// The exponent field of 2^-20, where the bins begin.
const FIRST_OCTAVE: u64 = 1023 - 20;
/// Doublings that they cover.
const OCTAVES: u64 = 64;

/// Bins of the keys without their lowest bits.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    dropped_bits: u32,
    /// Samples in the bin of zero.
    zeros: u64,
    /// The first bin's key without its dropped bits.
    first: u64,
    /// Whole octaves, from the lowest to the highest that have samples.
    counts: Vec<u64>,
    /// Bins that have samples, that of zero included.
    used: usize,
}

impl Bins {
    /// No samples; `None` where so many bits are dropped that an octave has no bin of its own.
    pub(crate) fn new(dropped_bits: u32) -> Option<Self> {
        (dropped_bits <= FRACTION_BITS).then_some(Self {
            dropped_bits,
            zeros: 0,
            first: 0,
            counts: Vec::new(),
            used: 0,
        })
    }

    /// Adds to the count of a key's bin. `false` if there is no bin for it.
    pub(crate) fn add(&mut self, Entry { key, count }: Entry) -> bool {
        let bin = key >> self.dropped_bits;
        if let Some(counted) = self.counts.get_mut(bin.wrapping_sub(self.first) as usize) {
            self.used += usize::from(*counted == 0);
            *counted += count;
        } else if bin == ZERO >> self.dropped_bits {
            self.used += usize::from(self.zeros == 0);
            self.zeros += count;
        } else if self.make_room(bin) {
            return self.add(Entry { key, count });
        } else {
            return false;
        }
        true
    }

    /// Takes in the octave of a bin. `false` if it is none of those that can be.
    fn make_room(&mut self, bin: u64) -> bool {
        let octave = 1 << (FRACTION_BITS - self.dropped_bits);
        let lowest = (ZERO | FIRST_OCTAVE << FRACTION_BITS) >> self.dropped_bits;
        if !(lowest..lowest + OCTAVES * octave).contains(&bin) {
            return false;
        }
        let start = bin - bin % octave;
        if self.counts.is_empty() {
            self.first = start;
        }
        if start < self.first {
            let missing = (self.first - start) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = start;
        }
        let end = (start + octave - self.first) as usize;
        self.counts.resize(self.counts.len().max(end), 0);
        true
    }

    /// Makes one bin of two until this many bits are dropped. `false`, and nothing is done, where that is too many.
    pub(crate) fn coarsen(&mut self, dropped_bits: u32) -> bool {
        if dropped_bits > FRACTION_BITS {
            return false;
        }
        while self.dropped_bits < dropped_bits {
            self.dropped_bits += 1;
            self.first /= 2;
            self.counts = self.counts.chunks_exact(2).map(|halves| halves[0] + halves[1]).collect();
        }
        self.used = usize::from(self.zeros > 0) + self.counts.iter().filter(|count| **count > 0).count();
        true
    }

    /// Number of bins that have samples.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Every bin that has samples, as its smallest key and its count, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        let bins = (self.first..).zip(&self.counts);
        let rest = bins.map(|(bin, count)| Entry { key: bin << self.dropped_bits, count: *count });
        std::iter::once(Entry { key: ZERO, count: self.zeros }).chain(rest).filter(|entry| entry.count > 0)
    }
}
