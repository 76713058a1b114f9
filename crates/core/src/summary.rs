//! `summary.json`: the stable names under which a run's numbers are published.
//!
//! Undefined is `null`, never 0; there is no NaN and no infinity. New keys may come in minor versions of
//! [`SCHEMA`]; a key never changes its meaning.

use crate::truth::TruthReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema name and version written into every summary.
pub const SCHEMA: &str = "goodput.summary/1.1";

/// Every number of one run, under one ruler, over one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// Run name (the directory's).
    pub run: Option<String>,
    /// Name of the ruler.
    pub ruler: String,
    /// Whether the run was cut off before its end, and the figures cover what was finished.
    pub partial: bool,
    /// Requests and how they ended.
    pub counts: Counts,
    /// The window the figures cover.
    pub window: Window,
    /// The other window, if there are two: the whole run beside the steady state or the reverse.
    pub windows: Vec<Window>,
    /// The offered load.
    pub load: LoadReport,
    /// What the requests were sent on. Since 1.1.
    #[serde(default)]
    pub connections: Connections,
    /// The four throughputs.
    pub throughput: Throughput,
    /// Requests in the system.
    pub concurrency: Concurrency,
    /// Token counts and their sources.
    pub tokens: Tokens,
    /// Distributions by metric name; only metrics the ruler defines.
    pub metrics: BTreeMap<String, Distribution>,
    /// Long gaps in the streams.
    pub stalls: Stalls,
    /// Goodput, if an SLO was given.
    pub goodput: Option<GoodputReport>,
    /// How far the figures are from what the server itself did, if its record was at hand. Since 1.1.
    #[serde(default)]
    pub truth: Option<TruthReport>,
    /// What a reader should know, most severe first.
    pub findings: Vec<Finding>,
}

/// Requests of the measured set and how they ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests released in the window, failed ones included.
    pub issued: u64,
    /// Requests with a whole answer.
    pub ok: u64,
    /// Number by outcome name; every outcome is listed, zeros too.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests cut off by the run's own end; with an SLO only those that had broken none of its limits.
    pub censored: u64,
    /// Warm-up requests, which are in no other figure.
    pub warmup: u64,
    /// Arrivals that the schedule had and that were never released (the run was stopped before).
    pub never_released: u64,
    /// Requests sent a second time because a reused connection turned out dead.
    pub stale_retries: u64,
}

/// What part of the run the figures cover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// `whole` or `steady`.
    pub kind: String,
    /// Seconds from the run's epoch to the window's start.
    pub start_s: f64,
    /// Seconds from the run's epoch to the window's end.
    pub end_s: f64,
    /// `end_s - start_s`.
    pub duration_s: f64,
    /// Measured requests that start inside.
    pub requests: u64,
    /// How it was found, in words.
    pub how: String,
}

/// The load: asked, scheduled by the seed, and really sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// `open`, `closed` or `trace`.
    pub kind: String,
    /// The law's rate; `null` in a closed loop and for `inf`.
    pub asked_rps: Option<f64>,
    /// What the seed drew: (n-1) / (last scheduled - first scheduled); `null` for fewer than two or no span.
    pub scheduled_rps: Option<f64>,
    /// What was really sent, by the same formula over the sent instants.
    pub offered_rps: Option<f64>,
    /// Slots, or the cap of an open loop.
    pub concurrency: Option<u32>,
    /// Sent minus scheduled.
    pub lateness_ms: Option<Lateness>,
    /// Read minus arrived, over every stream event for which it is known: those whose arrival the kernel stamped. A
    /// fact about this machine; what of it is in the figures is `error_bound_ms`.
    pub read_lateness_ms: Option<Lateness>,
    /// What this client can have added to the latencies.
    #[serde(default)]
    pub error_bound_ms: ErrorBound,
    /// The gaps of the sent stream.
    pub gaps: Option<GapCheck>,
    /// Whether the client, and not the server, limited the run.
    pub client_limited: bool,
    /// Why.
    pub reasons: Vec<String>,
    /// What to do about each of the reasons, in their order. Since 1.1.
    #[serde(default)]
    pub remedies: Vec<String>,
}

