//! `manifest.json`: everything that must always be logged about a run.
//!
//! Two runs can be compared only as far as it is known in what they differ: hardware, engine and its version,
//! model, knobs, dataset, arrival process, lengths, rate or concurrency, seed, client version and flags. The
//! manifest is written when the run starts and again when it ends, each time whole, so that a killed run has
//! one that still says `running`. It holds facts; the numbers are in `summary.json`.

use crate::error::StoreError;
use crate::layout::{MANIFEST, RunDir};
use crate::version::{FORMAT, FormatVersion};
use goodput_core::plan::{
    Arrivals, Data, HttpVersion, LengthLaw, Plan, Protocol, Stop, TokenizerChoice, Warmup,
};
use goodput_core::rng::Seed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// What is known about a run beside its timelines. Keys that a later minor version adds are ignored by this
/// one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the whole run directory.
    pub format: FormatVersion,
    /// Version of the goodput that measured.
    pub goodput: String,
    /// How far the run got.
    pub status: Status,
    /// Command line, secrets already taken out by [`crate::redact::redact_command_line`].
    pub command_line: Vec<String>,
    /// What was asked for, from the plan.
    pub asked: Asked,
    /// What was found out about the server.
    pub engine: Engine,
    /// What the user says about the set-up (`--tag K=V`): quantisation, engine flags, anything no server
    /// tells.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The workload report: dataset fingerprint, kept entries, dropped entries by reason.
    #[serde(default)]
    pub workload: Value,
    /// The machine that measured.
    pub host: Host,
    /// The clock, and what it was against the wall clock.
    pub clock: Clock,
    /// How arrivals of bytes were stamped and by what.
    pub client: Client,
    /// What `goodput selfcheck` had said of this host before the run; `null` if it had not been asked.
    #[serde(default)]
    pub self_check: Option<SelfCheck>,
    /// The SLO that the run was made for, if any.
    #[serde(default)]
    pub slo: Option<SloText>,
    /// Whether the user chose the warm-up, so that what comes after it is taken as steady.
    #[serde(default)]
    pub warmup_by_hand: bool,
    /// Arrivals that the schedule had and that were never released because the run was ended first.
    #[serde(default)]
    pub never_released: u64,
    /// Anything about the environment that a reader should know, in plain words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a self-check of the host found: how far this client measures well here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// When, in seconds since 1970-01-01 UTC.
    pub at_unix_s: u64,
    /// Whether it was the short one.
    pub quick: bool,
    /// The verdict in one sentence.
    pub verdict: String,
    /// Loads at which the figures were good; empty on a host that is not fit.
    pub good: Vec<CheckedLoad>,
}

/// A load at which a self-check found the figures to be good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckedLoad {
    /// Answers at the same time.
    pub streams: u64,
    /// Token-carrying events per second, over all streams.
    pub chunks_per_s: f64,
}

/// An SLO as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "form", content = "text")]
pub enum SloText {
    /// On the command line, `ttft:500ms,tpot:50ms`.
    Inline(String),
    /// The content of an SLO file.
    File(String),
}

/// How far a run got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Status {
    /// Started. Still so after the program is gone: it was killed.
    Running,
    /// Came to its planned end.
    Complete,
    /// Ended by the user; what was finished until then is all there.
    Interrupted,
    /// Ended by a fault.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// What was asked for: the facts of the plan by which runs are compared. The whole plan is `plan.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Root seed.
    pub seed: Seed,
    /// Whether prompts were salted against warm prefix caches.
    pub salted: bool,
    /// Server roots, credentials taken out.
    pub urls: Vec<String>,
    /// Endpoint protocol.
    pub protocol: Protocol,
    /// HTTP version.
    pub http: HttpVersion,
    /// Model name in the request.
    pub model: String,
    /// Arrival process with its rate; `null` in a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Slots, or the cap of an open loop.
    pub concurrency: Option<u32>,
    /// When offering stops.
    pub stop: Stop,
    /// Requests before the measured set.
    pub warmup: Warmup,
    /// Where prompts come from.
    pub data: Data,
    /// SHA-256 of the data file.
    pub data_sha256: Option<String>,
    /// Law of prompt lengths in tokens, in words; `null`: as the data has it.
    pub input_tokens: Option<String>,
    /// Law of output lengths in tokens, in words; `null`: as the data has it.
    pub output_tokens: Option<String>,
    /// Upper bound on output tokens where the workload gives none.
    pub max_tokens: Option<u32>,
    /// Tokens of prefix shared by all prompts.
    pub prefix_tokens: u32,
    /// How tokens of prompts are counted.
    pub tokenizer: TokenizerChoice,
    /// Whether end-of-sequence was to be ignored.
    pub ignore_eos: bool,
    /// Whether the answer was streamed.
    pub stream: bool,
}

