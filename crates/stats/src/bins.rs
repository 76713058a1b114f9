//! Counts by the leading bits of a value, found by position: adding a sample is one addition.
//!
//! The bins cover zero and the values from 2^-20 to 2^44, which in milliseconds is a nanosecond to half a million
//! years. What else there is has no place here and is for the caller to keep.
//!
//! Memory: 8 bytes a bin that can be, 16 MB with 15 bits of fraction; of the operating system it takes only the pages
//! that were counted in.

use crate::table::Entry;

/// The key of zero; keys of positive values are above it, in the order of the values.
pub(crate) const ZERO: u64 = 1 << 63;

/// Bits of a key under the exponent.
const FRACTION_BITS: u32 = 52;
/// The exponent field of 2^-20, where the bins begin.
const FIRST_OCTAVE: u64 = 1023 - 20;
/// Doublings that they cover.
const OCTAVES: usize = 64;

/// Bins of the keys without their lowest bits.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    dropped_bits: u32,
    /// Samples in the bin of zero.
    zeros: u64,
    /// The first bin's key without its dropped bits.
    first: u64,
    counts: Vec<u64>,
    /// The first and the last bin that have samples, once there are any.
    span: Option<(usize, usize)>,
    /// Bins that have samples, that of zero included.
    used: usize,
}

impl Bins {
    /// No samples; `None` where so many bits are dropped that an octave has no bin of its own.
    pub(crate) fn new(dropped_bits: u32) -> Option<Self> {
        let fraction = FRACTION_BITS.checked_sub(dropped_bits)?;
        Some(Self {
            dropped_bits,
            zeros: 0,
            first: (ZERO | FIRST_OCTAVE << FRACTION_BITS) >> dropped_bits,
            counts: vec![0; OCTAVES << fraction],
            span: None,
            used: 0,
        })
    }

    /// Adds to the count of a key's bin. `false` if there is no bin for it.
    pub(crate) fn add(&mut self, Entry { key, count }: Entry) -> bool {
        let bin = key >> self.dropped_bits;
        let place = bin.wrapping_sub(self.first) as usize;
        if let Some(counted) = self.counts.get_mut(place) {
            *counted += count;
            if *counted == count {
                self.used += 1;
                let (low, high) = self.span.unwrap_or((place, place));
                self.span = Some((low.min(place), high.max(place)));
            }
        } else if bin == ZERO >> self.dropped_bits {
            self.used += usize::from(self.zeros == 0);
            self.zeros += count;
        } else {
            return false;
        }
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
            self.used = usize::from(self.zeros > 0);
            self.span = self.span.map(|(low, high)| (low / 2, high / 2));
            let (low, high) = self.span.unwrap_or((1, 0));
            for place in low..=high {
                // Both halves are at or behind the place, so nothing is read that has been written.
                let halves = self.counts[2 * place] + self.counts[2 * place + 1];
                (self.counts[2 * place], self.counts[2 * place + 1]) = (0, 0);
                self.counts[place] = halves;
                self.used += usize::from(halves > 0);
            }
            self.counts.truncate(self.counts.len() / 2);
        }
        true
    }

    /// Number of bins that have samples.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Every bin that has samples, as its smallest key and its count, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        let entry = |(place, count): (usize, u64)| Entry {
            key: (self.first + place as u64) << self.dropped_bits,
            count,
        };
        let span = self.span.into_iter().flat_map(|(low, high)| low..=high);
        let rest = span.map(|place| (place, self.counts[place])).map(entry);
        std::iter::once(Entry { key: ZERO, count: self.zeros }).chain(rest).filter(|entry| entry.count > 0)
    }
}
