//! M/D/1: Poisson arrivals and constant service, exact in every tail.
//!
//! The textbook's sum for the waiting time alternates in sign and loses all digits beyond a few service times. Franx'
//! form has positive terms only: for (k - 1) S <= t < k S, with u = rate (k S - t) and Q_m = P(at most m wait),
//!
//! P(W <= t) = e^(-u) * sum over j = 0 .. k-1 of Q_(k-1-j) u^j / j!
//!
//! and so P(W > t) is the same sum over 1 - Q, and the probability of k or more arrivals in u.
//!
//! The number in the system after a departure (and, for Poisson arrivals, at any time) follows from balancing the steps
//! down from n+1 with those up over n, which has positive terms as well: with A the arrivals during a service,
//! p_(n+1) P(A = 0) = p_0 P(A > n) + sum over k = 1 .. n of p_k P(A > n + 1 - k).
//!
//! Sources: Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29 (2001);
//! Kleinrock (1975), section 5.6, for the embedded chain.

use super::general::pollaczek_khinchine;
use super::{Offered, QueueError, Tails};

/// States rarer than this carry no weight in any probability that is asked for.
const NEGLIGIBLE: f64 = 1e-20;
/// Beyond so many states, which only loads from 0.999,98 up have, the rest counts as nothing.
const MOST_STATES: usize = 1 << 20;

/// One server with constant service.
#[derive(Debug, Clone, PartialEq)]
pub struct Md1 {
    offered: Offered,
    mean_wait: f64,
    /// P(more than n in the system).
    more_than: Vec<f64>,
}

impl Md1 {
    /// `rate` arrivals a second, each served for `service` seconds.
    ///
    /// # Errors
    /// As [`Offered::new`].
    pub fn new(rate: f64, service: f64) -> Result<Self, QueueError> {
        let offered = Offered::new(rate, service, 1)?;
        let mean_wait = pollaczek_khinchine(rate, service, 0.0)?;
        Ok(Self { offered, mean_wait, more_than: beyond(&states(offered.rho())) })
    }

    /// Mean time in the system: waiting and service.
    #[must_use]
    pub fn mean_residence(&self) -> f64 {
        self.mean_wait + self.offered.service()
    }
}

impl Tails for Md1 {
    /// rho S / (2 (1 - rho)).
    fn mean_wait(&self) -> f64 {
        self.mean_wait
    }

    /// rho.
    fn p_wait(&self) -> f64 {
        self.offered.rho()
    }

    fn wait_tail(&self, t: f64) -> f64 {
        if t < 0.0 {
            return 1.0;
        }
        let service = self.offered.service();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of service times"
        )]
        let k = (t / service).floor() as usize + 1;
        // Between 0 and rho, so that few terms count.
        let u = self.offered.rate() * (k as f64 * service - t);
        let arrivals = poisson(u);
        let more_than = |n: usize| self.more_than.get(n).copied().unwrap_or(0.0);
        let few: f64 = arrivals.iter().take(k).enumerate().map(|(j, p)| p * more_than(k - j)).sum();
        let many: f64 = arrivals.iter().skip(k).sum();
        few + many
    }

    /// Everybody is served for the same time: that of the wait, so much earlier.
    fn residence_tail(&self, t: f64) -> f64 {
        self.wait_tail(t - self.offered.service())
    }
}

/// P(n in the system), until it is negligible.
fn states(rho: f64) -> Vec<f64> {
    let arrivals_beyond = beyond(&poisson(rho));
    let more = |n: usize| arrivals_beyond.get(n).copied().unwrap_or(0.0);
    let mut states = vec![1.0 - rho];
    while states.len() < MOST_STATES && (states.len() == 1 || states[states.len() - 1] > NEGLIGIBLE) {
        let last = states.len() - 1;
        let near = (last + 1).saturating_sub(arrivals_beyond.len()).max(1);
        let up: f64 = (near..=last).map(|k| states[k] * more(last + 1 - k)).sum();
        states.push((states[0] * more(last) + up) * rho.exp());
    }
    states
}

/// P(n) of a Poisson count with this mean, which is at most 1, until there is nothing left.
fn poisson(mean: f64) -> Vec<f64> {
    let mut exactly = vec![(-mean).exp()];
    while let Some(last) = exactly.last().copied().filter(|last| *last > f64::MIN_POSITIVE) {
        exactly.push(last * mean / exactly.len() as f64);
    }
    exactly
}

/// P(more than n), summed from the small end.
fn beyond(exactly: &[f64]) -> Vec<f64> {
    let mut beyond = vec![0.0; exactly.len()];
    for n in (1..exactly.len()).rev() {
        beyond[n - 1] = beyond[n] + exactly[n];
    }
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The alternating sum in exact arithmetic (`tests/golden/make_queueing.py`).
    #[test]
    fn the_textbooks_sum() {
        let cases: Vec<(f64, f64, f64)> = crate::queueing::golden("m_d_1_wait_tail");
        for (rho, t, tail) in cases {
            let found = Md1::new(rho, 1.0).expect("drains").wait_tail(t);
            assert!((found - tail).abs() < 1e-13, "{rho} {t}: {found}, expected {tail}");
        }
    }

    #[test]
    fn nobody_waits_with_an_empty_server() {
        let queue = Md1::new(7.0, 0.1).expect("drains");
        assert!((queue.wait_tail(0.0) - 0.7).abs() < 1e-15);
        assert!((queue.residence_tail(0.1) - 0.7).abs() < 1e-15);
        assert_eq!((queue.residence_tail(0.099), queue.wait_tail(-1.0)), (1.0, 1.0));
        assert_eq!(queue.wait_quantile(0.29), Ok(0.0));
    }

    #[test]
    fn the_mean_is_the_area_under_the_tail() {
        for rho in [0.3, 0.8, 0.95] {
            let queue = Md1::new(rho, 1.0).expect("drains");
            let step = 0.02;
            let area = (0..15_000).map(|i| queue.wait_tail((f64::from(i) + 0.5) * step)).sum::<f64>() * step;
            assert!((area / queue.mean_wait() - 1.0).abs() < 1e-3, "{rho}: {area} for {}", queue.mean_wait());
        }
    }

    #[test]
    fn far_tails_fall_off_at_one_rate() {
        // Beyond a few service times the tail is geometric in them; the sum that alternates has no digit left here.
        let queue = Md1::new(0.95, 1.0).expect("drains");
        let ratio = |t: f64| queue.wait_tail(t + 1.0) / queue.wait_tail(t);
        assert!(
            (ratio(60.0) - ratio(90.0)).abs() < 1e-9 && queue.wait_tail(90.0) > 0.0,
            "{} {}",
            ratio(60.0),
            ratio(90.0)
        );
    }
}
