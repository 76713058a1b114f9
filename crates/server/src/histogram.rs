//! Quantiles of any number of durations in bounded memory: a log-linear histogram.
//!
//! Values below 2^14 ns are exact; above, every power of two is cut into 2^13 equal cells, so a reported quantile is
//! within 1/16384 of the true one (3 us at 50 ms). Mean, minimum and maximum are exact. The layout is that of
//! HdrHistogram (Tene), the quantile is the nearest rank.

use goodput_core::time::Nanos;

const BITS: u32 = 14;
const CELLS: u64 = 1 << BITS;
/// Longer values (over three days) count as this long.
const LONGEST: u64 = (1 << 48) - 1;

/// Durations, counted.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    /// All cells from the start, as untouched zero pages: growing it during a run would stop the server for as long
    /// as copying and first touching take, which is milliseconds on some virtual machines.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; cell_of(LONGEST) + 1], count: 0, sum: 0, min: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    pub(crate) fn add(&mut self, value: Nanos) {
        let value = value.0.min(LONGEST);
        self.counts[cell_of(value)] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// How many values there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Mean, ns. Zero when empty.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Smallest value, ns. Zero when empty.
    pub(crate) fn min(&self) -> f64 {
        self.min as f64
    }

    /// Largest value, ns. Zero when empty.
    pub(crate) fn max(&self) -> f64 {
        self.max as f64
    }

    /// The nearest-rank quantiles of ascending orders `q`, ns: the middle of the cell that holds value number
    /// ceil(q n). Zero when empty.
    pub(crate) fn quantiles<const N: usize>(&self, q: [f64; N]) -> [f64; N] {
        let mut cell = cell_of(self.min);
        let mut below = 0;
        q.map(|q| {
            let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
            while below + self.counts[cell] < rank && cell < cell_of(self.max) {
                below += self.counts[cell];
                cell += 1;
            }
            middle_of(cell).clamp(self.min as f64, self.max as f64)
        })
    }
}

/// Values under `CELLS` are their own cell; octave `o` above holds `value >> o`, which is in `CELLS/2..CELLS`.
fn cell_of(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    let cell = u64::from(octave) * (CELLS / 2) + (value >> octave);
    usize::try_from(cell).unwrap_or(usize::MAX)
}

fn middle_of(cell: usize) -> f64 {
    let cell = cell as u64;
    if cell < CELLS {
        return cell as f64;
    }
    let octave = cell / (CELLS / 2) - 1;
    let top = cell - octave * (CELLS / 2);
    let width = 2.0_f64.powi(i32::try_from(octave).unwrap_or(i32::MAX));
    (top as f64 + 0.5) * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cells_are_ordered_and_fine(value in 0_u64..LONGEST) {
            let middle = middle_of(cell_of(value));
            prop_assert!((middle - value as f64).abs() <= value as f64 / 16384.0);
            prop_assert!(cell_of(value) <= cell_of(value + 1));
        }

        #[test]
        fn quantiles_are_the_nearest_rank(mut values in prop::collection::vec(0_u64..10_000_000, 1..200), q in 0.0..1.0_f64) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.add(Nanos(value));
            }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let [median, found] = histogram.quantiles([q.min(0.5), q]);
            prop_assert!(median <= found);
            prop_assert!((found - exact).abs() <= exact / 16384.0);
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.max(), values[values.len() - 1] as f64);
        }
    }

    #[test]
    fn small_values_are_exact_and_empty_is_zero() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles([0.5, 1.0]), [0.0, 0.0]);
        for value in [7, 9, 4_095] {
            histogram.add(Nanos(value));
        }
        assert_eq!(histogram.quantiles([0.0, 0.5, 1.0]), [7.0, 9.0, 4_095.0]);
        assert_eq!((histogram.min(), histogram.mean()), (7.0, 1_370.333_333_333_333_3));
        histogram.add(Nanos::MAX);
        assert_eq!(histogram.max(), LONGEST as f64);
    }
}
