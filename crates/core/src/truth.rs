//! How far a client's figures are from what the server itself did: the join of timelines with a server's own record.
//!
//! Both sides know a request by its id, and each has instants on a clock of its own. Instants of two clocks are never
//! subtracted here: each side gives a **span**, and only spans are compared. The error of a TTFT is the client's (from
//! sent to the first token event) minus the server's (from the arrival of the request to the first chunk handed to the
//! kernel), and the error of a gap is the client's minus the server's between the same two chunks.
//!
//! What that leaves open: the server takes an instant right *before* the system call that hands a chunk over, and the
//! arrival when the kernel had the last byte of the request. A TTFT error therefore holds both ways through the network
//! and the server's own call besides what the client added, so it is an upper limit of the client's share, and never
//! below zero but for the resolution of the two clocks. A gap error holds the difference of two such ways, of either
//! sign. Where the server wrote late, it wrote late in both spans; how late is reported beside the errors
//! ([`TruthReport::server_late_ms`]), since a server that loses its core in the middle of a call makes an error that
//! is not the client's.

use crate::summarise::TimelineSource;
use crate::summary::Lateness;
use crate::time::Nanos;
use crate::timeline::{Phase, Timeline};
use goodput_stats::{Method, Samples, Sorted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the server did for one request: spans since the request had arrived whole, one element per write that carried
/// chunks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestTruth {
    /// When each write was due.
    pub due: Vec<Nanos>,
    /// When each was handed to the kernel (right before the call).
    pub written: Vec<Nanos>,
    /// Token-carrying chunks in all writes together.
    pub chunks: u64,
}

/// A server's record of its requests, by request id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTruth {
    /// `None` for an id that came more than once: nothing tells which request was which.
    requests: BTreeMap<String, Option<RequestTruth>>,
    anonymous: u64,
}

impl ServerTruth {
    /// Adds one request; without an id it can be joined to none.
    pub fn add(&mut self, id: Option<String>, truth: RequestTruth) {
        match id {
            None => self.anonymous += 1,
            Some(id) => {
                self.requests.entry(id).and_modify(|known| *known = None).or_insert(Some(truth));
            }
        }
    }

    /// Requests on record, those without an id included; a repeated id counts once.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.requests.len() as u64 + self.anonymous
    }

    /// Whether there is no request at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of some request, for messages.
    #[must_use]
    pub fn some_id(&self) -> Option<&str> {
        self.requests.keys().next().map(String::as_str)
    }
}

/// A client's figures beside the server's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TruthReport {
    /// Successful measured requests that were found in the server's record and compared.
    pub matched: u64,
    /// Successful measured requests that are not in it.
    pub without_truth: u64,
    /// Measured requests that did not succeed; they have no latency to compare.
    pub failed: u64,
    /// Successful measured requests whose id is in the server's record more than once; not compared.
    pub ambiguous: u64,
    /// Compared requests whose token events are not one for one the server's writes (several events a write, or another
    /// number of them); they have a TTFT error and no gap errors.
    pub unaligned: u64,
    /// Requests in the server's record that belong to no request of this run, warm-up included.
    pub server_only: u64,
    /// Error of TTFT counted from the instant of sending: client minus server.
    pub ttft_ms: Option<ErrorSpread>,
    /// Error of the gaps between successive token events, which is that of ITL where each carries one token.
    pub chunk_gap_ms: Option<ErrorSpread>,
    /// How late the server itself was: written minus due, over the writes of the compared requests.
    pub server_late_ms: Option<Lateness>,
}

/// Errors, client minus server, in milliseconds; and the figure that each side would report. Percentiles by inverse CDF.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorSpread {
    /// Samples: requests, or gaps.
    pub n: u64,
    /// Median of the absolute error.
    pub p50: f64,
    /// Its 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// Median with its sign: what the client adds on the whole (positive) or takes away.
    pub signed_p50: f64,
    /// 99th percentile of the client's own spans.
    pub client_p99: f64,
    /// 99th percentile of the server's spans of the same requests.
    pub server_p99: f64,
}

