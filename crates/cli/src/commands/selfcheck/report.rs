//! What a self-check found, as it is printed with `--json` and kept for later runs. Times are in the unit of their
//! name; what is not known is `null`.

use goodput_core::summary::Lateness;
use goodput_core::truth::ErrorSpread;
use goodput_store::manifest::{CheckedLoad, Host};
use serde::{Deserialize, Serialize};

/// The schema of this report. New keys raise the minor version; a key never changes its meaning.
pub(crate) const SCHEMA: &str = "goodput.selfcheck/1.0";

/// Everything that a self-check found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    /// [`SCHEMA`].
    pub(super) schema: String,
    /// What was checked.
    pub(super) host: HostKey,
    /// When, in seconds since 1970-01-01 UTC.
    pub(super) at_unix_s: u64,
    /// Whether it was the short one.
    pub(super) quick: bool,
    /// How long it took.
    pub(super) took_s: f64,
    /// CPUs the server was kept to.
    pub(super) server_cpus: Option<String>,
    /// CPUs the client was kept to.
    pub(super) client_cpus: Option<String>,
    /// Streams by token rate, in a closed loop.
    pub(super) cells: Vec<Cell>,
    /// Arrivals of an open loop.
    pub(super) pacing: Vec<Pacing>,
    /// As much as goes through.
    pub(super) ceiling: Vec<Ceiling>,
    /// Where arrival stamps come from.
    pub(super) stamps: Stamps,
    /// How late the timer of the release thread wakes.
    pub(super) timer: Timer,
    /// What this host allows, and what follows from it.
    pub(super) limits: Vec<Limit>,
    /// The verdict.
    pub(super) verdict: Verdict,
}

/// What must be the same for a self-check to say something of a later run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostKey {
    /// Version of the program.
    goodput: String,
    /// Whether it was compiled with optimisation.
    optimised: bool,
    /// Name of the host.
    hostname: Option<String>,
    /// Kernel version.
    kernel: Option<String>,
    /// Processor model.
    cpu: Option<String>,
    /// Logical cores this program may use.
    cores: Option<u32>,
}

impl HostKey {
    /// Of this program on that host.
    pub(crate) fn of(host: &Host) -> Self {
        Self {
            goodput: env!("CARGO_PKG_VERSION").to_owned(),
            optimised: !cfg!(debug_assertions),
            hostname: host.hostname.clone(),
            kernel: host.kernel.clone(),
            cpu: host.cpu.clone(),
            cores: host.cores,
        }
    }
}

/// One load of the grid.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Cell {
    /// Answers at the same time.
    pub(super) streams: u64,
    /// Tokens per second of each, one a chunk.
    pub(super) rate_per_stream: f64,
    /// For how long measured requests were offered, in seconds.
    pub(super) offered_s: f64,
    /// Chunks per second that the server was to write: streams times rate.
    pub(super) asked_chunks_per_s: f64,
    /// Chunks per second that arrived while load was offered.
    pub(super) got_chunks_per_s: f64,
    /// Successful measured requests.
    pub(super) requests: u64,
    /// Measured requests that failed.
    pub(super) failed: u64,
    /// Error of TTFT from the instant of sending, against the server's own truth.
    pub(super) ttft_ms: Option<ErrorSpread>,
    /// Error of the gaps between tokens.
    pub(super) itl_ms: Option<ErrorSpread>,
    /// How late this client read what had arrived, p99.
    pub(super) read_late_p99_ms: Option<f64>,
    /// How late the server itself wrote, p99.
    pub(super) server_late_p99_ms: Option<f64>,
    /// Cores that this client used.
    pub(super) cores_used: f64,
    /// Its CPU time per chunk, everything kept.
    pub(super) cpu_us_per_chunk: Option<f64>,
    /// What follows from the figures.
    pub(super) judgement: Judgement,
    /// Why, if it is not good; and that the server was late, if it was.
    pub(super) reasons: Vec<String>,
}

/// What a cell says of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Judgement {
    /// The figures were right.
    Good,
    /// They were not, and the server itself was late: the cell does not tell which of the two was the limit.
    Undecided,
    /// They were not, and it was not the server.
    Bad,
}

/// One rate of an open loop with Poisson arrivals.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pacing {
    /// Requests per second of the law.
    pub(super) asked_rps: f64,
    /// What the seed drew.
    pub(super) scheduled_rps: Option<f64>,
    /// What was sent.
    pub(super) sent_rps: Option<f64>,
    /// Requests of the schedule.
    pub(super) scheduled: u64,
    /// Requests that were sent.
    pub(super) sent: u64,
    /// Sent minus scheduled.
    pub(super) late_ms: Option<Lateness>,
    /// Whether the gaps follow the law: `pass`, `fail`, `too_few`, or `null` where it was not tested.
    pub(super) gaps: Option<String>,
    /// Whether all of it was as it should be.
    pub(super) good: bool,
    /// Why not.
    pub(super) reasons: Vec<String>,
}

/// A load near the most that goes through.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Ceiling {
    /// `batched` (as fast as the server writes, many events a read) or `paced` (one event a read).
    pub(super) kind: String,
    /// Answers at the same time.
    pub(super) streams: u64,
    /// Chunks per second asked of the server; `null` for as many as go through.
    pub(super) asked_chunks_per_s: Option<f64>,
    /// Chunks per second that arrived.
    pub(super) got_chunks_per_s: f64,
    /// Cores that this client used.
    pub(super) cores_used: f64,
    /// Its CPU time per chunk.
    pub(super) cpu_us_per_chunk: Option<f64>,
    /// Error of the gaps at p99; `null` where the server keeps no time.
    pub(super) itl_p99_ms: Option<f64>,
    /// How late the server itself wrote, p99.
    pub(super) server_late_p99_ms: Option<f64>,
    /// What was the limit, in words.
    pub(super) limited_by: String,
}

/// Where arrival stamps come from.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Stamps {
    /// `kernel` or `user space`.
    pub(super) source: String,
    /// Share of the reads with a kernel stamp.
    pub(super) kernel_share: Option<f64>,
}

/// How late a wait until an absolute instant ends, without load.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Timer {
    /// Waits.
    pub(super) n: u64,
    /// Median.
    pub(super) late_p50_us: f64,
    /// 99th percentile.
    pub(super) late_p99_us: f64,
    /// Largest.
    pub(super) late_max_us: f64,
}

/// Something this host allows, or does beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Limit {
    /// What.
    pub(super) name: String,
    /// How much, in words.
    pub(super) value: String,
    /// What follows from it.
    pub(super) effect: String,
    /// Whether it can spoil figures.
    pub(super) warning: bool,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Whether there is a load at which this host measures well, and arrivals are kept.
    pub(super) fit: bool,
    /// In one sentence.
    pub(super) sentence: String,
    /// The loads that were good and that no other good one covers, the largest rate first.
    pub(super) good: Vec<CheckedLoad>,
    /// What to do to get further.
    pub(super) remedies: Vec<String>,
}
