//! The report as plain text: what an engineer pastes into a channel.
//!
//! Every figure comes from the summary; nothing is computed here but how it is written. No colour, at most 100 columns.
//! Each percentile stands with its interval and with a mark that says how well the sample carries it, no mean is shown
//! without percentiles, and what is undefined is `-`, never 0.

mod goodput;
mod head;
mod latency;
mod marks;
mod remarks;
mod rulers;
mod truth;

use goodput_core::summary::Summary;

pub use rulers::rulers_table;

/// What the report says about the run beside its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportContext {
    /// The run directory.
    pub path: Option<String>,
    /// Server root, or several separated by commas.
    pub url: String,
    /// Protocol name.
    pub protocol: String,
    /// Model name in the requests.
    pub model: String,
    /// Engine name, as the server tells it.
    pub engine: Option<String>,
    /// Engine version, as the server tells it.
    pub engine_version: Option<String>,
    /// Why the run is partial.
    pub partial: Option<String>,
    /// Version of the program that measured.
    pub goodput: String,
    /// What the client itself did, in words: stamps, cores.
    pub client: Option<String>,
    /// The connections that were ready before the first request.
    pub ready: Option<ReadyConnections>,
    /// What a self-check of the host had said before the run, or that there was none.
    pub self_check: Option<String>,
}

/// Connections that were opened before the start, and what opening one took; what is not known is `-` in the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadyConnections {
    /// How many.
    pub count: u64,
    /// Median, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The slowest, in milliseconds.
    pub max_ms: Option<f64>,
}

/// The report of one run, ending with a newline.
#[must_use]
pub fn report(summary: &Summary, context: &ReportContext) -> String {
    let sections = [
        head::banner(summary, context),
        head::facts(summary, context),
        latency::section(summary),
        goodput::section(summary),
        truth::section(summary),
        remarks::section(summary),
    ];
    let written: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    written.join("\n")
}
