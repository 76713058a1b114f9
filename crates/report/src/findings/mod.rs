//! What a reader should know about a run, from rules over its summary.
//!
//! A rule is data ([`RULES`]) with one small pure function that looks at the context and returns what it saw, or
//! nothing. It looks at published figures only and changes none. Rules that need facts below the summary (whether the
//! client was the limit, hidden stalls, token sums, ...) are in `goodput_core::summarise` and reach the reader through
//! `Summary::findings`; each rule lives once.
//!
//! Thresholds are constants beside the rule that uses them, each with its reason.

mod client;
mod load;
mod outcomes;
mod sample_size;
mod stream;
mod table;
mod workload;

pub use table::RULES;

pub(crate) use sample_size::samples_needed;

use goodput_core::plan::Plan;
use goodput_core::summary::{Distribution, Finding, Severity, Summary};

/// What the client measured about itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientFacts {
    /// Cores that the client kept busy on average.
    pub cores_used: Option<f64>,
    /// Cores that the client's host has for it.
    pub host_cores: Option<f64>,
    /// Share of socket reads that came with the kernel's own arrival stamp, 0 to 1.
    pub kernel_stamp_share: Option<f64>,
    /// Times the receive path had to wait for the recorder.
    pub sink_stalls: u64,
    /// Why fewer connections were ready before the first request than wanted.
    pub opening_failure: Option<String>,
    /// Whether the server refused to report usage in the stream.
    pub usage_refused: bool,
    /// Connections that were ready before the first request.
    pub warm_connections: u64,
    /// Median time to open one of them, in milliseconds.
    pub connect_p50_ms: Option<f64>,
    /// Longest time to open one of them, in milliseconds.
    pub connect_max_ms: Option<f64>,
    /// Requests that had to open a connection of their own.
    pub requests_that_connected: u64,
    /// Loads that a self-check of the host found good, as streams and chunks per second; `None` without one.
    pub checked_loads: Option<Vec<(u64, f64)>>,
}

/// Everything the rules look at. A rule whose part is missing stays silent.
#[derive(Debug, Clone, Copy)]
pub struct FindingContext<'a> {
    /// The run's numbers.
    pub summary: &'a Summary,
    /// What was asked.
    pub plan: Option<&'a Plan>,
    /// What the client measured about itself.
    pub client: Option<&'a ClientFacts>,
    /// The workload's report about itself, as the manifest stores it.
    pub workload: Option<&'a serde_json::Value>,
}

/// One row of [`RULES`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable id, in `summary.json` as `rule`.
    pub id: &'static str,
    /// How bad it is when the rule fires.
    pub severity: Severity,
    /// When it fires, in words.
    pub fires_when: &'static str,
    /// Members of the summary that must be read with it in mind.
    pub invalidates: &'static [&'static str],
    /// What to do.
    pub remedy: &'static str,
    check: fn(&FindingContext<'_>) -> Option<Seen>,
}

/// What a rule saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    message: String,
    evidence: Vec<String>,
}

impl Seen {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), evidence: Vec::new() }
    }

    fn evidence(mut self, figure: impl Into<String>) -> Self {
        self.evidence.push(figure.into());
        self
    }
}

impl Rule {
    /// The finding, if the rule fires.
    #[must_use]
    pub fn find(&self, context: &FindingContext<'_>) -> Option<Finding> {
        let Seen { message, evidence } = (self.check)(context)?;
        Some(Finding {
            rule: self.id.to_owned(),
            severity: self.severity,
            message,
            evidence,
            invalidates: self.invalidates.iter().map(|&member| member.to_owned()).collect(),
            remedy: self.remedy.to_owned(),
        })
    }
}

/// Findings of every rule of [`RULES`] that fires, most severe first. None is an answer: nothing was seen that touches
/// the figures. The findings that the summary already has are not repeated.
#[must_use]
pub fn findings(context: &FindingContext<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = RULES.iter().filter_map(|rule| rule.find(context)).collect();
    found.sort_by_key(|finding| finding.severity);
    found
}

impl<'a> FindingContext<'a> {
    /// A metric that has samples.
    fn metric(&self, name: &str) -> Option<&'a Distribution> {
        self.summary.metrics.get(name).filter(|distribution| distribution.n > 0)
    }

    /// A percentile of a metric, if it was asked for and is defined.
    fn percentile(&self, metric: &str, name: &str) -> Option<f64> {
        percentile(self.metric(metric)?, name)
    }

    /// Requests that ended with this outcome.
    fn outcome(&self, name: &str) -> u64 {
        self.summary.counts.outcomes.get(name).copied().unwrap_or(0)
    }

    /// Share of the issued requests; 0 where none was issued.
    fn share(&self, n: u64) -> f64 {
        if self.summary.counts.issued == 0 { 0.0 } else { n as f64 / self.summary.counts.issued as f64 }
    }
}

/// A percentile of a distribution, if it was asked for and is defined.
fn percentile(distribution: &Distribution, name: &str) -> Option<f64> {
    distribution.percentiles.get(name)?.value
}