/// Joins a run with a server's record. `id` gives the id under which a request was sent
/// ([`crate::plan::Plan::request_id`]).
///
/// # Errors
/// What the source returns.
pub fn join<S: TimelineSource + ?Sized>(
    truth: &ServerTruth,
    source: &S,
    id: impl Fn(&Timeline) -> String,
) -> Result<TruthReport, S::Error> {
    let mut join = Join::default();
    source.for_each(&mut |t| join.add(t, truth.requests.get(&id(t))))?;
    Ok(join.finish(truth.len()))
}

/// A join in the making.
#[derive(Debug, Default)]
struct Join {
    matched: u64,
    without_truth: u64,
    failed: u64,
    ambiguous: u64,
    unaligned: u64,
    /// Entries of the server's record that belong to a request of the run, in whatever phase and however it ended.
    known: u64,
    ttft: Errors,
    gap: Errors,
    late: Samples,
}

impl Join {
    fn add(&mut self, t: &Timeline, truth: Option<&Option<RequestTruth>>) {
        self.known += u64::from(truth.is_some());
        if t.phase == Phase::Warmup {
            return;
        }
        if !t.outcome.is_ok() {
            self.failed += 1;
            return;
        }
        match truth {
            None => self.without_truth += 1,
            Some(None) => self.ambiguous += 1,
            Some(Some(truth)) => self.compare(t, truth),
        }
    }

    fn compare(&mut self, t: &Timeline, truth: &RequestTruth) {
        self.matched += 1;
        for (due, written) in truth.due.iter().zip(&truth.written) {
            self.late.push(written.since(*due).as_millis_f64());
        }
        // An answer in one body has no first token on either side.
        if t.is_whole() {
            return;
        }
        let first = t.token_chunks().next().map(|chunk| chunk.at);
        if let (Some(first), Some(sent), Some(written)) = (first, t.instants.sent, truth.written.first()) {
            self.ttft.add(first.since(sent), *written);
        }
        let writes = truth.written.len();
        if writes as u64 != truth.chunks || t.token_chunks().count() != writes {
            self.unaligned += 1;
            return;
        }
        let client = t.token_chunks().zip(t.token_chunks().skip(1)).map(|(a, b)| b.at.since(a.at));
        let server = truth.written.windows(2).map(|w| w[1].since(w[0]));
        client.zip(server).for_each(|(client, server)| self.gap.add(client, server));
    }

    fn finish(self, on_record: u64) -> TruthReport {
        let late = (!self.late.is_empty()).then(|| self.late.freeze());
        TruthReport {
            matched: self.matched,
            without_truth: self.without_truth,
            failed: self.failed,
            ambiguous: self.ambiguous,
            unaligned: self.unaligned,
            server_only: on_record.saturating_sub(self.known),
            ttft_ms: self.ttft.spread(),
            chunk_gap_ms: self.gap.spread(),
            server_late_ms: late.map(|late| Lateness {
                p50: at(&late, 0.5),
                p99: at(&late, 0.99),
                max: at(&late, 1.0),
            }),
        }
    }
}

/// Errors of one kind.
#[derive(Debug, Default)]
struct Errors {
    absolute: Samples,
    signed: Samples,
    client: Samples,
    server: Samples,
}

impl Errors {
    fn add(&mut self, client: Nanos, server: Nanos) {
        // Whole nanoseconds, so that equal spans differ by exactly nothing.
        let error = (i128::from(client.0) - i128::from(server.0)) as f64 / 1e6;
        self.absolute.push(error.abs());
        self.signed.push(error);
        self.client.push(client.as_millis_f64());
        self.server.push(server.as_millis_f64());
    }

    fn spread(self) -> Option<ErrorSpread> {
        if self.absolute.is_empty() {
            return None;
        }
        let absolute = self.absolute.freeze();
        Some(ErrorSpread {
            n: absolute.n(),
            p50: at(&absolute, 0.5),
            p99: at(&absolute, 0.99),
            max: at(&absolute, 1.0),
            signed_p50: at(&self.signed.freeze(), 0.5),
            client_p99: at(&self.client.freeze(), 0.99),
            server_p99: at(&self.server.freeze(), 0.99),
        })
    }
}

fn at(sorted: &Sorted, level: f64) -> f64 {
    sorted.quantile(level, Method::InverseCdf).unwrap_or_default()
}
