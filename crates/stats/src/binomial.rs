//! The binomial law, as far as rank bounds need it.
//!
//! Probabilities are built from the mode outwards by the ratio of neighbours and divided by their own sum, so no
//! gamma function is evaluated and the relative error stays near the machine's, for a billion trials too. A
//! continued fraction for the incomplete beta function with a fixed number of steps does not converge there.

/// Terms smaller than this, relative to the mode's, are left out: together they are below any error that counts.
const NEGLIGIBLE: f64 = 1e-25;

/// The probabilities of Binomial(n, p) that are not negligible: about 21 standard deviations around the mode, which
/// is also what building them costs (a few hundred thousand steps for a billion trials).
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
        let mode = (((n as f64 + 1.0) * p) as u64).min(n);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cdf_is_scipys_up_to_a_hundred_million_trials() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../tests/golden/golden.json")).unwrap();
        let table: Vec<(u64, f64, u64, f64)> =
            serde_json::from_value(golden["binomial_cdf"].clone()).unwrap();
        assert_eq!(table.len(), 5);
        for (n, p, k, expected) in table {
            let cdf = Binomial::new(n, p).cdf(k);
            assert!((cdf - expected).abs() < 1e-9, "n {n} p {p} k {k}: {cdf}, expected {expected}");
        }
    }

    #[test]
    fn few_trials_by_hand() {
        let law = Binomial::new(3, 0.5);
        for (k, expected) in [(0, 0.125), (1, 0.5), (2, 0.875), (3, 1.0), (9, 1.0)] {
            assert!((law.cdf(k) - expected).abs() < 1e-15, "{k}");
        }
        assert_eq!((law.smallest_above(0.3), law.largest_above(0.3)), (1, 2));
        for (n, p, certain) in [(0, 0.5, 0), (7, 0.0, 0), (7, 1.0, 7)] {
            let law = Binomial::new(n, p);
            assert_eq!((law.smallest_above(0.01), law.largest_above(0.01)), (certain, certain));
            assert_eq!(law.cdf(certain), 1.0);
        }
        assert_eq!(Binomial::new(7, 1.0).cdf(6), 0.0);
    }
}
