//! G/M/1: gamma gaps between arrivals and exponential service, exact. It is what Kingman's formula approximates when a
//! load generator sends with a burstiness other than 1.
//!
//! An arrival finds the server busy with probability `sigma`, the root in (0, 1) of `sigma = A(mu (1 - sigma))`, where `A`
//! is the Laplace transform of the gaps and `mu = 1 / S`. Waiting is then as in M/M/1 with `sigma` in place of `rho`.
//! For gamma gaps of shape `b` (the burstiness) and rate `l`: `A(s) = (1 + s / (b l))^(-b)`.
//!
//! Sources: Kleinrock (1975), section 6.4.

use super::{Offered, QueueError, Tails, check_level};

/// One server with exponential service, and gamma arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GammaM1 {
    offered: Offered,
    sigma: f64,
}

impl GammaM1 {
    /// `rate` arrivals a second with gamma gaps of shape `burstiness` (1 is Poisson, below 1 is burstier; the squared
    /// coefficient of variation is its reciprocal), `service` seconds of mean service time.
    ///
    /// # Errors
    /// As [`Offered::new`], and for a burstiness that is not positive and finite.
    pub fn new(rate: f64, service: f64, burstiness: f64) -> Result<Self, QueueError> {
        let offered = Offered::new(rate, service, 1)?;
        if !(burstiness > 0.0 && burstiness.is_finite()) {
            return Err(QueueError::NotPositive { what: "burstiness", value: burstiness });
        }
        let transform = |sigma: f64| {
            let s = (1.0 - sigma) / service;
            (-burstiness * (s / (burstiness * rate)).ln_1p()).exp()
        };
        // The transform is convex in sigma with a second fixed point at 1, so it is above the diagonal left of the root
        // and below it between the root and 1.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if transform(middle) > middle { low = middle } else { high = middle }
        }
        Ok(Self { offered, sigma: low })
    }

    /// Mean time in the system: S / (1 - sigma).
    #[must_use]
    pub fn mean_residence(&self) -> f64 {
        self.offered.service() / (1.0 - self.sigma)
    }

    fn decay(&self) -> f64 {
        (1.0 - self.sigma) / self.offered.service()
    }
}

impl Tails for GammaM1 {
    /// S sigma / (1 - sigma).
    fn mean_wait(&self) -> f64 {
        self.offered.service() * self.sigma / (1.0 - self.sigma)
    }

    /// sigma.
    fn p_wait(&self) -> f64 {
        self.sigma
    }

    /// sigma exp(-(1 - sigma) t / S).
    fn wait_tail(&self, t: f64) -> f64 {
        if t < 0.0 { 1.0 } else { self.sigma * (-self.decay() * t).exp() }
    }

    /// exp(-(1 - sigma) t / S).
    fn residence_tail(&self, t: f64) -> f64 {
        (-self.decay() * t.max(0.0)).exp()
    }

    /// S ln(sigma / (1 - p)) / (1 - sigma), and 0 up to p = 1 - sigma.
    fn wait_quantile(&self, level: f64) -> Result<f64, QueueError> {
        Ok(((self.sigma / (1.0 - check_level(level)?)).ln() / self.decay()).max(0.0))
    }

    /// S ln(1 / (1 - p)) / (1 - sigma).
    fn residence_quantile(&self, level: f64) -> Result<f64, QueueError> {
        Ok(-(-check_level(level)?).ln_1p() / self.decay())
    }
}

#[cfg(test)]
mod tests {
    use super::super::general::kingman;
    use super::super::markov::Mm1;
    use super::*;
    use proptest::prelude::*;

    /// Roots by scipy's brentq (`tests/golden/make_queueing.py`).
    #[test]
    fn the_share_that_waits() {
        let cases: Vec<(f64, f64, f64)> = crate::queueing::golden("gamma_m_1");
        for (rho, burstiness, sigma) in cases {
            let queue = GammaM1::new(rho, 1.0, burstiness).expect("drains");
            assert!((queue.p_wait() - sigma).abs() < 1e-11, "{rho} {burstiness}: {}", queue.p_wait());
        }
    }

    #[test]
    fn kingman_is_near_it_in_heavy_traffic() {
        for burstiness in [0.3, 3.0] {
            let exact = GammaM1::new(9.5, 0.1, burstiness).expect("drains").mean_wait();
            let approximate = kingman(9.5, 0.1, burstiness.recip(), 1.0).expect("drains");
            assert!((approximate / exact - 1.0).abs() < 0.05, "{burstiness}: {approximate} for {exact}");
        }
        assert!(GammaM1::new(9.0, 0.1, 0.0).is_err());
    }

    proptest! {
        #[test]
        fn a_burstiness_of_one_is_poisson(rho in 0.01..0.99_f64, level in 0.0..0.999_f64) {
            let (gamma, poisson) = (GammaM1::new(rho, 1.0, 1.0)?, Mm1::new(rho, 1.0)?);
            prop_assert!((gamma.p_wait() - rho).abs() < 1e-9);
            prop_assert!((gamma.residence_quantile(level)? / poisson.residence_quantile(level)?.max(1e-12) - 1.0).abs() < 1e-6 || level < 1e-6);
        }

        #[test]
        fn bursts_wait_longer(rho in 0.05..0.95_f64, b in 0.1..5.0_f64) {
            prop_assert!(GammaM1::new(rho, 1.0, b)?.mean_wait() > GammaM1::new(rho, 1.0, b * 1.1)?.mean_wait());
        }
    }
}
