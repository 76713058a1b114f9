//! `goodput sim queue`: a textbook queue in virtual time, with theory beside what is seen.
//!
//! The driver, the timelines, the ruler and the statistics are those of every run, so that what is compared with theory
//! is the whole chain. Nothing is sent and nothing is waited for, and every output says that it is simulated.

mod figures;
mod page;
mod theory;

use crate::args::{QueueLawArg, ServiceLawArg, SimQueueArgs};
use crate::commands::show::to_json;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use figures::Seen;
use goodput_core::interval::IntervalMethod;
use goodput_core::load_check::{LoadContext, LoadKind};
use goodput_core::plan::{Arrivals, GapLaw, Protocol, RateProfile, Stop};
use goodput_core::rng::Seed;
use goodput_core::schedule::Schedule;
use goodput_core::slo::Slo;
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::summary::Summary;
use goodput_core::time::Nanos;
use goodput_drive::queue_server::QueueRun;
use goodput_model::laws::ServiceLaw;
use goodput_model::queueing::QueueError;
use goodput_workload::arrival::Measured;
use theory::Theory;

/// Percentiles that are shown.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// What was asked, in one form for every law.
#[derive(Debug, Clone, Copy)]
struct Queue {
    law: ServiceLaw,
    service: Nanos,
    rate: f64,
    servers: u32,
    burstiness: f64,
    requests: u64,
    warmup: u64,
    seed: Seed,
}

/// Simulates to the end and prints theory beside it.
pub(crate) fn run(args: &SimQueueArgs, printer: Printer) -> Result<Exit, Failure> {
    let queue = Queue::resolve(args)?;
    let slo = args.slo.as_deref().map(parse_slo).transpose()?;
    let theory = Theory::of(&queue, slo.as_ref()).map_err(|e| refusal(&queue, e))?;
    let run = queue.run()?;
    let seen = Seen::of(&run, queue.requests).map_err(|e| Failure::input(e.to_string()))?;
    let summary = summary(&run, &queue, slo.as_ref())?;
    let report = page::Report::new(&queue, &theory, &seen, summary, slo.as_ref());
    if args.json {
        printer.result(to_json(&report)?);
    } else {
        printer.raw(&page::text(&report));
    }
    Ok(Exit::Done)
}

/// Why there is nothing to simulate, and for a queue that never drains, what it could serve.
fn refusal(queue: &Queue, error: QueueError) -> Failure {
    let failure = Failure::input(error.to_string());
    match error {
        QueueError::NeverDrains { .. } => {
            let most = f64::from(queue.servers) / queue.service.as_secs_f64();
            failure.hint(format!(
                "at {} a request, {} serve less than {most:.4}/s",
                queue.service,
                servers(queue)
            ))
        }
        _ => failure,
    }
}

fn servers(queue: &Queue) -> String {
    format!("{} server{}", queue.servers, if queue.servers == 1 { "" } else { "s" })
}

fn parse_slo(text: &str) -> Result<Slo, Failure> {
    Slo::parse(text).map_err(|e| Failure::input(format!("--slo {text}: {e}")))
}

impl Queue {
    fn resolve(args: &SimQueueArgs) -> Result<Self, Failure> {
        let only = |flag: &str, law: &str| Failure::input(format!("{flag}: only with --law {law}"));
        if args.law != QueueLawArg::Mg1 && (args.cv.is_some() || args.service_law.is_some()) {
            return Err(only("--cv and --service-law", "mg1"));
        }
        if args.law != QueueLawArg::Mmc && args.servers.is_some() {
            return Err(only("--servers", "mmc"));
        }
        let cv = args.cv.unwrap_or(1.0);
        let law = match (args.law, args.service_law.unwrap_or(ServiceLawArg::Lognormal)) {
            (QueueLawArg::Mm1 | QueueLawArg::Mmc, _) => ServiceLaw::Exponential,
            (QueueLawArg::Md1, _) => ServiceLaw::Deterministic,
            (QueueLawArg::Mg1, ServiceLawArg::Lognormal) => ServiceLaw::Lognormal { cv },
            (QueueLawArg::Mg1, ServiceLawArg::Gamma) => ServiceLaw::Gamma { cv },
        };
        Ok(Self {
            law,
            service: args.service,
            rate: args.rate,
            servers: args.servers.unwrap_or(1),
            burstiness: args.burstiness,
            requests: args.requests,
            warmup: args.requests / 10,
            seed: Seed(args.seed),
        })
    }

    fn gap_law(&self) -> GapLaw {
        if self.burstiness == 1.0 { GapLaw::Poisson } else { GapLaw::Gamma { burstiness: self.burstiness } }
    }

    /// The arrivals, drawn as one stream of which the first are the warm-up.
    fn run(&self) -> Result<QueueRun, Failure> {
        let arrivals = Arrivals { law: self.gap_law(), rate: RateProfile::Steady { rate: self.rate } };
        let requests = Some(self.warmup + self.requests);
        let stop = Stop { requests, duration: None, drain: None, error_budget: None };
        let drawn = Measured::new(self.seed, &arrivals, stop, Nanos::ZERO);
        let mut warmup: Vec<Nanos> = drawn.map_err(|e| Failure::input(e.to_string()))?.collect();
        let measured = warmup.split_off(warmup.len().min(usize::try_from(self.warmup).unwrap_or(usize::MAX)));
        let measured_from = warmup.last().copied().unwrap_or_default();
        Ok(QueueRun {
            arrivals,
            schedule: Schedule { warmup, measured, measured_from },
            law: self.law,
            service: self.service,
            servers: self.servers,
            seed: self.seed,
        })
    }
}

/// The summary by the way of every run, with intervals from blocks of time: requests close in time are not independent.
fn summary(run: &QueueRun, queue: &Queue, slo: Option<&Slo>) -> Result<Summary, Failure> {
    let load = LoadContext {
        kind: LoadKind::Open,
        protocol: Protocol::OpenaiCompletions,
        asked_rps: Some(queue.rate),
        law: Some(queue.gap_law()),
        concurrency: None,
        offering_began: None,
    };
    let request = SummaryRequest {
        slo,
        percentiles: PERCENTILES.to_vec(),
        intervals: Some(IntervalMethod::TimeBlocks),
        ..SummaryRequest::new(load)
    };
    summarise(run, &request).map_err(|e| Failure::input(e.to_string()))
}
