//! The page that an engine writes of itself: the simulated engine tells what happens, and the engine's own rules of
//! observation turn it into counters, gauges and histograms.
//!
//! An [`EnginePage`] is told one [`Observation`] after the other, each with the time on both of a server's clocks.
//! It decides nothing: when a request is admitted is the engine's business, what then stands on the page is this
//! module's. The rules are in [`engine_names`](crate::engine_names), one sentence a family, and in one file an
//! engine here. Every family says in its help text that it is simulated.
//!
//! It reads no clock, and it keeps nothing of a request that has ended.

mod buckets;
mod registry;
mod sglang;
mod vllm;

use crate::engine_names::Engine;
use crate::expose::{Format, Page};
use goodput_core::time::Nanos;

pub use buckets::{BucketError, Buckets};
pub use sglang::SglangPage;
pub use vllm::VllmPage;

/// One moment on the two clocks of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The API process's clock. vLLM uses the wall clock (nanoseconds since the Unix epoch; it may step back), SGLang
    /// a monotonic one.
    pub frontend: Nanos,
    /// The engine core's or scheduler's monotonic clock.
    pub engine: Nanos,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// The most tokens that are to be generated, where the request says so.
    pub max_tokens: Option<u64>,
    /// Whether the answer is streamed.
    pub streaming: bool,
    /// Set where this is one of several choices of one request: each choice is told as a request of its own.
    pub choice: Option<Choice>,
}

/// One choice of a request for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Names the request that the choices belong to.
    pub group: u64,
    /// How many choices it has.
    pub of: u64,
}

/// Why the front end turned a request away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Too many requests wait.
    QueuedRequests,
    /// The requests that wait have too many tokens.
    QueuedTokens,
}

/// Why the engine ended a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model ended it.
    Stop,
    /// It has all the tokens it may have.
    Length,
    /// The engine gave it up.
    Abort,
    /// Something broke.
    Error,
    /// The model repeated itself.
    Repetition,
}

/// What one request got out of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Which request.
    pub request: u64,
    /// Its new tokens, at least 1.
    pub tokens: u64,
}

/// How full the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests that run.
    pub running: u64,
    /// Requests that wait for room.
    pub waiting: u64,
    /// Requests that wait for something else.
    pub deferred: u64,
    /// KV tokens that running requests hold.
    pub kv_used: u64,
    /// KV tokens that only the prefix cache holds.
    pub kv_cached: u64,
    /// Tokens of all running sequences together.
    pub sequence_tokens: u64,
}

/// The drafts that were verified in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drafts<'a> {
    /// How many: one a request that speculates.
    pub drafts: u64,
    /// Tokens proposed.
    pub proposed: u64,
    /// Tokens accepted, by place in the draft.
    pub accepted: &'a [u64],
}

/// One step of the engine, told when its outputs reach the front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step<'a> {
    /// Prompt tokens computed.
    pub prefill_tokens: u64,
    /// Those of them that a preempted request had computed before.
    pub recomputed_tokens: u64,
    /// Prompt tokens of the requests whose prefill began in it that were found in the cache.
    pub cached_tokens: u64,
    /// KV tokens that were evicted to make room.
    pub evicted_tokens: u64,
    /// New tokens, request by request; a request without new tokens is not in it.
    pub outputs: &'a [Output],
    /// Drafts verified, if the engine speculates.
    pub drafts: Option<Drafts<'a>>,
    /// How full the engine is after it.
    pub load: Load,
}

