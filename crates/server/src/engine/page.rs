//! The metrics page, told from what the engines say.
//!
//! The page gets the instants of the engine, mapped to the server's clock, and not those at which this server came to
//! write: it states what happened in the engine. Several replicas are told as one engine whose gauges are sums.
//!
//! The engine does not say everything that a page could hold: evicted and recomputed tokens and the cache's own share of
//! the blocks stay 0.

use goodput_core::time::Nanos;
use goodput_model::cluster::Cluster;
use goodput_model::config::Config;
use goodput_model::event::{Counters, EventKind, StepStats};
use goodput_model::policy::EngineName;
use goodput_model::request::{End, Reject};
use goodput_observe::expose::Format;
use goodput_observe::page::{
    Asked, Buckets, Drafts, EnginePage, FinishReason, Load, Observation, Output, Rejection, Setup, Stamp,
    Step,
};

/// A page and what of a step has been heard.
#[derive(Debug)]
pub(crate) struct Told {
    page: EnginePage,
    name: EngineName,
    block_tokens: u64,
    /// Unix time of the server's zero.
    anchor: Nanos,
    replicas: Vec<Heard>,
}

/// What one replica has said since its last step.
#[derive(Debug, Default)]
struct Heard {
    outputs: Vec<Output>,
    finished: Vec<u64>,
    cached_tokens: u64,
    drafts: Counters,
}

impl Told {
    /// The page of engines of this configuration.
    pub(crate) fn new(config: &Config, cluster: &Cluster, labels: (&str, Buckets), anchor: Nanos) -> Self {
        let replicas = cluster.engines().len();
        let setup = Setup {
            created: anchor,
            max_model_len: u64::from(config.max_model_len),
            kv_tokens: config.kv_tokens() * replicas as u64,
            block_tokens: u64::from(config.block_size),
            prefix_caching: config.prefix_caching,
            speculative_tokens: u64::from(config.drafts()),
            stream_interval: u64::from(config.stream_interval),
            buckets: labels.1,
            ..Setup::new(labels.0)
        };
        let name = config.policy.engine();
        Self {
            page: match name {
                EngineName::Vllm => EnginePage::vllm(&setup),
                EngineName::Sglang => EnginePage::sglang(&setup),
            },
            name,
            block_tokens: u64::from(config.block_size),
            anchor,
            replicas: std::iter::repeat_with(Heard::default).take(replicas).collect(),
        }
    }

    /// A request came in.
    pub(crate) fn arrived(&mut self, at: Nanos, request: u64, asked: Asked) {
        self.tell(at, &Observation::Arrived { request, asked });
    }

    /// Its client went away.
    pub(crate) fn given_up(&mut self, at: Nanos, request: u64) {
        self.tell(at, &Observation::GivenUp { request });
    }

    /// Takes in an event at the server's instant `at`. `cluster` is what it happened in.
    pub(crate) fn event(&mut self, at: Nanos, replica: usize, kind: &EventKind, cluster: &Cluster) {
        match kind {
            EventKind::Queued { id } => self.tell(at, &Observation::Queued { request: id.0 }),
            EventKind::Rejected { id, reason } => self.rejected(at, id.0, *reason),
            EventKind::Admitted { id, cached_tokens } => {
                let cached_tokens = u64::from(*cached_tokens);
                self.replicas[replica].cached_tokens += cached_tokens;
                self.tell(at, &Observation::Admitted { request: id.0, cached_tokens });
            }
            EventKind::Preempted { id } => self.tell(at, &Observation::Preempted { request: id.0 }),
            EventKind::Tokens { id, tokens } => {
                let output = Output { request: id.0, tokens: u64::from(*tokens) };
                self.replicas[replica].outputs.push(output);
            }
            EventKind::Finished(truth) if truth.end == End::Length => {
                self.replicas[replica].finished.push(truth.id.0);
            }
            EventKind::Step(stats) => self.step(at, replica, stats, cluster),
            EventKind::Finished(_) | EventKind::Prefilled { .. } => {}
        }
    }

    /// The answer to a scrape at `at`: its content type and its bytes.
    pub(crate) fn scrape(&mut self, at: Nanos, accept: &str, cluster: &Cluster) -> (&'static str, String) {
        let load = self.load(cluster);
        self.tell(at, &Observation::Load(load));
        let format = Format::negotiate(accept);
        (format.content_type(), self.page.render(format))
    }

    fn rejected(&mut self, at: Nanos, request: u64, reason: Reject) {
        match reason {
            Reject::QueueFull { .. } => {
                self.tell(at, &Observation::Rejected { request, reason: Rejection::QueuedRequests });
            }
            Reject::QueueTokens { .. } => {
                self.tell(at, &Observation::Rejected { request, reason: Rejection::QueuedTokens });
            }
            // Refused as a bad request, before the engine.
            Reject::TooLong { .. } | Reject::Empty => self.given_up(at, request),
        }
    }

    fn step(&mut self, at: Nanos, replica: usize, stats: &StepStats, cluster: &Cluster) {
        let load = self.load(cluster);
        let Heard { outputs, finished, cached_tokens, drafts } = std::mem::take(&mut self.replicas[replica]);
        let counters = cluster.engines()[replica].counters();
        let accepted: Vec<u64> = counters
            .accepted_at
            .iter()
            .enumerate()
            .map(|(place, sum)| sum - drafts.accepted_at.get(place).copied().unwrap_or_default())
            .collect();
        let verified = Drafts {
            drafts: counters.drafts - drafts.drafts,
            proposed: counters.draft_tokens - drafts.draft_tokens,
            accepted: &accepted,
        };
        let step = Step {
            prefill_tokens: u64::from(stats.prefill_tokens),
            cached_tokens,
            outputs: &outputs,
            drafts: (verified.drafts > 0).then_some(verified),
            load,
            ..Step::default()
        };
        self.tell(at, &Observation::Step(step));
        for request in finished {
            self.tell(at, &Observation::Finished { request, reason: FinishReason::Length });
        }
        let sums = Counters {
            drafts: counters.drafts,
            draft_tokens: counters.draft_tokens,
            accepted_at: counters.accepted_at.clone(),
            ..Counters::default()
        };
        self.replicas[replica].drafts = sums;
    }

    fn load(&self, cluster: &Cluster) -> Load {
        let gauges = cluster.gauges();
        Load {
            running: u64::from(gauges.running),
            waiting: u64::from(gauges.waiting),
            kv_used: u64::from(gauges.kv_used) * self.block_tokens,
            ..Load::default()
        }
    }

    fn tell(&mut self, at: Nanos, observation: &Observation<'_>) {
        let frontend = match self.name {
            EngineName::Vllm => self.anchor.saturating_add(at),
            EngineName::Sglang => at,
        };
        self.page.observe(Stamp { frontend, engine: at }, observation);
    }
}
