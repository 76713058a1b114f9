//! What is known of a multiset exactly, however many samples it has: count, sum, sum of squares, smallest, largest.
//!
//! A finite `f64` is a whole number times a power of two. Samples are added up by that power, as whole numbers, and
//! whole numbers add up without rounding: the state depends on the multiset alone, whatever the order in which
//! samples came and however they were divided among several [`Moments`] and merged. Only the answers are rounded, from
//! sums in twice the precision of `f64` ([`Sum`]).
//!
//! Memory: 48 bytes for each power of two between the smallest and the largest sample.

use crate::sum::Sum;

/// Bits of the fraction of an `f64`.
const FRACTION_BITS: u32 = 52;
/// A sample is its significand times two to the exponent field minus this.
const BIAS: i32 = 1023 + FRACTION_BITS.cast_signed();

/// Exact moments of the samples so far.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    n: u64,
    min: f64,
    max: f64,
    /// The exponent field to which the first of `powers` belongs.
    first: usize,
    /// By exponent field.
    powers: Vec<Power>,
}

/// Sums over the samples of one exponent field, in units of its power of two. A significand has 53 bits and a count 64,
/// so nothing overflows as long as there are fewer than 2^64 samples.
#[derive(Debug, Clone, Copy, Default)]
struct Power {
    sum: i128,
    /// Sum of the squares' lower 64 bits.
    squares_low: u128,
    /// Sum of what is above those.
    squares_high: u128,
}

impl Moments {
    pub(crate) const fn new() -> Self {
        Self { n: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, first: 0, powers: Vec::new() }
    }

    /// Adds `count` samples of one finite value.
    pub(crate) fn add(&mut self, value: f64, count: u64) {
        self.n += count;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let bits = value.to_bits();
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // Values too small for the implicit leading bit share the power of the smallest that have it.
        let (exponent, significand) = match (bits >> FRACTION_BITS) & 0x7ff {
            0 => (1, fraction),
            exponent => (exponent as usize, fraction | 1 << FRACTION_BITS),
        };
        let power = self.power(exponent);
        let product = (u128::from(significand) * u128::from(count)).cast_signed();
        power.sum += if value.is_sign_negative() { -product } else { product };
        let square = u128::from(significand) * u128::from(significand);
        power.squares_low += u128::from(square as u64) * u128::from(count);
        power.squares_high += (square >> 64) * u128::from(count);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (exponent, more) in (other.first..).zip(&other.powers) {
            let power = self.power(exponent);
            power.sum += more.sum;
            power.squares_low += more.squares_low;
            power.squares_high += more.squares_high;
        }
    }

    pub(crate) const fn n(&self) -> u64 {
        self.n
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.total().divided(self.n as f64).clamp(self.min, self.max))
    }

    pub(crate) fn std(&self) -> Option<f64> {
        (self.n > 0).then(|| Sum::deviation(&self.total(), &self.total_of_squares(), self.n as f64))
    }

    pub(crate) fn sum(&self) -> f64 {
        self.total().value()
    }

    pub(crate) fn min(&self) -> Option<f64> {
        (self.n > 0).then_some(self.min)
    }

    pub(crate) fn max(&self) -> Option<f64> {
        (self.n > 0).then_some(self.max)
    }

    /// The sums of this exponent field.
    fn power(&mut self, exponent: usize) -> &mut Power {
        if self.powers.is_empty() {
            self.first = exponent;
        }
        if exponent < self.first {
            let missing = self.first - exponent;
            self.powers.splice(0..0, std::iter::repeat_n(Power::default(), missing));
            self.first = exponent;
        }
        let place = exponent - self.first;
        if place >= self.powers.len() {
            self.powers.resize(place + 1, Power::default());
        }
        &mut self.powers[place]
    }

    fn total(&self) -> Sum {
        let mut total = Sum::default();
        for (power, scale) in self.with_scales() {
            let (size, negative) = (power.sum.unsigned_abs(), power.sum < 0);
            total.add_scaled(size, scale, negative);
        }
        total
    }

    fn total_of_squares(&self) -> Sum {
        let mut total = Sum::default();
        for (power, scale) in self.with_scales() {
            total.add_scaled(power.squares_high, 2 * scale + 64, false);
            total.add_scaled(power.squares_low, 2 * scale, false);
        }
        total
    }

    /// Every sum with its power of two, the largest first.
    fn with_scales(&self) -> impl Iterator<Item = (&Power, i32)> {
        let lowest = self.first as i32 - BIAS;
        self.powers.iter().enumerate().rev().map(move |(place, power)| (power, lowest + place as i32))
    }
}
