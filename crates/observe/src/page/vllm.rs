//! vLLM's rules of observation (`vllm/v1/metrics/stats.py`, `output_processor.py`, `parallel_sampling.py`).
//!
//! TTFT and E2E are differences of the API server's wall clock, everything else of the engine core's monotonic one.
//! A request whose client went away is dropped from the output processor without a word: what it had observed
//! stays, and nothing of its end is.

use super::registry::{Registry, Series};
use super::{Asked, Choice, Drafts, FinishReason, Load, Observation, Rejection, Setup, Stamp, Step, seconds};
use crate::engine_names::{Engine, vllm};
use crate::expose::{Labels, Page};
use goodput_core::time::Nanos;
use std::collections::BTreeMap;

/// The page of vLLM's API server over one engine core.
#[derive(Debug, Clone)]
pub struct VllmPage {
    registry: Registry,
    series: AllSeries,
    kv_tokens: u64,
    prefix_caching: bool,
    requests: BTreeMap<u64, Request>,
    /// Requests for several choices whose choices have not all ended.
    groups: BTreeMap<u64, Group>,
}

/// A request that has not ended.
#[derive(Debug, Clone)]
struct Request {
    asked: Asked,
    arrived: Stamp,
    queued: Option<Nanos>,
    admitted: Option<Nanos>,
    first_token: Option<Nanos>,
    last_token: Nanos,
    cached_tokens: u64,
    tokens: u64,
    preemptions: u64,
}

/// A request for several choices.
#[derive(Debug, Clone, Copy)]
struct Group {
    left: u64,
    longest: u64,
}

