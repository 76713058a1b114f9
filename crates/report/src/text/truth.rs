//! The client held against the server's own record, if there is one.

use crate::layout::paragraph;
use crate::number::{counted, figure, part};
use goodput_core::summary::Summary;
use goodput_core::truth::{ErrorSpread, TruthReport};

/// Empty without a record.
pub(super) fn section(s: &Summary) -> String {
    let Some(truth) = &s.truth else { return String::new() };
    let mut text = paragraph("truth       ", &compared(truth));
    let errors = [
        ("TTFT from sent", truth.ttft_ms, "; both ways through the network are in it"),
        ("chunk gap (ITL)", truth.chunk_gap_ms, ""),
    ];
    for (what, spread, holds) in errors {
        if let Some(spread) = spread {
            text += &paragraph("            ", &format!("{}{holds}", error(what, &spread)));
        }
    }
    if let Some(late) = &truth.server_late_ms {
        let line = format!(
            "the server itself wrote p50 {}, p99 {}, max {} ms after its own schedule; that is in both sides",
            figure(late.p50),
            figure(late.p99),
            figure(late.max)
        );
        text += &paragraph("            ", &line);
    }
    text
}

fn compared(truth: &TruthReport) -> String {
    let ok = truth.matched + truth.without_truth + truth.ambiguous;
    let mut text =
        format!("against the server's own record: {} successful requests compared", part(truth.matched, ok));
    let beside = [
        (truth.without_truth, "not in it"),
        (truth.ambiguous, "in it more than once"),
        (truth.failed, "failed, with nothing to compare"),
        (truth.unaligned, "with other writes than events, so without gap errors"),
    ];
    for (n, what) in beside.iter().filter(|(n, _)| *n > 0) {
        text += &format!("; {} {what}", counted(*n, "request"));
    }
    if truth.server_only > 0 {
        text += &format!("; {} of the record not of this run", counted(truth.server_only, "request"));
    }
    text
}

fn error(what: &str, e: &ErrorSpread) -> String {
    let sign = if e.signed_p50 < 0.0 { "-" } else { "+" };
    format!(
        "{what}: error p50 {}, p99 {}, max {} ms (median {sign}{}); p99 is {} here and {} at the server",
        figure(e.p50),
        figure(e.p99),
        figure(e.max),
        figure(e.signed_p50.abs()),
        figure(e.client_p99),
        figure(e.server_p99)
    )
}
