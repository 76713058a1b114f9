//! Service laws: how long one request keeps a server busy.
//!
//! A law is given by its mean and its coefficient of variation; the service time of request `i` is drawn from element
//! `i` of a named stream, so that it depends on the seed and on `i` alone, whatever else a run does.
//!
//! Never reads a clock and never waits.

use goodput_core::rng::Stream;
use goodput_core::time::Nanos;
use thiserror::Error;

/// The law of service times around their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceLaw {
    /// Memoryless: the M in the middle of M/M/1.
    Exponential,
    /// Always the mean: the D of M/D/1.
    Deterministic,
    /// Lognormal with this coefficient of variation: a heavy tail.
    Lognormal {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Gamma with this coefficient of variation.
    Gamma {
        /// Standard deviation over mean.
        cv: f64,
    },
}

/// A service law that is none.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum LawError {
    /// A mean that takes no time.
    #[error("a service must take some time: give a mean above zero")]
    NoTime,
    /// A variation that is not one.
    #[error(
        "{0} is not a coefficient of variation here: it must be positive and finite (0 is the deterministic law)"
    )]
    Variation(f64),
}

impl ServiceLaw {
    /// Squared coefficient of variation: 1 for the exponential law, 0 for the deterministic one.
    #[must_use]
    pub fn squared_cv(self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Deterministic => 0.0,
            Self::Lognormal { cv } | Self::Gamma { cv } => cv * cv,
        }
    }

    /// The law's name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Deterministic => "deterministic",
            Self::Lognormal { .. } => "lognormal",
            Self::Gamma { .. } => "gamma",
        }
    }
}

/// Service times one by one.
#[derive(Debug, Clone, Copy)]
pub struct ServiceTimes {
    law: ServiceLaw,
    mean_s: f64,
    draws: Stream,
}

impl ServiceTimes {
    /// Times of this law and mean, drawn from `draws`.
    ///
    /// # Errors
    /// [`LawError`] for a mean of zero and a variation that is not positive and finite.
    pub fn new(law: ServiceLaw, mean: Nanos, draws: Stream) -> Result<Self, LawError> {
        if mean == Nanos::ZERO {
            return Err(LawError::NoTime);
        }
        match law {
            ServiceLaw::Lognormal { cv } | ServiceLaw::Gamma { cv } if !(cv > 0.0 && cv.is_finite()) => {
                Err(LawError::Variation(cv))
            }
            _ => Ok(Self { law, mean_s: mean.as_secs_f64(), draws }),
        }
    }

    /// How long request `index` is served.
    #[must_use]
    pub fn of(&self, index: u64) -> Nanos {
        let mut draw = self.draws.at(index);
        let relative = match self.law {
            ServiceLaw::Exponential => draw.exponential(),
            ServiceLaw::Deterministic => 1.0,
            ServiceLaw::Lognormal { cv } => {
                // The logarithm of the mean is that of the median plus half the variance of the logarithm.
                let variance = (cv * cv).ln_1p();
                (variance.sqrt() * draw.normal() - variance / 2.0).exp()
            }
            ServiceLaw::Gamma { cv } => draw.gamma((cv * cv).recip()),
        };
        Nanos::from_secs_f64(relative * self.mean_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::rng::Seed;

    const MEAN: Nanos = Nanos::from_millis(100);

    #[test]
    fn laws_have_their_mean_and_variation() {
        let laws = [
            ServiceLaw::Exponential,
            ServiceLaw::Deterministic,
            ServiceLaw::Lognormal { cv: 0.5 },
            ServiceLaw::Lognormal { cv: 1.0 },
            ServiceLaw::Gamma { cv: 0.5 },
            ServiceLaw::Gamma { cv: 2.0 },
        ];
        for law in laws {
            let times = ServiceTimes::new(law, MEAN, Seed(1).stream("service")).expect("a law");
            let n = 20_000;
            let values: Vec<f64> = (0..n).map(|i| times.of(i).as_secs_f64()).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
            assert!((mean / 0.1 - 1.0).abs() < 0.02, "{law:?}: {mean}");
            let squared = variance / (mean * mean);
            assert!(
                (squared - law.squared_cv()).abs() <= 0.1 * law.squared_cv() + 1e-12,
                "{law:?}: {squared}"
            );
        }
    }

    #[test]
    fn a_time_depends_on_the_seed_and_the_index_alone() {
        let times = |seed| ServiceTimes::new(ServiceLaw::Exponential, MEAN, Seed(seed).stream("service"));
        let (a, b) = (times(1).expect("a law"), times(2).expect("a law"));
        assert_eq!((a.of(7), a.of(3), a.of(7)), (a.of(7), a.of(3), a.of(7)));
        assert_ne!(a.of(7), b.of(7));
    }

    #[test]
    fn what_is_no_law_is_refused() {
        let new = |law, mean| ServiceTimes::new(law, mean, Seed(1).stream("service")).err();
        assert_eq!(new(ServiceLaw::Exponential, Nanos::ZERO), Some(LawError::NoTime));
        for cv in [0.0, -1.0, f64::INFINITY] {
            assert_eq!(new(ServiceLaw::Gamma { cv }, MEAN), Some(LawError::Variation(cv)));
            assert_eq!(new(ServiceLaw::Lognormal { cv }, MEAN), Some(LawError::Variation(cv)));
        }
    }
}
