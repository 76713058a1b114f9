//! M/M/1 and M/M/c: Poisson arrivals and exponential service, exact.
//!
//! Sources: Erlang (1917) for the probability of waiting; Kleinrock (1975), sections 3.2 and 3.5; Gross et al. (2008),
//! section 2.3, for the tails.

use super::{Offered, QueueError, Tails, check_level};

/// One server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mm1 {
    offered: Offered,
}

impl Mm1 {
    /// `rate` arrivals a second, `service` seconds of mean service time.
    ///
    /// # Errors
    /// As [`Offered::new`].
    pub fn new(rate: f64, service: f64) -> Result<Self, QueueError> {
        Offered::new(rate, service, 1).map(|offered| Self { offered })
    }

    /// Mean time in the system: S / (1 - rho).
    #[must_use]
    pub fn mean_residence(&self) -> f64 {
        self.offered.service() / (1.0 - self.offered.rho())
    }

    /// The rate at which waiting and residence fall off: (1 - rho) / S, per second.
    fn decay(&self) -> f64 {
        (1.0 - self.offered.rho()) / self.offered.service()
    }
}

impl Tails for Mm1 {
    /// S rho / (1 - rho).
    fn mean_wait(&self) -> f64 {
        self.offered.service() * self.offered.rho() / (1.0 - self.offered.rho())
    }

    /// rho.
    fn p_wait(&self) -> f64 {
        self.offered.rho()
    }

    /// rho exp(-(1 - rho) t / S).
    fn wait_tail(&self, t: f64) -> f64 {
        if t < 0.0 { 1.0 } else { self.offered.rho() * (-self.decay() * t).exp() }
    }

    /// exp(-(1 - rho) t / S).
    fn residence_tail(&self, t: f64) -> f64 {
        (-self.decay() * t.max(0.0)).exp()
    }

    /// S ln(rho / (1 - p)) / (1 - rho), and 0 up to p = 1 - rho. At p = 0.99 this is S ln(100 rho) / (1 - rho).
    fn wait_quantile(&self, level: f64) -> Result<f64, QueueError> {
        Ok(((self.offered.rho() / (1.0 - check_level(level)?)).ln() / self.decay()).max(0.0))
    }

    /// S ln(1 / (1 - p)) / (1 - rho).
    fn residence_quantile(&self, level: f64) -> Result<f64, QueueError> {
        Ok(-(-check_level(level)?).ln_1p() / self.decay())
    }
}

/// Erlang C: the probability that all of `servers` are busy when `erlangs` of traffic are offered, by the recursion of
/// Erlang B, which neither overflows nor cancels. At or above `servers` erlangs everybody waits: 1.
#[must_use]
pub fn erlang_c(servers: u32, erlangs: f64) -> f64 {
    let rho = erlangs / f64::from(servers);
    if rho >= 1.0 {
        return 1.0;
    }
    let blocked = (1..=servers).fold(1.0, |b, k| erlangs * b / (f64::from(k) + erlangs * b));
    blocked / (1.0 - rho * (1.0 - blocked))
}

/// Several servers behind one queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mmc {
    offered: Offered,
    p_wait: f64,
}

impl Mmc {
    /// `rate` arrivals a second, `service` seconds of mean service time, `servers` servers.
    ///
    /// # Errors
    /// As [`Offered::new`].
    pub fn new(rate: f64, service: f64, servers: u32) -> Result<Self, QueueError> {
        let offered = Offered::new(rate, service, servers)?;
        Ok(Self { offered, p_wait: erlang_c(servers, offered.erlangs()) })
    }

    /// Mean time in the system: waiting and service.
    #[must_use]
    pub fn mean_residence(&self) -> f64 {
        self.mean_wait() + self.offered.service()
    }

    /// The rate at which waiting falls off: c (1 - rho) / S, per second.
    fn decay(&self) -> f64 {
        f64::from(self.offered.servers()) * (1.0 - self.offered.rho()) / self.offered.service()
    }
}

impl Tails for Mmc {
    /// C S / (c (1 - rho)) with Erlang's C.
    fn mean_wait(&self) -> f64 {
        self.p_wait / self.decay()
    }

    /// Erlang's C.
    fn p_wait(&self) -> f64 {
        self.p_wait
    }

    /// C exp(-c (1 - rho) t / S).
    fn wait_tail(&self, t: f64) -> f64 {
        if t < 0.0 { 1.0 } else { self.p_wait * (-self.decay() * t).exp() }
    }

