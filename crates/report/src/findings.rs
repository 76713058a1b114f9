//! What a reader should know about a run, from rules over its summary.

use goodput_core::plan::Plan;
use goodput_core::summary::{Finding, Summary};

/// What the client measured about itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientFacts {
    /// Cores that the client kept busy on average.
    pub cores_used: Option<f64>,
    /// Cores of the client's host.
    pub host_cores: Option<f64>,
    /// Share of socket reads that came with the kernel's own arrival stamp, 0 to 1.
    pub kernel_stamp_share: Option<f64>,
    /// Times the receive path had to wait for the recorder.
    pub sink_stalls: u64,
    /// Why connections could not be opened beforehand.
    pub opening_failure: Option<String>,
    /// Whether the server refused to report usage in the stream.
    pub usage_refused: bool,
    /// Connections opened before the first request.
    pub warm_connections: u64,
    /// Median time to open one of them, in milliseconds.
    pub connect_p50_ms: Option<f64>,
    /// Longest time to open one of them, in milliseconds.
    pub connect_max_ms: Option<f64>,
    /// Requests that had to open a connection of their own.
    pub requests_that_connected: u64,
}

/// Everything the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct FindingContext<'a> {
    /// The run's numbers.
    pub summary: &'a Summary,
    /// What was asked.
    pub plan: Option<&'a Plan>,
    /// What the client measured about itself.
    pub client: Option<&'a ClientFacts>,
    /// The report that the workload made about itself.
    pub workload: Option<&'a serde_json::Value>,
}

/// Findings of every rule that fires, most severe first.
#[must_use]
pub fn findings(context: &FindingContext<'_>) -> Vec<Finding> {
    let _ = context;
    Vec::new()
}