/// Percentiles of a delay that is not the server's work, in milliseconds: this client's lateness, or the set-up of
/// connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// What the client itself can have added to the latencies of successful requests, at the 99th percentile (inverse
/// CDF), in milliseconds.
///
/// - An event with a kernel stamp of its own, as the last one of its read: nothing, however late it was read.
/// - An earlier event of a shared read, or one without a kernel stamp: the time back to the instant before which none of
///   the bytes can have come, as the receive thread recorded it (`early_ns` in `chunks.parquet`). It covers the time for
///   which that thread was at other work or waiting for a core.
/// - Unknown where nothing bounds it (HTTP/2, and runs of a format before 1.1).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorBound {
    /// Over requests: of the first token event, and under a ruler that starts at the schedule also what the client was
    /// late in sending, without a cap's wait and the set-up of a connection. `null` if unknown, or without any TTFT.
    pub ttft_p99: Option<f64>,
    /// Over the gaps between successive token events of a request: the larger one of both ends. `null` if unknown, or
    /// without any gap.
    pub itl_p99: Option<f64>,
    /// Why `ttft_p99` is `null`, in words that follow "because". Since 1.1.
    #[serde(default)]
    pub ttft_unknown: Option<String>,
    /// Why `itl_p99` is `null`. Since 1.1.
    #[serde(default)]
    pub itl_unknown: Option<String>,
}

/// Whether the stream that was sent follows the asked law: the gaps one by one, and the counts over windows. A stream of
/// the law fails at most once in a thousand runs. A changing rate is measured in expected arrivals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GapCheck {
    /// The law, by name.
    pub law: String,
    /// Coefficient of variation of the sent gaps.
    pub cv: f64,
    /// What the law asks for.
    pub asked_cv: f64,
    /// Kolmogorov-Smirnov distance of the sent gaps from the law at the asked rate, beyond `resolution_ms`.
    pub ks: Option<f64>,
    /// Its p-value, an upper bound.
    pub ks_p: Option<f64>,
    /// What an instant of sending can be kept to; gaps are equal up to it. In milliseconds. Since 1.1.
    #[serde(default)]
    pub resolution_ms: f64,
    /// Index of dispersion: variance over mean of the arrivals in equal windows with about as many arrivals each as there
    /// are windows. 1 for a Poisson process, near the squared coefficient of variation for other laws, more for bursts.
    /// `null` for too few arrivals. Since 1.1.
    #[serde(default)]
    pub dispersion: Option<f64>,
    /// The least that the law allows. Since 1.1.
    #[serde(default)]
    pub dispersion_low: Option<f64>,
    /// The most that the law allows. Since 1.1.
    #[serde(default)]
    pub dispersion_high: Option<f64>,
    /// Number of windows. Since 1.1.
    #[serde(default)]
    pub dispersion_windows: Option<u64>,
    /// `pass`, `fail` or `too_few`.
    pub verdict: String,
    /// Which test failed and by how much, and the cap if it held requests back. Since 1.1.
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// The connections of the requests of the window, those that failed included; one that never was sent is in no count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Requests that had to set up a connection of their own.
    pub opened: u64,
    /// Requests that were the first on a connection that was ready beforehand.
    pub ready: u64,
    /// Requests on a connection that had carried others.
    pub reused: u64,
    /// What the set-up of their own connections took (TCP and TLS). In an open loop it is part of the latency from the
    /// schedule; `null` if no request needed one.
    pub setup_ms: Option<Lateness>,
}

/// Always all four. Tokens, never chunks. Work counts where it was completed: in a steady window these are the
/// requests that ended in it, which above capacity are fewer than those that started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Completed requests per second.
    pub requests_per_s: Option<f64>,
    /// Prompt tokens of completed requests per second.
    pub input_tokens_per_s: Option<f64>,
    /// Output tokens of completed requests per second.
    pub output_tokens_per_s: Option<f64>,
    /// Both.
    pub total_tokens_per_s: Option<f64>,
    /// Most output tokens in one second, by the ruler's rule; canonical: a sliding second in steps of 1 ms.
    pub peak_output_tokens_per_s: Option<f64>,
}

/// Requests in the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// Mean number in flight over the window: the integral of the step function from sent to closed, over the
    /// duration. What a request waits inside this client is not in flight.
    pub mean: Option<f64>,
    /// Largest number at one instant, by the ruler's rule; canonical: half-open intervals from sent to closed, so
    /// that a departure comes before an arrival at the same instant.
    pub peak: u64,
    /// lambda * W / L, with lambda and W from the requests of the window and L from the integral: 1 over a whole
    /// run, off 1 where requests reach over the window's edges.
    pub little_ratio: Option<f64>,
}

