//! Flags of `goodput sim queue`: a textbook queue in virtual time.

use super::{duration, rate};
use clap::{Args, ValueEnum};
use goodput_core::time::Nanos;

/// The end of its help page.
pub(crate) const SIM_QUEUE_EXAMPLES: &str = "\
For example:
  goodput sim queue --law mm1 --service 100ms --rate 9.5 --requests 200000 --slo e2e:900ms
  goodput sim queue --law mg1 --cv 2 --service 100ms --rate 7
  goodput sim queue --law mmc --servers 10 --service 100ms --rate 90 --burstiness 0.3";

#[derive(Debug, Args)]
pub(crate) struct SimQueueArgs {
    /// Arrivals, service and servers in Kendall's notation.
    #[arg(long, value_enum)]
    pub(crate) law: QueueLawArg,
    /// Mean service time.
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) service: Nanos,
    /// Arrivals per second.
    #[arg(long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) rate: f64,
    /// Measured requests; a tenth as many go before them, so that the queue is not met empty.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) requests: u64,
    /// Coefficient of variation of the service times (mg1).
    #[arg(long, value_name = "CV", allow_negative_numbers = true, required_if_eq("law", "mg1"))]
    pub(crate) cv: Option<f64>,
    /// Shape of the service times (mg1).
    #[arg(long, value_enum)]
    pub(crate) service_law: Option<ServiceLawArg>,
    /// Number of servers (mmc).
    #[arg(long, value_name = "N", required_if_eq("law", "mmc"))]
    pub(crate) servers: Option<u32>,
    /// Shape of the gaps between arrivals: 1 is Poisson, below 1 is burstier.
    #[arg(long, value_name = "SHAPE", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) burstiness: f64,
    /// Limits a request must keep: ttft is the wait, e2e the time in the system.
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Option<String>,
    /// Seed of arrivals and service times.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kendall's notation in letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueLawArg {
    /// M/M/1: exponential service, one server.
    Mm1,
    /// M/D/1: constant service, one server.
    Md1,
    /// M/G/1: service of a given variation (--cv), one server.
    Mg1,
    /// M/M/c: exponential service, several servers (--servers).
    Mmc,
}

/// A service law with a free variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceLawArg {
    /// Lognormal.
    Lognormal,
    /// Gamma.
    Gamma,
}