    /// Waiting is 0 with probability 1 - C, else exponential with rate `a = c (1 - rho) / S`; service is exponential with
    /// rate `b = 1 / S` and independent of it. Their sum exceeds t with probability
    /// (1 - C) e^(-bt) + C (b e^(-at) - a e^(-bt)) / (b - a), where a = b: C (1 + bt) e^(-bt).
    fn residence_tail(&self, t: f64) -> f64 {
        let t = t.max(0.0);
        let (a, b) = (self.decay(), self.offered.service().recip());
        let served = (-b * t).exp();
        // (e^(-at) - e^(-bt)) / (b - a), in forms that neither cancel where a is near b nor leave the range of a double.
        let x = (b - a) * t;
        let between = match x {
            _ if x.abs() < 1e-9 => t * served,
            _ if x > 0.0 => (-a * t).exp() * -(-x).exp_m1() / (b - a),
            _ => served * x.exp_m1() / (b - a),
        };
        self.p_wait * (served + b * between) + (1.0 - self.p_wait) * served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Milliseconds to one decimal, as the literature gives them.
    #[track_caller]
    fn near_ms(seconds: f64, ms: f64) {
        assert!((seconds * 1e3 - ms).abs() < 0.05, "{} ms, expected {ms}", seconds * 1e3);
    }

    #[test]
    fn p99_of_one_server_at_five_loads() {
        // Load, p99 of the residence, and p99 of the wait plus one service: an approximation of it.
        let oracles = [
            (0.5, 921.0, 882.4),
            (0.7, 1_535.1, 1_516.2),
            (0.8, 2_302.6, 2_291.0),
            (0.9, 4_605.2, 4_599.8),
            (0.95, 9_210.3, 9_207.8),
        ];
        for (rho, residence, wait_plus_service) in oracles {
            let queue = Mm1::new(rho / 0.1, 0.1).expect("drains");
            near_ms(queue.residence_quantile(0.99).expect("a level"), residence);
            near_ms(queue.wait_quantile(0.99).expect("a level") + 0.1, wait_plus_service);
        }
    }

    #[test]
    fn what_a_faster_kernel_and_one_more_replica_give() {
        for (rate, service, approximate, exact) in [(9.0, 0.08, 1_301.9, 1_315.8), (4.5, 0.1, 792.1, 837.3)] {
            let queue = Mm1::new(rate, service).expect("drains");
            near_ms(queue.wait_quantile(0.99).expect("a level") + service, approximate);
            near_ms(queue.residence_quantile(0.99).expect("a level"), exact);
        }
    }

    #[test]
    fn goodput_of_one_server_under_a_limit() {
        let within = 1.0 - Mm1::new(9.5, 0.1).expect("drains").residence_tail(0.9);
        assert!((within - 0.362_372).abs() < 5e-7, "{within}");
        assert!((9.5 * within - 3.442_533).abs() < 5e-6, "{}", 9.5 * within);
    }

    #[test]
    fn erlangs_c() {
        assert!((erlang_c(2, 1.8) - 0.852_632).abs() < 5e-7, "{}", erlang_c(2, 1.8));
        assert!((erlang_c(10, 9.0) - 0.668_732).abs() < 5e-7, "{}", erlang_c(10, 9.0));
        assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-15);
        assert_eq!(erlang_c(3, 3.0), 1.0);
        assert!(erlang_c(2_000, 1_900.0).is_finite());
    }

    #[test]
    fn residence_where_waiting_falls_off_as_service_does() {
        // Two servers at rho = 1/2: a = b.
        let queue = Mmc::new(10.0, 0.1, 2).expect("drains");
        let c = queue.p_wait();
        let expected = (1.0 - c) * (-2.0_f64).exp() + c * 3.0 * (-2.0_f64).exp();
        assert!((queue.residence_tail(0.2) - expected).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn one_server_is_a_case_of_many(rho in 0.01..0.99_f64, service in 1e-3..10.0_f64, t in 0.0..200.0_f64) {
            let (one, many) = (Mm1::new(rho / service, service)?, Mmc::new(rho / service, service, 1)?);
            let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
            prop_assert!(same(one.mean_wait(), many.mean_wait()));
            prop_assert!(same(one.mean_residence(), many.mean_residence()));
            prop_assert!(same(one.wait_tail(t), many.wait_tail(t)));
            prop_assert!(same(one.residence_tail(t), many.residence_tail(t)));
            prop_assert!(same(one.residence_quantile(0.99)?, many.residence_quantile(0.99)?));
        }

        /// The mean is the area under the tail.
        #[test]
        fn means_are_areas_under_tails(rho in 0.05..0.9_f64, servers in 1_u32..20) {
            let queue = Mmc::new(rho * f64::from(servers), 1.0, servers)?;
            let step = 0.01;
            let area = |tail: &dyn Fn(f64) -> f64| (0..40_000).map(|i| tail((f64::from(i) + 0.5) * step)).sum::<f64>() * step;
            prop_assert!((area(&|t| queue.wait_tail(t)) - queue.mean_wait()).abs() < 1e-3);
            prop_assert!((area(&|t| queue.residence_tail(t)) - queue.mean_residence()).abs() < 1e-3);
        }
    }
}
