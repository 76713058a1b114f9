//! What theory says of the queue that was asked for: the exact law where there is one, else the mean alone.

use super::Queue;
use goodput_core::metric::Metric;
use goodput_core::slo::{Slo, Target};
use goodput_model::laws::ServiceLaw;
use goodput_model::queueing::constant::Md1;
use goodput_model::queueing::general::{allen_cunneen, pollaczek_khinchine};
use goodput_model::queueing::markov::{Mm1, Mmc};
use goodput_model::queueing::renewal::GammaM1;
use goodput_model::queueing::{Offered, QueueError, Tails};

/// The figures of theory, in seconds and shares; `None` where there is no formula.
#[derive(Debug)]
pub(super) struct Theory {
    pub(super) rho: f64,
    /// Kendall's notation.
    pub(super) notation: String,
    pub(super) mean_wait: Option<f64>,
    /// Where the exact figures come from.
    pub(super) source: &'static str,
    pub(super) p_wait: Option<f64>,
    pub(super) p50_residence: Option<f64>,
    pub(super) p99_residence: Option<f64>,
    /// Share within the limit of an SLO of one per-request objective on the wait or the residence.
    pub(super) attainment: Option<f64>,
    /// An approximation of the mean wait, where the exact figure is something else or not known.
    pub(super) approximate_mean_wait: Option<(&'static str, f64)>,
}

impl Theory {
    /// Theory of `queue`.
    ///
    /// # Errors
    /// [`QueueError`] for a queue that never drains, and for what is no queue.
    pub(super) fn of(queue: &Queue, slo: Option<&Slo>) -> Result<Self, QueueError> {
        let (rate, service) = (queue.rate, queue.service.as_secs_f64());
        let offered = Offered::new(rate, service, queue.servers)?;
        let poisson = queue.burstiness == 1.0;
        let squared_cv = queue.law.squared_cv();
        let exact = Exact::of(queue)?;
        let tails = exact.as_ref().map(|exact| exact.tails.as_ref());
        let (mean_wait, source) = match &exact {
            Some(exact) => (Some(exact.tails.mean_wait()), exact.source),
            None if poisson && queue.servers == 1 => {
                (Some(pollaczek_khinchine(rate, service, squared_cv)?), "Pollaczek-Khinchine")
            }
            None => (None, "no exact formula"),
        };
        let quantile = |level| tails.map(|tails| tails.residence_quantile(level)).transpose();
        let arrivals_cv2 = queue.burstiness.recip();
        let approximate = if poisson {
            None
        } else {
            let name = if queue.servers == 1 { "Kingman" } else { "Allen-Cunneen" };
            Some((name, allen_cunneen(rate, service, queue.servers, arrivals_cv2, squared_cv)?))
        };
        Ok(Self {
            rho: offered.rho(),
            notation: notation(queue),
            mean_wait,
            source,
            p_wait: tails
                .map(Tails::p_wait)
                // Poisson arrivals see time averages: one server is busy for a share rho of them.
                .or((poisson && queue.servers == 1).then(|| offered.rho())),
            p50_residence: quantile(0.5)?,
            p99_residence: quantile(0.99)?,
            attainment: tails.zip(slo).and_then(|(tails, slo)| attainment(tails, slo)),
            approximate_mean_wait: approximate,
        })
    }
}

/// A law of which every tail is known, and its name.
struct Exact {
    tails: Box<dyn Tails>,
    source: &'static str,
}

impl Exact {
    fn of(queue: &Queue) -> Result<Option<Self>, QueueError> {
        let (rate, service) = (queue.rate, queue.service.as_secs_f64());
        let poisson = queue.burstiness == 1.0;
        let (tails, source): (Box<dyn Tails>, _) = match (queue.law, queue.servers) {
            (ServiceLaw::Exponential, 1) if poisson => (Box::new(Mm1::new(rate, service)?), "M/M/1"),
            (ServiceLaw::Exponential, c) if poisson => (Box::new(Mmc::new(rate, service, c)?), "Erlang C"),
            (ServiceLaw::Exponential, 1) => {
                (Box::new(GammaM1::new(rate, service, queue.burstiness)?), "G/M/1")
            }
            (ServiceLaw::Deterministic, 1) if poisson => {
                (Box::new(Md1::new(rate, service)?), "Pollaczek-Khinchine, Franx")
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { tails, source }))
    }
}

/// Kendall's notation, with gamma arrivals as G.
fn notation(queue: &Queue) -> String {
    let arrivals = if queue.burstiness == 1.0 { "M" } else { "G" };
    let service = match queue.law {
        ServiceLaw::Exponential => "M",
        ServiceLaw::Deterministic => "D",
        ServiceLaw::Lognormal { .. } | ServiceLaw::Gamma { .. } => "G",
    };
    format!("{arrivals}/{service}/{}", queue.servers)
}

/// The metric and the limit, in seconds, of an SLO that is one per-request objective on the wait or the residence: what
/// theory can speak of.
pub(super) fn one_limit(slo: &Slo) -> Option<(Metric, f64)> {
    let [objective] = slo.objectives.as_slice() else { return None };
    let known =
        matches!(objective.metric, Metric::E2e | Metric::Ttft) && objective.target == Target::PerRequest;
    known.then_some((objective.metric, objective.limit / 1e3))
}

fn attainment(tails: &dyn Tails, slo: &Slo) -> Option<f64> {
    let (metric, limit) = one_limit(slo)?;
    let beyond = if metric == Metric::E2e { tails.residence_tail(limit) } else { tails.wait_tail(limit) };
    Some(1.0 - beyond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::rng::Seed;
    use goodput_core::time::Nanos;

    fn theory(law: ServiceLaw, rate: f64, servers: u32, burstiness: f64) -> Result<Theory, QueueError> {
        let slo = Slo::parse("e2e:900ms").expect("an SLO");
        let (service, seed) = (Nanos::from_millis(100), Seed(0));
        Theory::of(
            &Queue { law, service, rate, servers, burstiness, requests: 1, warmup: 0, seed },
            Some(&slo),
        )
    }

    #[test]
    fn each_law_with_what_is_known_of_it() {
        let mm1 = theory(ServiceLaw::Exponential, 9.5, 1, 1.0).expect("drains");
        assert_eq!((mm1.notation.as_str(), mm1.source, mm1.approximate_mean_wait), ("M/M/1", "M/M/1", None));
        assert!((mm1.attainment.expect("one limit") - 0.362_372).abs() < 5e-7);
        let mmc = theory(ServiceLaw::Exponential, 18.0, 2, 1.0).expect("drains");
        assert!((mmc.p_wait.expect("Erlang C") - 0.852_632).abs() < 5e-7);
        let md1 = theory(ServiceLaw::Deterministic, 9.0, 1, 1.0).expect("drains");
        assert!((md1.mean_wait.expect("exact") - 0.45).abs() < 1e-12 && md1.p99_residence.is_some());
        let mg1 = theory(ServiceLaw::Gamma { cv: 2.0 }, 9.0, 1, 1.0).expect("drains");
        assert!((mg1.mean_wait.expect("exact") - 2.25).abs() < 1e-12);
        assert_eq!((mg1.p_wait, mg1.p99_residence, mg1.attainment), (Some(0.9), None, None));
        let gm1 = theory(ServiceLaw::Exponential, 9.0, 1, 0.3).expect("drains");
        assert_eq!((gm1.notation.as_str(), gm1.source), ("G/M/1", "G/M/1"));
        let (name, approximate) = gm1.approximate_mean_wait.expect("bursty");
        assert!(name == "Kingman" && (approximate / gm1.mean_wait.expect("exact") - 1.0).abs() < 0.1);
        let ggc = theory(ServiceLaw::Exponential, 18.0, 2, 3.0).expect("drains");
        assert_eq!((ggc.mean_wait, ggc.source, ggc.p_wait), (None, "no exact formula", None));
        assert_eq!(ggc.approximate_mean_wait.map(|(name, _)| name), Some("Allen-Cunneen"));
    }

    #[test]
    fn a_queue_that_never_drains_has_no_theory() {
        let error = theory(ServiceLaw::Exponential, 10.8, 1, 1.0).expect_err("rho above 1").to_string();
        assert_eq!(error, "rho = 1.08: arrivals outrun service, the queue never drains");
    }
}