/// Something that happened in a server. One about a request that did not arrive, or has ended, changes no figure of
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation<'a> {
    /// The front end took a request in, before tokenising; on the engine's clock: its scheduler got it.
    Arrived {
        /// Its name from here on.
        request: u64,
        /// What it asks for.
        asked: Asked,
    },
    /// It was turned away at a limit of the queue.
    Rejected {
        /// Which request.
        request: u64,
        /// Which limit.
        reason: Rejection,
    },
    /// It began to wait in the engine.
    Queued {
        /// Which request.
        request: u64,
    },
    /// It was scheduled. Only the first time counts; after a preemption it may be told again.
    Admitted {
        /// Which request.
        request: u64,
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u64,
    },
    /// It lost its KV blocks and waits again.
    Preempted {
        /// Which request.
        request: u64,
    },
    /// The engine did a step.
    Step(Step<'a>),
    /// The engine ended a request; told after the step with its last tokens.
    Finished {
        /// Which request.
        request: u64,
        /// Why.
        reason: FinishReason,
    },
    /// Its client went away, and the engine drops it.
    GivenUp {
        /// Which request.
        request: u64,
    },
    /// How full the engine is, apart from a step; an engine that idles tells it before a scrape. SGLang's page moves
    /// only where nothing has moved it for 30 seconds.
    Load(Load),
}

/// What a page must know of its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The model's name, a label of almost everything.
    pub model: String,
    /// vLLM's label `engine`: the number of this engine behind its API server.
    pub engine: u32,
    /// When the process began, on the wall clock since the Unix epoch.
    pub created: Nanos,
    /// The longest request in tokens.
    pub max_model_len: u64,
    /// Tokens that the KV cache can hold.
    pub kv_tokens: u64,
    /// Tokens of one KV block or page.
    pub block_tokens: u64,
    /// Whether prompts are looked up in a prefix cache.
    pub prefix_caching: bool,
    /// Tokens of a draft; 0 without speculation.
    pub speculative_tokens: u64,
    /// SGLang's `--stream-interval`: tokens between two outputs of a streamed request.
    pub stream_interval: u64,
    /// SGLang's `--decode-log-interval`: decode steps between two refreshes of its gauges.
    pub decode_log_interval: u64,
    /// Edges that flags changed.
    pub buckets: Buckets,
}

impl Setup {
    /// A server of this model with the engines' defaults and a KV cache of 64 Ki tokens in blocks of 16.
    #[must_use]
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            engine: 0,
            created: Nanos::ZERO,
            max_model_len: 8192,
            kv_tokens: 1 << 16,
            block_tokens: 16,
            prefix_caching: true,
            speculative_tokens: 0,
            stream_interval: 1,
            decode_log_interval: 40,
            buckets: Buckets::default(),
        }
    }

    /// Upper edges of a group of an engine's histograms: those that were asked for, else the engine's own.
    fn edges(&self, engine: Engine, group: &str) -> Vec<f64> {
        let asked = self.buckets.get(group).map(<[f64]>::to_vec);
        asked.or_else(|| engine.default_edges(group, self.max_model_len)).unwrap_or_default()
    }
}

/// The page of one engine process.
#[derive(Debug, Clone)]
pub enum EnginePage {
    /// As vLLM writes it.
    Vllm(Box<VllmPage>),
    /// As SGLang writes it.
    Sglang(Box<SglangPage>),
}

impl EnginePage {
    /// vLLM's page before the first request.
    #[must_use]
    pub fn vllm(setup: &Setup) -> Self {
        Self::Vllm(Box::new(VllmPage::new(setup)))
    }

    /// SGLang's page before the first request.
    #[must_use]
    pub fn sglang(setup: &Setup) -> Self {
        Self::Sglang(Box::new(SglangPage::new(setup)))
    }

    /// Takes in what happened at `stamp`.
    pub fn observe(&mut self, stamp: Stamp, observation: &Observation<'_>) {
        match self {
            Self::Vllm(page) => page.observe(stamp, observation),
            Self::Sglang(page) => page.observe(stamp, observation),
        }
    }

    /// The page as it stands.
    #[must_use]
    pub fn page(&self, format: Format) -> Page {
        let page = match self {
            Self::Vllm(page) => page.page(),
            Self::Sglang(page) => page.page(),
        };
        match format {
            Format::OpenMetrics => page,
            Format::Text => page.in_text(),
        }
    }

    /// The bytes to answer a scrape with, under the format's `content-type`.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        self.page(format).write()
    }
}

/// Seconds from one reading of a clock to a later one; negative where the clock stepped back in between.
fn seconds(from: Nanos, to: Nanos) -> f64 {
    (i128::from(to.0) - i128::from(from.0)) as f64 / 1e9
}
