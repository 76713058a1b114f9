//! What the server knows about its own run, as it is reported: the body of `GET /truth`.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// The server's own account since its start or the last reset. The JSON keys are the field names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// `fixed`, `script` or `engine`.
    pub mode: String,
    /// How far the wall clock was set during the run, ns; Unix times below hold only if this is about zero.
    pub wall_step_ns: i64,
    /// Connections.
    pub connections: Connections,
    /// Requests for an answer; the server's own routes do not count.
    pub requests: Requests,
    /// When requests arrived.
    pub arrivals: Arrivals,
    /// Tokens written.
    pub tokens: u64,
    /// Token-carrying events written (script mode: scripted writes).
    pub chunks: u64,
    /// Last write that carried any, Unix ns.
    pub last_write_unix_ns: Option<u64>,
    /// Arrival of the request to the write of its first chunk, ms. Streams only.
    pub ttft_ms: Spread,
    /// The same to the instant when that chunk was due.
    pub ttft_due_ms: Spread,
    /// Mean time per token after the first, of each answer, ms: last write minus first over tokens minus one; finished
    /// streams of two tokens or more.
    pub tpot_ms: Spread,
    /// Gaps between the writes of successive chunks of a stream, ms.
    pub itl_ms: Spread,
    /// The same between the instants when they were due.
    pub itl_due_ms: Spread,
    /// Arrival of the request to the write of its last chunk, ms; finished answers only.
    pub e2e_ms: Spread,
    /// Write of a chunk minus its due time, us: the server's own error, which is in the figures above except the due
    /// ones.
    pub lateness_us: Spread,
    /// What the simulated engine counted since it began; a reset does not touch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineAccount>,
}

/// The simulated engine's own sums over its replicas, and its state now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineAccount {
    /// Requests that got all their tokens.
    pub finished: u64,
    /// Requests given up by their client.
    pub cancelled: u64,
    /// Requests turned away.
    pub rejected: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Steps.
    pub steps: u64,
    /// Prompt tokens computed, recomputed ones among them.
    pub prefill_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queried_tokens: u64,
    /// Those of them that were found.
    pub prefix_hit_tokens: u64,
    /// Requests that run now.
    pub running: u32,
    /// Requests that wait now.
    pub waiting: u32,
    /// KV blocks in use now.
    pub kv_blocks_used: u32,
}

/// Connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Accepted.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Most open at once.
    pub peak: u64,
}

/// Requests for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Requests {
    /// Arrived whole.
    pub arrived: u64,
    /// Answered to the end (an injected fault may be that end).
    pub finished: u64,
    /// Given up by the client.
    pub disconnected: u64,
    /// Arrived and neither finished nor given up, now.
    pub in_flight: u64,
    /// Most in flight at once.
    pub in_flight_peak: u64,
    /// Most waiting for a slot at once.
    pub waiting_peak: u64,
}

/// When requests arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Arrivals {
    /// (n - 1) / (last - first), per second; null under two arrivals.
    pub rate_per_s: Option<f64>,
    /// Coefficient of variation of the gaps (population form); null under two gaps.
    pub gap_cv: Option<f64>,
    /// First arrival, Unix ns.
    pub first_unix_ns: Option<u64>,
    /// Last arrival, Unix ns.
    pub last_unix_ns: Option<u64>,
    /// Arrivals that carry the kernel's receive time; the others carry the time of the read.
    pub kernel_stamped: u64,
}

/// The instants behind [`Arrivals`], for laws that a rate and a spread do not show: the body of `GET /truth/arrivals`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Instants {
    /// Arrivals in the order in which they were read, Unix ns.
    pub unix_ns: Vec<u64>,
    /// Arrivals after the first 2^20, which are not kept.
    pub left_out: u64,
}

/// Count, mean and quantiles. Mean, min and max are exact, quantiles within 1/16384. All zero when empty.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// How many values.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Median (nearest rank, as all quantiles here).
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of a histogram of ns, in a unit of so many ns.
    pub(crate) fn of(histogram: &Histogram, unit: f64) -> Self {
        let [p50, p90, p99, p999] = histogram.quantiles([0.5, 0.9, 0.99, 0.999]).map(|ns| ns / unit);
        Self {
            n: histogram.count(),
            mean: histogram.mean() / unit,
            min: histogram.min() / unit,
            p50,
            p90,
            p99,
            p999,
            max: histogram.max() / unit,
        }
    }
}