/// What was found out about the server, by asking it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Engine {
    /// `vllm`, `sglang`, `llama.cpp`, ...; `null` if it did not say.
    pub name: Option<String>,
    /// Its version, as it gives it.
    pub version: Option<String>,
    /// The model it says it serves.
    pub model: Option<String>,
    /// The longest sequence it takes, in tokens.
    pub max_model_tokens: Option<u64>,
    /// Everything else it told (answers of `/version`, `/v1/models`, `/get_server_info`, `/props`, ...), by
    /// the path that was asked.
    #[serde(default)]
    pub facts: BTreeMap<String, Value>,
}

/// The machine that measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// Its name, if it is to be stored.
    pub hostname: Option<String>,
    /// Operating system and version.
    pub os: Option<String>,
    /// Kernel version.
    pub kernel: Option<String>,
    /// Processor architecture, for example `x86_64`.
    pub arch: Option<String>,
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical cores this process may use.
    pub cores: Option<u32>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Cores a container may use by quota, for example 1.5; `null` without a limit.
    pub container_cores: Option<f64>,
    /// Memory a container may use, in bytes; `null` without a limit.
    pub container_memory_bytes: Option<u64>,
    /// Limit on open files in force.
    pub open_files_soft: Option<u64>,
    /// The most that limit can be raised to.
    pub open_files_hard: Option<u64>,
}

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Wall clock, nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// The run's clock, nanoseconds since its epoch.
    pub run_ns: u64,
}

/// The clock behind every instant of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Its name, for example `CLOCK_MONOTONIC`.
    pub source: String,
    /// Both clocks when the run began.
    pub start: Anchor,
    /// Both clocks when it ended; `null` in a killed run.
    pub end: Option<Anchor>,
    /// How much further the wall clock went than the run's between the anchors, in nanoseconds. Written by
    /// [`Clock::close`].
    pub drift_ns: Option<i64>,
    /// What one reading costs, in nanoseconds.
    pub read_cost_ns: Option<f64>,
}

impl Clock {
    /// A clock at the start of a run.
    #[must_use]
    pub fn starting(source: &str, start: Anchor, read_cost_ns: Option<f64>) -> Self {
        Self { source: source.to_owned(), start, end: None, drift_ns: None, read_cost_ns }
    }

    /// Notes the end anchor and the drift between the two.
    pub fn close(&mut self, end: Anchor) {
        let wall = i128::from(end.unix_ns) - i128::from(self.start.unix_ns);
        let run = i128::from(end.run_ns) - i128::from(self.start.run_ns);
        self.drift_ns = i64::try_from(wall - run).ok();
        self.end = Some(end);
    }
}

/// How this client worked: what bounds its own error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Client {
    /// How bytes are received, for example `epoll threads, recvmsg`.
    pub receive_path: Option<String>,
    /// Whether arrivals carry the kernel's receive stamps.
    pub kernel_stamps: Option<bool>,
    /// Threads that receive.
    pub receive_threads: Option<u32>,
    /// CPU time that they used up for every event on purpose (`--receive-work`), in nanoseconds; `null` as a rule.
    #[serde(default)]
    pub receive_work_ns: Option<u64>,
    /// All threads of the program.
    pub threads: Option<u32>,
    /// How release instants are kept, for example `thread sleep, then spin`.
    pub timer: Option<String>,
    /// How late that timer woke in a trial before the run, median, in nanoseconds.
    pub timer_late_p50_ns: Option<u64>,
    /// The same, 99th percentile.
    pub timer_late_p99_ns: Option<u64>,
    /// Processor time this program used during the run, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// The most memory it used, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// Processor cores it used on average over the run.
    #[serde(default)]
    pub cores_used: Option<f64>,
    /// Times a receive thread woke up and found something to do.
    #[serde(default)]
    pub wakeups: Option<u64>,
    /// Reads that brought data.
    #[serde(default)]
    pub reads: Option<u64>,
    /// Of those, with a kernel stamp.
    #[serde(default)]
    pub stamped_reads: Option<u64>,
    /// Connections that were ready before the run began.
    #[serde(default)]
    pub warm_connections: Option<u64>,
    /// What opening them took: the median, in milliseconds. It is in no latency.
    #[serde(default)]
    pub connect_p50_ms: Option<f64>,
    /// The 99th percentile, in milliseconds.
    #[serde(default)]
    pub connect_p99_ms: Option<f64>,
    /// The slowest of them, in milliseconds.
    #[serde(default)]
    pub connect_max_ms: Option<f64>,
    /// Why fewer were ready than wanted.
    #[serde(default)]
    pub connect_failure: Option<String>,
    /// Requests that went out on a connection that was ready.
    #[serde(default)]
    pub requests_on_ready_connections: Option<u64>,
    /// Requests that had to open one.
    #[serde(default)]
    pub requests_that_connected: Option<u64>,
    /// Idle connections found dead before use.
    #[serde(default)]
    pub stale_connections_dropped: Option<u64>,
    /// Times a receive thread had to wait because records were not taken fast enough.
    #[serde(default)]
    pub record_stalls: Option<u64>,
    /// Whether the server refused to report token counts.
    #[serde(default)]
    pub usage_refused: Option<bool>,
}

