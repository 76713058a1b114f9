//! Rules about this client: how far its own work can have touched the figures.

use super::{ClientFacts, FindingContext, Seen};
use crate::number::{counted, figure, percent};
use goodput_core::plan::HttpVersion;

/// Of the cores the host has, the share from which threads wait for one another.
const BUSY_SHARE: f64 = 0.7;
/// Reads with the kernel's stamp below this share: arrival instants are those of reading.
const STAMPED_SHARE: f64 = 0.99;
/// Requests that open a connection of their own from this share on show in a tail at p99.
const CONNECTED_SHARE: f64 = 0.01;
/// A run goes beyond a self-check when its rate of chunks is more than this many times the checked one: a check asks for
/// a rate and gets a little less.
const SAME_RATE: f64 = 1.05;

pub(super) fn client_busy(c: &FindingContext<'_>) -> Option<Seen> {
    let (used, cores) = c.client.and_then(|client| client.cores_used.zip(client.host_cores))?;
    let share = used / cores;
    (cores > 0.0 && share > BUSY_SHARE).then(|| {
        Seen::new(format!("this client kept {} of its host's processors busy", percent(share)))
            .evidence(format!("{} of {} cores", figure(used), figure(cores)))
    })
}

pub(super) fn read_stamps(c: &FindingContext<'_>) -> Option<Seen> {
    let share = c.client?.kernel_stamp_share.filter(|share| *share < STAMPED_SHARE)?;
    Some(Seen::new(format!(
        "{} of the reads carry the kernel's arrival stamp; the others are stamped when this program got round to reading",
        percent(share)
    )))
}

pub(super) fn record_stalls(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.client?.sink_stalls;
    (n > 0).then(|| {
        Seen::new(format!("receiving had to wait {} for the record to be written", counted(n, "time")))
    })
}

pub(super) fn connections_not_ready(c: &FindingContext<'_>) -> Option<Seen> {
    let ClientFacts { opening_failure, warm_connections, .. } = c.client?;
    let why = opening_failure.as_ref()?;
    Some(
        Seen::new(format!("fewer connections were ready before the first request than wanted: {why}"))
            .evidence(format!("{} ready", counted(*warm_connections, "connection"))),
    )
}

pub(super) fn connected_on_the_way(c: &FindingContext<'_>) -> Option<Seen> {
    let n = c.client?.requests_that_connected;
    let connect = c.metric("connect")?;
    (c.share(n) >= CONNECTED_SHARE).then(|| {
        let seen = Seen::new(format!(
            "{} had to open a connection; in an open loop its set-up is in every latency from the schedule",
            counted(n, "request")
        ));
        connect
            .max
            .into_iter()
            .fold(seen, |seen, max| seen.evidence(format!("set-up took up to {} ms", figure(max))))
    })
}

pub(super) fn shared_connections(c: &FindingContext<'_>) -> Option<Seen> {
    (c.plan?.target.http == HttpVersion::Http2).then(|| {
        Seen::new(
            "streams shared connections (HTTP/2): a lost packet or a full window of one holds up the others, and arrivals \
             carry the time of reading",
        )
    })
}

/// The mean rate of chunks is compared, as the self-check's own is one; a short burst above it shows in the lateness.
pub(super) fn beyond_self_check(c: &FindingContext<'_>) -> Option<Seen> {
    let good = c.client?.checked_loads.as_ref()?;
    let streams = c.summary.concurrency.peak;
    let tokens = c.summary.throughput.output_tokens_per_s?;
    let chunks = tokens * c.summary.tokens.chunks_per_token?;
    if good.iter().any(|(n, rate)| streams <= *n && chunks <= *rate * SAME_RATE) {
        return None;
    }
    let had = format!("{} at once, {} chunks/s", counted(streams, "request"), figure(chunks));
    let most = good.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Some(match most {
        Some((n, rate)) => Seen::new("the run went beyond what the self-check of this host found good")
            .evidence(had)
            .evidence(format!("checked up to {} at {} chunks/s", counted(*n, "stream"), figure(*rate))),
        None => Seen::new("the self-check of this host found no load at which this client measures well")
            .evidence(had),
    })
}
