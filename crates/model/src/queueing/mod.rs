//! Queueing theory: what waiting should look like, and the queue it is checked on.
//!
//! A queue is named arrivals / service / servers (Kendall): M is memoryless (Poisson arrivals, exponential service), D
//! constant, G any law. `rate` is the arrival rate per second, `service` the mean service time in seconds, and the load
//! is `rho = rate * service / servers`. All times are in seconds. First come, first served; nobody gives up.
//!
//! | | exact | module |
//! | --- | --- | --- |
//! | M/M/1, M/M/c | every tail | [`markov`] |
//! | G/M/1 with gamma arrivals | every tail | [`renewal`] |
//! | M/D/1 | every tail | [`constant`] |
//! | M/G/1 | the mean (Pollaczek-Khinchine) | [`general`] |
//! | G/G/1, G/G/c | no: Kingman, Allen-Cunneen approximate the **mean** | [`general`] |
//!
//! From `rho = 1` on there is no steady state: the answer is [`QueueError::NeverDrains`], not a number. [`station`] is
//! the queue itself, in exact integer time.
//!
//! None of this is a model of a batching engine, whose service time depends on who else is served; it is what the chain
//! from driver to statistics is held against.
//!
//! Sources: Kleinrock, Queueing Systems, volume 1 (1975); Gross, Shortle, Thompson and Harris, Fundamentals of Queueing
//! Theory (4th ed. 2008); the modules name what they add.

pub mod constant;
pub mod general;
pub mod markov;
pub mod renewal;
pub mod station;

use thiserror::Error;

/// A question to which there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum QueueError {
    /// At least as much arrives as can be served.
    #[error("rho = {rho}: arrivals outrun service, the queue never drains")]
    NeverDrains {
        /// rate * service / servers.
        rho: f64,
    },
    /// A quantity that has to be positive.
    #[error("{value} is no {what}: it must be positive and finite")]
    NotPositive {
        /// Which quantity.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A squared variation below zero or without bound.
    #[error("{value} is no squared coefficient of variation: it must be finite and not below zero")]
    Variation {
        /// What was given.
        value: f64,
    },
    /// Nobody serves.
    #[error("a queue needs at least one server")]
    NoServer,
    /// A level that no quantile has.
    #[error("{0} is no level of a quantile: it must be at least 0 and below 1")]
    Level(f64),
}

/// Arrivals and servers of a queue that drains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offered {
    rate: f64,
    service: f64,
    servers: u32,
}

impl Offered {
    /// `rate` arrivals a second, each served for `service` seconds on average, by `servers` servers.
    ///
    /// # Errors
    /// [`QueueError`] if a quantity is not positive and finite, nobody serves, or the load is 1 or more.
    pub fn new(rate: f64, service: f64, servers: u32) -> Result<Self, QueueError> {
        for (what, value) in [("arrival rate", rate), ("service time", service)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(QueueError::NotPositive { what, value });
            }
        }
        if servers == 0 {
            return Err(QueueError::NoServer);
        }
        let offered = Self { rate, service, servers };
        let rho = offered.rho();
        if rho >= 1.0 { Err(QueueError::NeverDrains { rho }) } else { Ok(offered) }
    }

    /// Arrivals per second.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Mean service time in seconds.
    #[must_use]
    pub const fn service(&self) -> f64 {
        self.service
    }

    /// Number of servers.
    #[must_use]
    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// The share of time for which a server is busy, in (0, 1).
    #[must_use]
    pub fn rho(&self) -> f64 {
        self.erlangs() / f64::from(self.servers)
    }

    /// Offered traffic, the mean number of busy servers: rate * service.
    #[must_use]
    pub fn erlangs(&self) -> f64 {
        self.rate * self.service
    }
}

/// What theory can say of a queue beyond its mean: every tail of waiting and residence.
pub trait Tails {
    /// The mean time before service begins, in seconds.
    fn mean_wait(&self) -> f64;

    /// P(an arrival has to wait).
    fn p_wait(&self) -> f64;

    /// P(W > t): the share that waits for more than `t` seconds; 1 below zero.
    fn wait_tail(&self, t: f64) -> f64;

    /// P(T > t): the share that is in the system for more than `t` seconds; 1 below zero.
    fn residence_tail(&self, t: f64) -> f64;

    /// The time within which a share `level` begins to be served, in seconds; 0 where that many do not wait.
    ///
    /// # Errors
    /// [`QueueError::Level`] outside of [0, 1).
    fn wait_quantile(&self, level: f64) -> Result<f64, QueueError> {
        quantile(level, |t| self.wait_tail(t))
    }

    /// The time within which a share `level` has left, in seconds.
    ///
    /// # Errors
    /// [`QueueError::Level`] outside of [0, 1).
    fn residence_quantile(&self, level: f64) -> Result<f64, QueueError> {
        quantile(level, |t| self.residence_tail(t))
    }
}

/// Refuses what is no level.
fn check_level(level: f64) -> Result<f64, QueueError> {
    if (0.0..1.0).contains(&level) { Ok(level) } else { Err(QueueError::Level(level)) }
}

/// The least `t` from zero with `tail(t) <= 1 - level`, by bisection to the last bit that matters (1e-15 of it).
fn quantile(level: f64, tail: impl Fn(f64) -> f64) -> Result<f64, QueueError> {
    let beyond = 1.0 - check_level(level)?;
    if tail(0.0) <= beyond {
        return Ok(0.0);
    }
    let mut high = 1e-9;
    while tail(high) > beyond {
        high *= 2.0;
    }
    let mut low = high / 2.0;
    for _ in 0..60 {
        let middle = low.midpoint(high);
        if tail(middle) > beyond { low = middle } else { high = middle }
    }
    Ok(high)
}

/// A part of the reference values that `tests/golden/make_queueing.py` made.
#[cfg(test)]
pub(crate) fn golden<T: serde::de::DeserializeOwned>(part: &str) -> T {
    let mut parts: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/golden/queueing.json")).expect("JSON");
    serde_json::from_value(parts[part].take()).expect("the part is of this type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_drains_has_no_number() {
        let error = Offered::new(10.8, 0.1, 1).expect_err("a regression of 20 % at 9 requests/s");
        assert_eq!(error.to_string(), "rho = 1.08: arrivals outrun service, the queue never drains");
        assert!(matches!(Offered::new(10.0, 0.1, 1), Err(QueueError::NeverDrains { rho: 1.0 })));
        assert!(Offered::new(10.8, 0.1, 2).is_ok());
    }

    #[test]
    fn what_is_no_queue_is_refused() {
        let error =
            |rate, service, servers| Offered::new(rate, service, servers).expect_err("no queue").to_string();
        assert_eq!(error(0.0, 0.1, 1), "0 is no arrival rate: it must be positive and finite");
        assert_eq!(error(9.0, f64::INFINITY, 1), "inf is no service time: it must be positive and finite");
        assert_eq!(error(9.0, 0.1, 0), "a queue needs at least one server");
    }

    #[test]
    fn quantiles_of_a_tail() {
        let found = quantile(0.99, |t| (-t).exp()).expect("a level");
        assert!((found - 100.0_f64.ln()).abs() < 1e-12, "{found}");
        assert_eq!(quantile(0.2, |t| 0.5 * (-t).exp()), Ok(0.0), "half of them do not wait");
        assert_eq!(quantile(1.0, |t| (-t).exp()), Err(QueueError::Level(1.0)));
    }
}