impl Asked {
    /// The comparable facts of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (target, workload) = (&plan.target, &plan.workload);
        Self {
            seed: plan.seed,
            salted: plan.salt.is_some(),
            urls: target.urls.iter().map(|url| crate::redact::redact_text(url)).collect(),
            protocol: target.protocol,
            http: target.http,
            model: target.model.clone(),
            arrivals: plan.load.arrivals.clone(),
            concurrency: plan.load.concurrency,
            stop: plan.stop,
            warmup: plan.warmup,
            data: workload.data.clone(),
            data_sha256: workload.data_sha256.clone(),
            input_tokens: workload.input_tokens.as_ref().map(length_in_words),
            output_tokens: workload.output_tokens.as_ref().map(length_in_words),
            max_tokens: plan.request.max_tokens,
            prefix_tokens: workload.prefix_tokens,
            tokenizer: workload.tokenizer.clone(),
            ignore_eos: plan.request.ignore_eos,
            stream: plan.request.stream,
        }
    }
}

/// A length law as the command line spells it; the values of an empirical one stay in the plan.
fn length_in_words(law: &LengthLaw) -> String {
    match law {
        LengthLaw::Fixed { tokens } => tokens.to_string(),
        LengthLaw::Uniform { min, max } => format!("uniform({min},{max})"),
        LengthLaw::Lognormal { mean, cv, max: None } => format!("lognormal(mean={mean},cv={cv})"),
        LengthLaw::Lognormal { mean, cv, max: Some(max) } => {
            format!("lognormal(mean={mean},cv={cv},max={max})")
        }
        LengthLaw::Empirical { values } => format!("empirical({} values)", values.len()),
    }
}

impl Manifest {
    /// The manifest of a run that is about to start, with nothing known about server, host and client yet.
    #[must_use]
    pub fn starting(plan: &Plan, clock: Clock) -> Self {
        Self {
            format: FORMAT,
            goodput: env!("CARGO_PKG_VERSION").to_owned(),
            status: Status::Running,
            command_line: Vec::new(),
            asked: Asked::of(plan),
            engine: Engine::default(),
            tags: BTreeMap::new(),
            workload: Value::Null,
            host: Host::default(),
            clock,
            client: Client::default(),
            self_check: None,
            slo: None,
            warmup_by_hand: false,
            never_released: 0,
            notes: Vec::new(),
        }
    }

    /// Writes `manifest.json`, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError::Io`], or [`StoreError::Content`] for a member without JSON form.
    pub fn write(&self, run: &RunDir) -> Result<(), StoreError> {
        run.write_json(MANIFEST, self)
    }

    /// Reads `manifest.json`, the version first.
    ///
    /// # Errors
    /// [`StoreError::NotARun`] if there is none or another program wrote it, [`StoreError::Version`] if
    /// another major format did, [`StoreError::Content`] if it is broken.
    pub fn read(run: &RunDir) -> Result<Self, StoreError> {
        /// All that must stay in place for ever.
        #[derive(Deserialize)]
        struct Head {
            format: FormatVersion,
        }
        let path = run.file(MANIFEST);
        let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(StoreError::content("JSON", &path))?;
        let head = Head::deserialize(&value).map_err(|e| StoreError::NotARun {
            path: run.path().to_owned(),
            reason: format!("its manifest.json was not written by goodput ({e})"),
        })?;
        head.format.check_readable(&path)?;
        Self::deserialize(value).map_err(StoreError::content("a manifest", &path))
    }
}
