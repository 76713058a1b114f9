//! Mean waits of queues whose laws are known by their variation only: exact for Poisson arrivals at one server,
//! approximate for all others.
//!
//! **A mean only.** None of these says anything of a tail, and a percentile must not be derived from them.
//!
//! Sources: Pollaczek (1930) and Khinchine (1932) for M/G/1; Kingman, "The single server queue in heavy traffic", Proc.
//! Cambridge Phil. Soc. 57 (1961), in the form of Hopp and Spearman, Factory Physics, section 8.6; Allen, Probability,
//! Statistics and Queueing Theory (1978), section 5.5, for Allen and Cunneen's.

use super::markov::erlang_c;
use super::{Offered, QueueError};

/// M/G/1, exact (Pollaczek-Khinchine): rho S (1 + Cs2) / (2 (1 - rho)), in seconds. `squared_cv` is that of the service
/// times.
///
/// # Errors
/// As [`Offered::new`], with one server, and for a variation that is none.
pub fn pollaczek_khinchine(rate: f64, service: f64, squared_cv: f64) -> Result<f64, QueueError> {
    let (offered, cs2) = (Offered::new(rate, service, 1)?, variation(squared_cv)?);
    Ok(offered.rho() * service * (1.0 + cs2) / (2.0 * (1.0 - offered.rho())))
}

/// G/G/1, Kingman's approximation of the **mean** wait: rho / (1 - rho) (Ca2 + Cs2) / 2 S, in seconds. Exact for Poisson
/// arrivals, good near saturation, and up to about 30 % too high for bursty arrivals at low loads. It is no bound of a
/// tail.
///
/// # Errors
/// As [`Offered::new`], with one server, and for variations that are none.
pub fn kingman(rate: f64, service: f64, arrivals_cv2: f64, service_cv2: f64) -> Result<f64, QueueError> {
    allen_cunneen(rate, service, 1, arrivals_cv2, service_cv2)
}

/// G/G/c, Allen and Cunneen's approximation of the **mean** wait: that of M/M/c times (Ca2 + Cs2) / 2, in seconds. With
/// one server it is Kingman's, with both variations 1 it is exact.
///
/// # Errors
/// As [`Offered::new`], and for variations that are none.
pub fn allen_cunneen(
    rate: f64,
    service: f64,
    servers: u32,
    arrivals_cv2: f64,
    service_cv2: f64,
) -> Result<f64, QueueError> {
    let offered = Offered::new(rate, service, servers)?;
    let variability = f64::midpoint(variation(arrivals_cv2)?, variation(service_cv2)?);
    let spare = f64::from(servers) * (1.0 - offered.rho());
    Ok(erlang_c(servers, offered.erlangs()) * service / spare * variability)
}

fn variation(squared_cv: f64) -> Result<f64, QueueError> {
    if squared_cv >= 0.0 && squared_cv.is_finite() {
        Ok(squared_cv)
    } else {
        Err(QueueError::Variation { value: squared_cv })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tails;
    use super::super::markov::{Mm1, Mmc};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_textbook_cases() {
        let kingman = kingman(9.0, 0.1, 1.0, 4.0).expect("drains");
        assert!((kingman - 2.25).abs() < 1e-12, "{kingman}");
        // Constant service halves the wait of exponential service.
        let constant = pollaczek_khinchine(9.0, 0.1, 0.0).expect("drains");
        assert!((constant - 0.45).abs() < 1e-12, "{constant}");
        let regression = pollaczek_khinchine(9.0, 0.12, 0.0).expect_err("rho above 1");
        assert_eq!(regression.to_string(), "rho = 1.08: arrivals outrun service, the queue never drains");
        let error = pollaczek_khinchine(9.0, 0.1, -1.0).expect_err("no variation");
        assert_eq!(error, QueueError::Variation { value: -1.0 });
    }

    proptest! {
        #[test]
        fn the_general_forms_hold_the_special_ones(rho in 0.01..0.99_f64, cs2 in 0.0..9.0_f64, servers in 1_u32..30) {
            let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1e-12);
            prop_assert!(same(pollaczek_khinchine(rho, 1.0, 1.0)?, Mm1::new(rho, 1.0)?.mean_wait()));
            prop_assert!(same(kingman(rho, 1.0, 1.0, cs2)?, pollaczek_khinchine(rho, 1.0, cs2)?));
            let rate = rho * f64::from(servers);
            prop_assert!(same(allen_cunneen(rate, 1.0, servers, 1.0, 1.0)?, Mmc::new(rate, 1.0, servers)?.mean_wait()));
        }
    }
}
