//! The binomial law, as far as rank bounds need it.
//!
//! Probabilities are built from the mode outwards by the ratio of neighbours and divided by their own sum, so no
//! gamma function is evaluated and the relative error stays near the machine's, for a billion trials too. A
//! continued fraction for the incomplete beta function with a fixed number of steps does not converge there.

/// Terms smaller than this, relative to the mode's, are left out: together they are below any error that counts.
const NEGLIGIBLE: f64 = 1e-25;

/// The probabilities of Binomial(n, p) that are not negligible: about 21 standard deviations around the mode.
pub(crate) struct Binomial {
    /// Number of successes that `probabilities[0]` belongs to.
    first: u64,
    probabilities: Vec<f64>,
}

impl Binomial {
    /// The law of the number of successes in `n` trials, each with probability `p` in [0, 1].
    pub(crate) fn new(n: u64, p: f64) -> Self {
        if n == 0 || p <= 0.0 || p >= 1.0 {
            return Self { first: if p >= 1.0 { n } else { 0 }, probabilities: vec![1.0] };
        }
        let odds = p / (1.0 - p);
        let mode = (((n + 1) as f64 * p) as u64).min(n);
        let mut probabilities = Vec::new();
        let mut weight = 1.0;
        for k in (1..=mode).rev() {
            weight *= k as f64 / ((n - k + 1) as f64 * odds);
            if weight < NEGLIGIBLE {
                break;
            }
            probabilities.push(weight);
        }
        let first = mode - probabilities.len() as u64;
        probabilities.reverse();
        probabilities.push(1.0);
        weight = 1.0;
        for k in mode..n {
            weight *= (n - k) as f64 * odds / (k + 1) as f64;
            if weight < NEGLIGIBLE {
                break;
            }
            probabilities.push(weight);
        }
        let total: f64 = probabilities.iter().sum();
        for probability in &mut probabilities {
            *probability /= total;
        }
        Self { first, probabilities }
    }

    /// P(B <= k).
    pub(crate) fn cdf(&self, k: u64) -> f64 {
        let Some(last) = k.checked_sub(self.first) else { return 0.0 };
        let count =
            self.probabilities.len().min(usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1));
        self.probabilities[..count].iter().sum()
    }

    /// The smallest k with P(B <= k) > `tail`.
    pub(crate) fn smallest_above(&self, tail: f64) -> u64 {
        self.first + leading(self.probabilities.iter(), tail)
    }

    /// The largest k with P(B >= k) > `tail`.
    pub(crate) fn largest_above(&self, tail: f64) -> u64 {
        let last = self.first + self.probabilities.len() as u64 - 1;
        last - leading(self.probabilities.iter().rev(), tail)
    }
}

/// How many probabilities can be added, from the small end, before their sum is more than `tail`.
fn leading<'a>(probabilities: impl ExactSizeIterator<Item = &'a f64>, tail: f64) -> u64 {
    let last = probabilities.len() as u64 - 1;
    let mut sum = 0.0;
    let within = probabilities.take_while(|probability| {
        sum += **probability;
        sum <= tail
    });
    (within.count() as u64).min(last)
}