/// Token counts and how they are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// Prompt tokens of ok requests.
    pub input: u64,
    /// Output tokens of ok requests.
    pub output: u64,
    /// Ok requests by the source of their output count.
    pub sources: BTreeMap<String, u64>,
    /// Token-carrying chunks per output token: 1 when every chunk carries one token, below 1 when chunks bundle
    /// several.
    pub chunks_per_token: Option<f64>,
    /// Prompt tokens that the server said came from its prefix cache, where it said so.
    pub cached_input: Option<u64>,
    /// Ok requests whose per-chunk token counts do not add up to the server's total.
    pub mismatched: u64,
}

/// One metric's distribution. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Unit of every value here.
    pub unit: String,
    /// What one sample is: `request` or `gap` or `token`.
    pub sample: String,
    /// Number of samples.
    pub n: u64,
    /// Successful requests for which the metric is undefined.
    pub undefined: u64,
    /// Mean; `null` as well where samples are lower limits.
    pub mean: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Percentiles by name (`p50`, `p99`, `p99.9`), in JSON beside the other members.
    #[serde(flatten)]
    pub percentiles: BTreeMap<String, Quantile>,
}

/// One percentile with its interval and how well the sample carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// The value.
    pub value: Option<f64>,
    /// Lower end of the interval; `null` if the sample gives none.
    pub low: Option<f64>,
    /// Upper end of the interval; `null` if the sample gives none.
    pub high: Option<f64>,
    /// `ok`, `weak` or `anecdote`, by the number of samples beyond the quantile.
    pub support: String,
    /// How value and interval were made, for example `linear, order statistics 95 %` or
    /// `linear, time-block bootstrap 95 %, 50 blocks`, and `a lower limit` where the value is one.
    pub method: String,
}

/// Long gaps in the streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Gaps longer than this count.
    pub threshold_ms: f64,
    /// Number of such gaps.
    pub count: u64,
    /// Requests with at least one.
    pub requests: u64,
    /// Time spent in them.
    pub total_ms: f64,
    /// The longest gap of the run.
    pub max_itl_ms: Option<f64>,
    /// The request it belongs to.
    pub max_itl_request: Option<u64>,
}

/// Goodput under one SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoodputReport {
    /// The SLO as text.
    pub slo: String,
    /// Good requests that complete in the window, per second.
    pub request_per_s: Option<f64>,
    /// Output tokens of those requests per second.
    pub token_per_s: Option<f64>,
    /// Good requests.
    pub good: u64,
    /// Requests that count: issued, without the censored and the not evaluable ones.
    pub evaluated: u64,
    /// good / evaluated with a Wilson interval.
    pub attainment: Attainment,
    /// By objective.
    pub per_objective: Vec<ObjectiveReport>,
    /// Verdicts for percentile objectives.
    pub verdicts: Vec<PercentileVerdict>,
    /// Requests that met an objective because it cannot apply to them (TPOT of one token).
    pub vacuous: u64,
    /// Ok requests whose objective could not be evaluated; in neither count.
    pub not_evaluable: u64,
    /// Requests cut off by the run's end that had broken nothing; in neither count.
    pub censored: u64,
    /// Whether the SLO came inline and so lacks window, workload and load.
    pub inline: bool,
}

/// A share with its 95 % Wilson interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attainment {
    /// The share, 0 to 1.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// One objective's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveReport {
    /// Metric name.
    pub metric: String,
    /// The limit (ms for times), inclusive.
    pub limit: f64,
    /// Requests that met it.
    pub met: u64,
    /// Requests that broke it (failed requests break every objective).
    pub broken: u64,
    /// met / (met + broken).
    pub attainment: Option<f64>,
}

/// "p95 TTFT <= 500 ms": pass, fail or undecided. Failed requests count as slower than any limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PercentileVerdict {
    /// The objective as text.
    pub objective: String,
    /// `pass`, `fail` or `undecided` (the interval straddles the limit).
    pub verdict: String,
    /// The percentile by inverse CDF; `null` if it falls on a failed request.
    pub value: Option<f64>,
    /// Lower end of its interval (order statistics where a sample is a request, else as beside the metric); `null`
    /// if the sample gives none or it falls on a failed request.
    pub low: Option<f64>,
    /// Upper end of its interval; `null` if the sample gives none or it falls on a failed request.
    pub high: Option<f64>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The run, or a part of it, must not be used.
    Invalid,
    /// Read the figures with this in mind.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something a reader should know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable rule id.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// In plain words.
    pub message: String,
    /// The figures and record ids that led to it.
    pub evidence: Vec<String>,
    /// Which figures it touches.
    pub invalidates: Vec<String>,
    /// What to do.
    pub remedy: String,
}
