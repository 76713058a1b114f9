//! Rules about requests without a whole answer, one per kind of failure, because each misleads in its own way.

use super::{FindingContext, Seen};
use crate::number::part;
use goodput_core::outcome::Outcome;

/// Refused requests from this share on decide what the latencies of the others look like.
const REFUSED_SHARE: f64 = 0.01;

/// The requests that ended with one of these outcomes, named one by one.
fn ended(c: &FindingContext<'_>, outcomes: &[&str]) -> Option<(String, Vec<String>)> {
    let counts = || outcomes.iter().map(|&name| (name, c.outcome(name))).filter(|(_, n)| *n > 0);
    let total: u64 = counts().map(|(_, n)| n).sum();
    (total > 0).then(|| {
        let requests = part(total, c.summary.counts.issued);
        (requests, counts().map(|(name, n)| format!("{name}: {n}")).collect())
    })
}

fn seen(message: String, evidence: Vec<String>) -> Seen {
    evidence.into_iter().fold(Seen::new(message), Seen::evidence)
}

/// A run whose requests all failed has a finding of its own; this one is for runs in which nothing even failed.
pub(super) fn nothing_measured(c: &FindingContext<'_>) -> Option<Seen> {
    let counts = &c.summary.counts;
    let failed =
        Outcome::NAMES.iter().filter(|name| !matches!(**name, "ok" | "cancelled")).any(|n| c.outcome(n) > 0);
    (counts.ok == 0 && !failed).then(|| {
        Seen::new("no request came to an end: there is nothing to report").evidence(format!(
            "issued {}, cut off {}",
            counts.issued,
            c.outcome("cancelled")
        ))
    })
}

pub(super) fn refused(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.outcome("http_error");
    (c.share(n) >= REFUSED_SHARE && c.summary.counts.ok > 0).then(|| {
        Seen::new(format!(
            "{} were refused with an HTTP error: the latencies are those of the requests that were let in, and a server that \
             refuses looks faster",
            part(n, c.summary.counts.issued)
        ))
        .evidence(format!("http_error: {n}"))
    })
}

pub(super) fn broken_answers(c: &FindingContext<'_>) -> Option<Seen> {
    let (requests, evidence) = ended(c, &["stream_error", "aborted", "truncated", "reset"])?;
    let message = format!(
        "{requests} broke off after the server had accepted them; tools that look at the status only count them as fast \
         successes"
    );
    Some(seen(message, evidence))
}

pub(super) fn timeouts(c: &FindingContext<'_>) -> Option<Seen> {
    let (requests, evidence) = ended(c, &["timeout"])?;
    let message = format!(
        "{requests} ran into a timeout: the slowest requests have no latency, so every tail is too short; e2e_censored keeps \
         them as lower limits"
    );
    Some(seen(message, evidence))
}

pub(super) fn no_connection(c: &FindingContext<'_>) -> Option<Seen> {
    let (requests, evidence) = ended(c, &["connect"])?;
    Some(seen(format!("{requests} found no connection to the server"), evidence))
}

pub(super) fn foreign_bytes(c: &FindingContext<'_>) -> Option<Seen> {
    let (requests, evidence) = ended(c, &["protocol"])?;
    Some(seen(format!("{requests} were answered with bytes that are not the protocol"), evidence))
}

pub(super) fn short_answers(c: &FindingContext<'_>) -> Option<Seen> {
    let (requests, evidence) = ended(c, &["no_tokens", "short_output"])?;
    let message = format!(
        "{requests} got fewer tokens than were asked for, or none, and count as failures: less work than the workload says"
    );
    Some(seen(message, evidence))
}

pub(super) fn stale_retries(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.summary.counts.stale_retries;
    (n > 0).then(|| {
        Seen::new(format!(
            "{n} sendings were repeated because a reused connection turned out dead; the first start counts, so that time is \
             in the latencies"
        ))
    })
}
