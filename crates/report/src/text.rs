//! The report as plain text.

use goodput_core::summary::Summary;

/// What the report says about the run beside its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportContext {
    /// The run directory.
    pub path: Option<String>,
    /// Server root.
    pub url: String,
    /// Protocol name.
    pub protocol: String,
    /// Model name.
    pub model: String,
    /// Engine name, as the server tells it.
    pub engine: Option<String>,
    /// Engine version, as the server tells it.
    pub engine_version: Option<String>,
    /// Why the run is partial.
    pub partial: Option<String>,
    /// Version of this program.
    pub goodput: String,
}

/// The report of one run, ending with a newline.
#[must_use]
pub fn report(summary: &Summary, context: &ReportContext) -> String {
    format!("{} {}\n", summary.ruler, context.url)
}

/// One table with all rulers, and why they differ.
#[must_use]
pub fn rulers_table(summaries: &[Summary]) -> String {
    summaries.iter().map(|s| format!("{}\n", s.ruler)).collect()
}
