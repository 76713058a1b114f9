//! Arguments of `goodput selfcheck`.

use super::{duration, rate};
use crate::pin::CpuList;
use clap::Args;
use goodput_core::time::Nanos;

#[derive(Debug, Args)]
pub(crate) struct SelfcheckArgs {
    /// Answers at the same time, each number a row [default: 1,64,256,1000; with --quick 64,1000].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_000))]
    pub(crate) streams: Vec<u32>,
    /// Tokens per second of each stream, each number a row [default: 10,100; with --quick 100].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = token_rate)]
    pub(crate) rate: Vec<f64>,
    /// Time for which each load is offered [default: 3s, and 1500ms for arrivals and ceilings; with --quick about 1s].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) duration: Option<Nanos>,
    /// CPUs that the server is kept to, for example 0 or 0-1,4.
    #[arg(long, value_name = "CPUS")]
    pub(crate) server_cpus: Option<CpuList>,
    /// CPUs that this client is kept to. Later runs quote the check that may use as many cores.
    #[arg(long, value_name = "CPUS")]
    pub(crate) client_cpus: Option<CpuList>,
    /// About ten seconds instead of most of a minute.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do not keep what was found for later runs to quote.
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Nothing on stderr but errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Tokens per second of one stream: what the exact server can keep to.
fn token_rate(text: &str) -> Result<f64, String> {
    rate(text)
        .ok()
        .filter(|rate| (0.1..=10_000.0).contains(rate))
        .ok_or_else(|| "expected tokens per second between 0.1 and 10000, for example 10,100".to_owned())
}
