//! Runs a queue in virtual time and gathers what the client saw of it.

use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::plan::{Arrivals, GapLaw, Protocol, RateProfile, Stop};
use goodput_core::rng::Seed;
use goodput_core::schedule::Schedule;
use goodput_core::slo::Slo;
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::summary::Summary;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_drive::queue_server::QueueRun;
use goodput_model::laws::ServiceLaw;
use goodput_stats::{Method, quantile};
use goodput_workload::arrival::Measured;
use serde::Deserialize;

/// Mean service time in seconds, of every case.
pub(crate) const SERVICE_S: f64 = 0.1;
/// Where the limit of a request's time in the system is set, in seconds.
const LIMIT_S: f64 = 0.9;

/// A queue, and the least and largest figure of 500 runs of it by another program.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) rate: f64,
    law: String,
    pub(crate) cv: f64,
    pub(crate) servers: u32,
    pub(crate) burstiness: f64,
    requests: u64,
    mean_wait: [f64; 2],
    p_wait: [f64; 2],
    mean_residence: [f64; 2],
    p99_residence: [f64; 2],
    within_900ms: [f64; 2],
}

/// The same figures of one run, or by theory, in seconds and shares; NaN where theory has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    pub(crate) mean_wait: f64,
    pub(crate) p_wait: f64,
    pub(crate) mean_residence: f64,
    pub(crate) p99_residence: f64,
    pub(crate) within_limit: f64,
}

impl Case {
    /// The case of this name.
    pub(crate) fn named(name: &str) -> Self {
        let cases: Vec<Self> = serde_json::from_str(include_str!("golden/bands.json")).unwrap();
        cases.into_iter().find(|case| case.name == name).unwrap()
    }

    /// What is in these figures lies in the bands.
    #[track_caller]
    pub(crate) fn holds(&self, figures: &Figures, whose: &str) {
        let pairs = [
            ("mean wait", self.mean_wait, figures.mean_wait),
            ("share that waits", self.p_wait, figures.p_wait),
            ("mean residence", self.mean_residence, figures.mean_residence),
            ("p99 residence", self.p99_residence, figures.p99_residence),
            ("share within the limit", self.within_900ms, figures.within_limit),
        ];
        for (what, [least, most], value) in pairs.into_iter().filter(|(.., value)| !value.is_nan()) {
            let inside = least - 1e-9 <= value && value <= most + 1e-9;
            assert!(inside, "{}: {what} {whose} is {value}, outside of {least} to {most}", self.name);
        }
    }

    fn service_law(&self) -> ServiceLaw {
        match self.law.as_str() {
            "exponential" => ServiceLaw::Exponential,
            "deterministic" => ServiceLaw::Deterministic,
            "lognormal" => ServiceLaw::Lognormal { cv: self.cv },
            "gamma" => ServiceLaw::Gamma { cv: self.cv },
            other => panic!("{other} is no law"),
        }
    }

    /// The measured requests after a tenth as many for warm-up.
    pub(crate) fn run(&self, seed: u64) -> QueueRun {
        let law = match self.burstiness {
            1.0 => GapLaw::Poisson,
            burstiness => GapLaw::Gamma { burstiness },
        };
        let arrivals = Arrivals { law, rate: RateProfile::Steady { rate: self.rate } };
        let warmup = self.requests / 10;
        let requests = Some(warmup + self.requests);
        let stop = Stop { requests, duration: None, drain: None, error_budget: None };
        let drawn = Measured::new(Seed(seed), &arrivals, stop, Nanos::ZERO).unwrap();
        let mut instants: Vec<Nanos> = drawn.collect();
        let measured = instants.split_off(warmup as usize);
        let measured_from = instants.last().copied().unwrap_or_default();
        QueueRun {
            schedule: Schedule { warmup: instants, measured, measured_from },
            arrivals,
            law: self.service_law(),
            service: Nanos::from_secs_f64(SERVICE_S),
            servers: self.servers,
            seed: Seed(seed),
        }
    }

    /// Runs it once. Little's law has to hold exactly between the line's account and the client's.
    pub(crate) fn watch(&self, seed: u64) -> Figures {
        let (mut waits, mut residences, mut in_all) = (Vec::new(), Vec::new(), 0);
        let account = self
            .run(seed)
            .run(|t| {
                let residence = t.instants.closed.unwrap().since(t.instants.released);
                in_all += u128::from(residence.0);
                if t.phase == Phase::Measured {
                    waits.push(first_token(&t));
                    residences.push(residence.as_secs_f64());
                }
            })
            .unwrap();
        assert_eq!(account.occupancy, in_all, "{}: lambda W = L", self.name);
        assert_eq!(residences.len() as u64, self.requests, "nobody is lost");
        Figures::of(&waits, &mut residences)
    }

    /// The summary of the same run, by the way every run takes.
    pub(crate) fn summary(&self, seed: u64) -> Summary {
        let run = self.run(seed);
        let load = LoadContext {
            kind: LoadKind::Open,
            protocol: Protocol::OpenaiChat,
            asked_rps: Some(self.rate),
            law: Some(run.arrivals.law),
            concurrency: None,
            offering_began: None,
        };
        let slo = Slo::parse("e2e:900ms").unwrap();
        summarise(&run, &SummaryRequest { slo: Some(&slo), ..SummaryRequest::new(load) }).unwrap()
    }
}

impl Figures {
    fn of(waits: &[f64], residences: &mut [f64]) -> Self {
        let mean = |series: &[f64]| series.iter().sum::<f64>() / series.len() as f64;
        let share = |n: usize| n as f64 / waits.len() as f64;
        residences.sort_by(f64::total_cmp);
        Self {
            mean_wait: mean(waits),
            p_wait: share(waits.iter().filter(|wait| **wait > 0.0).count()),
            mean_residence: mean(residences),
            p99_residence: quantile(residences, 0.99, Method::Linear).unwrap(),
            within_limit: share(residences.iter().filter(|t| **t <= LIMIT_S).count()),
        }
    }
}

fn first_token(t: &Timeline) -> f64 {
    let wait = t.chunks[0].at.since(t.instants.released);
    assert_eq!(t.server.queue, Some(wait), "what the server says of its line is what the client saw");
    wait.as_secs_f64()
}
