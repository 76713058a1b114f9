//! The few facts of every measured request that windows, rates and load checks need: a fixed number of bytes per
//! request, however long its answer, so that a run of a million requests is summarised in memory.

use crate::metric::Metric;
use crate::outcome::Outcome;
use crate::ruler::Measures;
use crate::time::Nanos;
use crate::timeline::Timeline;

/// One measured request in brief.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fact {
    pub(crate) scheduled: Option<Nanos>,
    pub(crate) released: Nanos,
    pub(crate) sent: Option<Nanos>,
    /// Time that the set-up of a new connection took before `sent`.
    pub(crate) connecting: Nanos,
    /// Whether its connection had carried other requests.
    pub(crate) reused: bool,
    /// The ruler's start.
    pub(crate) start: Nanos,
    /// End of the body, or the last instant on record.
    pub(crate) end: Nanos,
    /// The ruler's end of E2E.
    pub(crate) e2e_end: Option<Nanos>,
    /// TTFT, else E2E: the series in which a steady state is looked for.
    pub(crate) settle_ms: Option<f64>,
    pub(crate) success: bool,
    pub(crate) client_fault: bool,
    pub(crate) output_tokens: u64,
    pub(crate) input_tokens: u64,
}

impl Fact {
    pub(crate) fn of(t: &Timeline, m: &Measures) -> Self {
        let i = &t.instants;
        Self {
            scheduled: i.scheduled,
            released: i.released,
            sent: i.sent,
            connecting: i.connect_start.zip(i.connected).map_or(Nanos::ZERO, |(from, to)| to.since(from)),
            reused: t.connection.uses_before > 0,
            start: m.start,
            end: last_instant(t),
            e2e_end: m.end,
            settle_ms: m.get(Metric::Ttft).or(m.get(Metric::E2e)),
            success: m.success,
            client_fault: Outcome::is_client_fault(&t.outcome),
            output_tokens: m.output_tokens.unwrap_or(0),
            input_tokens: m.input_tokens.unwrap_or(0),
        }
    }
}

/// The last thing known of a request: the end of its body, else whatever came last.
fn last_instant(t: &Timeline) -> Nanos {
    let i = &t.instants;
    let chunk = t.chunks.last().map(|c| c.at);
    i.closed
        .or([chunk, i.done, i.headers, i.sent_all, i.sent, i.connected].into_iter().flatten().max())
        .unwrap_or(i.released)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_requests_fit_in_memory() {
        assert!(size_of::<Fact>() <= 128, "{} bytes", size_of::<Fact>());
    }
}
