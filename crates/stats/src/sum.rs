//! Sums in twice the precision of `f64`.
//!
//! A sum is kept as an unevaluated pair high + low (Dekker 1971, Knuth's two-sum), about 106 bits. So a variance may
//! be taken as mean square minus squared mean without the cancellation that makes this formula useless in plain `f64`
//! (a deviation of a billionth of the mean still has 12 digits).

/// A running sum, high + low.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    pub(crate) fn value(&self) -> f64 {
        self.high + self.low
    }

    /// The sum divided by `divisor`, rounded once: the quotient of the high part, corrected by what is left over.
    pub(crate) fn divided(&self, divisor: f64) -> f64 {
        let quotient = self.high / divisor;
        let rest = (-quotient).mul_add(divisor, self.high) + self.low;
        quotient + rest / divisor
    }

    /// Adds, or takes away, `size * 2^scale`, as well as the pair can hold it.
    pub(crate) fn add_scaled(&mut self, size: u128, scale: i32, negative: bool) {
        // Pieces of 48 bits are whole `f64`s; scaled in two steps, since half the power is always in range.
        for piece in [2, 1, 0] {
            let (bits, scale) = ((size >> (48 * piece)) as u64 & ((1 << 48) - 1), scale + 48 * piece);
            if bits > 0 {
                let half = scale / 2;
                let scaled = bits as f64 * f64::from(half).exp2() * f64::from(scale - half).exp2();
                *self = self.plus(Self { high: if negative { -scaled } else { scaled }, low: 0.0 });
            }
        }
    }

    /// Population standard deviation of `n` samples from their sum and sum of squares: sqrt(n Q - S^2) / n.
    pub(crate) fn deviation(sum: &Self, squares: &Self, n: f64) -> f64 {
        let square_of_sum = sum.times_sum(*sum);
        let difference = squares.times(n).plus(Self { high: -square_of_sum.high, low: -square_of_sum.low });
        difference.value().max(0.0).sqrt() / n
    }

    fn plus(self, other: Self) -> Self {
        let Self { high, low } = two_sum(self.high, other.high);
        let tail = two_sum(self.low, other.low);
        let first = quick_two_sum(high, low + tail.high);
        quick_two_sum(first.high, first.low + tail.low)
    }

    fn times(self, factor: f64) -> Self {
        let Self { high, low } = product(self.high, factor);
        quick_two_sum(high, self.low.mul_add(factor, low))
    }

    fn times_sum(self, other: Self) -> Self {
        let Self { high, low } = product(self.high, other.high);
        quick_two_sum(high, low + (self.high * other.low + self.low * other.high))
    }
}

/// a * b as a pair; the low part is the rounding error, which a fused multiply-add gives exactly.
fn product(a: f64, b: f64) -> Sum {
    let high = a * b;
    Sum { high, low: a.mul_add(b, -high) }
}

/// a + b as a pair, exactly.
fn two_sum(a: f64, b: f64) -> Sum {
    let high = a + b;
    let part = high - a;
    Sum { high, low: (a - (high - part)) + (b - part) }
}

/// a + b as a pair, exactly, if |a| >= |b|.
fn quick_two_sum(a: f64, b: f64) -> Sum {
    let high = a + b;
    Sum { high, low: b - (high - a) }
}