impl VllmPage {
    /// The page before the first request. All its series are there and 0, as on the real one.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let edges = |group: &str| setup.edges(Engine::Vllm, group);
        let speculation = if setup.speculative_tokens > 0 { vllm::SPECULATION } else { &[] };
        let created = Some(setup.created.as_secs_f64());
        let mut registry = Registry::new(vllm::FAMILIES.iter().chain(speculation), edges, created);
        let engine = setup.engine.to_string();
        let labels = Labels::new([("engine", engine.as_str()), ("model_name", &setup.model)]);
        let series = AllSeries::new(&mut registry, &labels, setup.speculative_tokens);
        Self {
            registry,
            series,
            kv_tokens: setup.kv_tokens,
            prefix_caching: setup.prefix_caching,
            requests: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Takes in what happened at `stamp`.
    pub fn observe(&mut self, stamp: Stamp, observation: &Observation<'_>) {
        match *observation {
            Observation::Arrived { request, asked } => self.arrived(stamp, request, asked),
            Observation::Rejected { request, reason } => {
                self.requests.remove(&request);
                let reason = match reason {
                    Rejection::QueuedRequests => 0,
                    Rejection::QueuedTokens => 1,
                };
                self.registry.add(self.series.rejected[reason], 1);
            }
            Observation::Queued { request } => {
                if let Some(request) = self.requests.get_mut(&request) {
                    request.queued.get_or_insert(stamp.engine);
                }
            }
            Observation::Admitted { request, cached_tokens } => self.admitted(stamp, request, cached_tokens),
            Observation::Preempted { request } => {
                if let Some(request) = self.requests.get_mut(&request) {
                    request.preemptions += 1;
                    self.registry.add(self.series.preemptions, 1);
                }
            }
            Observation::Step(step) => self.step(stamp, &step),
            Observation::Finished { request, reason } => self.finished(stamp, request, reason),
            Observation::GivenUp { request } => {
                if let Some(Request { asked: Asked { choice: Some(choice), .. }, .. }) =
                    self.requests.remove(&request)
                {
                    // A group without one of its choices never completes.
                    self.groups.remove(&choice.group);
                }
            }
            Observation::Load(load) => self.load(load),
        }
    }

    /// The page as it stands, in the names of OpenMetrics.
    #[must_use]
    pub fn page(&self) -> Page {
        self.registry.page()
    }

    fn arrived(&mut self, stamp: Stamp, request: u64, asked: Asked) {
        if let Some(Choice { group, of }) = asked.choice {
            self.groups.entry(group).or_insert(Group { left: of, longest: 0 });
        }
        let state = Request {
            asked,
            arrived: stamp,
            queued: None,
            admitted: None,
            first_token: None,
            last_token: stamp.engine,
            cached_tokens: 0,
            tokens: 0,
            preemptions: 0,
        };
        self.requests.insert(request, state);
    }

    fn admitted(&mut self, stamp: Stamp, request: u64, cached_tokens: u64) {
        let Some(request) = self.requests.get_mut(&request).filter(|r| r.admitted.is_none()) else { return };
        request.admitted = Some(stamp.engine);
        if self.prefix_caching {
            request.cached_tokens = cached_tokens;
            self.registry.add(self.series.queries, request.asked.prompt_tokens);
            self.registry.add(self.series.hits, cached_tokens);
            self.registry.add(self.series.cached_from_device, cached_tokens);
        }
    }

    fn step(&mut self, stamp: Stamp, step: &Step<'_>) {
        let Self { registry, series, requests, .. } = self;
        let mut iteration_tokens = 0;
        let mut any = false;
        for output in step.outputs {
            let Some(request) = requests.get_mut(&output.request) else { continue };
            any = true;
            iteration_tokens += output.tokens;
            request.tokens += output.tokens;
            registry.add(series.generation, output.tokens);
            if request.first_token.is_none() {
                request.first_token = Some(stamp.engine);
                let prompt = request.asked.prompt_tokens;
                let computed = prompt.saturating_sub(request.cached_tokens);
                iteration_tokens += computed;
                registry.add(series.prompt, prompt);
                registry.add(series.computed, computed);
                registry.add(series.found_locally, request.cached_tokens);
                registry.add(series.cached, request.cached_tokens);
                registry.observe(series.ttft, seconds(request.arrived.frontend, stamp.frontend));
            } else {
                registry.observe(series.itl, seconds(request.last_token, stamp.engine));
            }
            request.last_token = stamp.engine;
        }
        if any {
            registry.observe(series.iteration, iteration_tokens as f64);
        }
        if let (Some(drafts), Some(speculation)) = (step.drafts, &series.speculation) {
            speculation.add(registry, &drafts);
        }
        self.load(step.load);
    }

    fn finished(&mut self, stamp: Stamp, request: u64, reason: FinishReason) {
        let Some(request) = self.requests.remove(&request) else { return };
        let Self { registry, series, .. } = self;
        registry.add(series.success[finished(reason)], 1);
        let admitted = request.admitted.unwrap_or(stamp.engine);
        let first = request.first_token.unwrap_or(admitted);
        let last = if request.first_token.is_some() { request.last_token } else { first };
        let decode = seconds(first, last);
        let later = request.tokens.saturating_sub(1);
        let tpot = if later > 0 { decode / later as f64 } else { 0.0 };
        let computed = request.asked.prompt_tokens.saturating_sub(request.cached_tokens);
        for (series, value) in [
            (series.e2e, seconds(request.arrived.frontend, stamp.frontend)),
            (series.queue, seconds(request.queued.unwrap_or(admitted), admitted)),
            (series.prefill, seconds(admitted, first)),
            (series.decode, decode),
            (series.inference, seconds(admitted, last)),
            (series.tpot, tpot),
            (series.request_prompt, request.asked.prompt_tokens as f64),
            (series.request_generation, request.tokens as f64),
            (series.kv_computed, computed as f64),
            (series.request_preemptions, request.preemptions as f64),
        ] {
            registry.observe(series, value);
        }
        if let Some(max_tokens) = request.asked.max_tokens {
            registry.observe(series.max_tokens, max_tokens as f64);
        }
        self.finished_choice(&request);
    }

    /// Figures of a whole request, when the last of its choices has finished.
    fn finished_choice(&mut self, request: &Request) {
        let (of, longest) = match request.asked.choice {
            None => (1, request.tokens),
            Some(Choice { group, of }) => {
                let Some(state) = self.groups.get_mut(&group) else { return };
                state.left = state.left.saturating_sub(1);
                state.longest = state.longest.max(request.tokens);
                let Group { left, longest } = *state;
                if left > 0 {
                    return;
                }
                self.groups.remove(&group);
                (of, longest)
            }
        };
        self.registry.observe(self.series.params_n, of as f64);
        self.registry.observe(self.series.longest_choice, longest as f64);
    }

    fn load(&mut self, load: Load) {
        let Self { registry, series, .. } = self;
        let usage = if self.kv_tokens > 0 { load.kv_used as f64 / self.kv_tokens as f64 } else { 0.0 };
        registry.set(series.running, load.running as f64);
        registry.set(series.waiting, (load.waiting + load.deferred) as f64);
        registry.set(series.waiting_for_capacity, load.waiting as f64);
        registry.set(series.waiting_deferred, load.deferred as f64);
        registry.set(series.kv_usage, usage);
    }
}

/// Where a reason stands in [`vllm::FINISHED_REASONS`].
const fn finished(reason: FinishReason) -> usize {
    match reason {
        FinishReason::Stop => 0,
        FinishReason::Length => 1,
        FinishReason::Abort => 2,
        FinishReason::Error => 3,
        FinishReason::Repetition => 4,
    }
}

/// Every series that is written to.
#[derive(Debug, Clone)]
struct AllSeries {
    running: Series,
    waiting: Series,
    waiting_for_capacity: Series,
    waiting_deferred: Series,
    kv_usage: Series,
    queries: Series,
    hits: Series,
    preemptions: Series,
    prompt: Series,
    computed: Series,
    found_locally: Series,
    cached: Series,
    cached_from_device: Series,
    generation: Series,
    success: Vec<Series>,
    rejected: Vec<Series>,
    request_prompt: Series,
    request_generation: Series,
    iteration: Series,
    longest_choice: Series,
    params_n: Series,
    max_tokens: Series,
    ttft: Series,
    itl: Series,
    tpot: Series,
    e2e: Series,
    queue: Series,
    inference: Series,
    prefill: Series,
    decode: Series,
    request_preemptions: Series,
    kv_computed: Series,
    speculation: Option<Speculation>,
}

impl AllSeries {
    fn new(registry: &mut Registry, labels: &Labels, speculative_tokens: u64) -> Self {
        let mut each = |name: &str, label: &str, values: &[&str]| -> Vec<Series> {
            values.iter().map(|value| registry.series(name, &labels.with(label, value))).collect()
        };
        let by_reason = each("vllm:num_requests_waiting_by_reason", "reason", &["capacity", "deferred"]);
        let success = each("vllm:request_success_total", "finished_reason", vllm::FINISHED_REASONS);
        let rejected = each("vllm:admission_rejections_total", "reason", vllm::REJECTIONS);
        let prompts = each("vllm:prompt_tokens_by_source_total", "source", vllm::PROMPT_SOURCES);
        let caches = each("vllm:prompt_tokens_cached_by_source_total", "source", vllm::CACHE_SOURCES);
        let asleep = each("vllm:engine_sleep_state", "sleep_state", vllm::SLEEP_STATES);
        registry.set(asleep[0], 1.0);
        for never_moved in [
            "vllm:external_prefix_cache_queries_total",
            "vllm:external_prefix_cache_hits_total",
            "vllm:mm_cache_queries_total",
            "vllm:mm_cache_hits_total",
        ] {
            registry.series(never_moved, labels);
        }
        let speculation =
            (speculative_tokens > 0).then(|| Speculation::new(registry, labels, speculative_tokens));
        let mut one = |name: &str| registry.series(name, labels);
        Self {
            running: one("vllm:num_requests_running"),
            waiting: one("vllm:num_requests_waiting"),
            waiting_for_capacity: by_reason[0],
            waiting_deferred: by_reason[1],
            kv_usage: one("vllm:kv_cache_usage_perc"),
            queries: one("vllm:prefix_cache_queries_total"),
            hits: one("vllm:prefix_cache_hits_total"),
            preemptions: one("vllm:num_preemptions_total"),
            prompt: one("vllm:prompt_tokens_total"),
            computed: prompts[0],
            found_locally: prompts[1],
            cached: one("vllm:prompt_tokens_cached_total"),
            cached_from_device: caches[0],
            generation: one("vllm:generation_tokens_total"),
            success,
            rejected,
            request_prompt: one("vllm:request_prompt_tokens"),
            request_generation: one("vllm:request_generation_tokens"),
            iteration: one("vllm:iteration_tokens_total"),
            longest_choice: one("vllm:request_max_num_generation_tokens"),
            params_n: one("vllm:request_params_n"),
            max_tokens: one("vllm:request_params_max_tokens"),
            ttft: one("vllm:time_to_first_token_seconds"),
            itl: one("vllm:inter_token_latency_seconds"),
            tpot: one("vllm:request_time_per_output_token_seconds"),
            e2e: one("vllm:e2e_request_latency_seconds"),
            queue: one("vllm:request_queue_time_seconds"),
            inference: one("vllm:request_inference_time_seconds"),
            prefill: one("vllm:request_prefill_time_seconds"),
            decode: one("vllm:request_decode_time_seconds"),
            request_preemptions: one("vllm:request_num_preemptions"),
            kv_computed: one("vllm:request_prefill_kv_computed_tokens"),
            speculation,
        }
    }
}

/// Series of an engine that speculates.
#[derive(Debug, Clone)]
struct Speculation {
    drafts: Series,
    proposed: Series,
    accepted: Series,
    accepted_at: Vec<Series>,
}

impl Speculation {
    fn new(registry: &mut Registry, labels: &Labels, tokens: u64) -> Self {
        let at = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
        Self {
            drafts: registry.series("vllm:spec_decode_num_drafts_total", labels),
            proposed: registry.series("vllm:spec_decode_num_draft_tokens_total", labels),
            accepted: registry.series("vllm:spec_decode_num_accepted_tokens_total", labels),
            accepted_at: (0..tokens)
                .map(|position| registry.series(at, &labels.with("position", &position.to_string())))
                .collect(),
        }
    }

    fn add(&self, registry: &mut Registry, drafts: &Drafts<'_>) {
        registry.add(self.drafts, drafts.drafts);
        registry.add(self.proposed, drafts.proposed);
        registry.add(self.accepted, drafts.accepted.iter().sum());
        for (&series, &accepted) in self.accepted_at.iter().zip(drafts.accepted) {
            registry.add(series, accepted);
        }
    }
}
