//! SGLang's rules of observation (`srt/managers/tokenizer_manager.py`, `srt/observability/`).
//!
//! The API process sees a request's tokens only when its output is due: every stream interval, for an answer that is
//! not streamed every 50 tokens, and at the end. Its ITL puts all n tokens of an output into one bucket. The
//! scheduler's gauges move at prefill batches and at every n-th decode step, and stand still between.

use super::registry::{Registry, Series};
use super::{Asked, Choice, Drafts, FinishReason, Load, Observation, Setup, Stamp, Step, seconds};
use crate::engine_names::{Engine, sglang};
use crate::expose::{Labels, Page};
use goodput_core::time::Nanos;
use std::collections::BTreeMap;

/// Tokens between two outputs of a request that is not streamed.
const UNSTREAMED_INTERVAL: u64 = 50;

/// How long an idle scheduler leaves its gauges alone.
const IDLE: Nanos = Nanos::from_secs(30);

/// The page of SGLang's API process and scheduler.
#[derive(Debug, Clone)]
pub struct SglangPage {
    registry: Registry,
    /// Every label of any family, for one scheduler of one rank.
    labels: Labels,
    itl: Option<Series>,
    setup: Setup,
    requests: BTreeMap<u64, Request>,
    /// Requests for several choices whose choices have not all ended.
    groups: BTreeMap<u64, Group>,
    ticks: Ticks,
}

/// A request that has not ended.
#[derive(Debug, Clone)]
struct Request {
    asked: Asked,
    arrived: Stamp,
    queued: Option<Nanos>,
    admitted: Option<Nanos>,
    /// When its first token was there, on the API process's clock.
    prefilled: Option<Nanos>,
    /// When the API process had the first output and the last one.
    first_output: Option<Nanos>,
    last_output: Nanos,
    tokens: u64,
    /// Tokens in outputs so far.
    put_out: u64,
    cached_tokens: u64,
    verifications: u64,
}

/// A request for several choices.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// Choices that have not ended.
    left: u64,
    /// Whether the prefix that they share has run.
    prefix_ran: bool,
}

/// What the scheduler has counted since its gauges last moved.
#[derive(Debug, Clone, Default)]
struct Ticks {
    decode_steps: u64,
    decode_tokens: u64,
    /// The last refresh at a decode step.
    since: Option<Nanos>,
    /// The last refresh of any kind.
    moved: Nanos,
    drafts: u64,
    proposed: u64,
    accepted: u64,
    retracted: u64,
}

impl SglangPage {
    /// The page before the first request: only what the scheduler says of itself is on it.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let edges = |group: &str| setup.edges(Engine::Sglang, group);
        let labels = Labels::new([
            ("engine_type", "unified"),
            ("model_name", &setup.model),
            ("moe_ep_rank", "0"),
            ("pp_rank", "0"),
            ("tp_rank", "0"),
            ("dp_rank", "0"),
            ("pid", "1"),
            ("cache_type", "RadixCache"),
        ]);
        let mut page = Self {
            // Pages of several processes are added up from files, which know nothing of creation times.
            registry: Registry::new(sglang::FAMILIES, edges, None),
            labels,
            itl: None,
            setup: setup.clone(),
            requests: BTreeMap::new(),
            groups: BTreeMap::new(),
            ticks: Ticks::default(),
        };
        for (name, value) in [
            ("sglang:max_total_num_tokens", setup.kv_tokens),
            ("sglang:page_size", setup.block_tokens),
            ("sglang:num_pages", setup.kv_tokens / setup.block_tokens.max(1)),
            ("sglang:context_len", setup.max_model_len),
        ] {
            page.set(name, value as f64);
        }
        page.load(Load::default());
        page
    }

    /// Takes in what happened at `stamp`.
    pub fn observe(&mut self, stamp: Stamp, observation: &Observation<'_>) {
        match *observation {
            Observation::Arrived { request, asked } => self.arrived(stamp, request, asked),
            // Nothing counts a request that a full queue turns away.
            Observation::Rejected { request, .. } => {
                self.remove(request);
            }
            Observation::Queued { request } => self.queued(stamp, request),
            Observation::Admitted { request, cached_tokens } => self.admitted(stamp, request, cached_tokens),
            Observation::Preempted { request } => {
                if self.requests.contains_key(&request) {
                    self.ticks.retracted += 1;
                    self.add("sglang:num_retracted_requests_total", 1);
                }
            }
            Observation::Step(step) => self.step(stamp, &step),
            Observation::Finished { request, reason } => self.finished(stamp, request, reason),
            Observation::GivenUp { request } => self.given_up(stamp, request),
            Observation::Load(load) => self.idle(stamp, load),
        }
    }

    /// The page as it stands, in the names of OpenMetrics.
    #[must_use]
    pub fn page(&self) -> Page {
        self.registry.page()
    }

    fn arrived(&mut self, stamp: Stamp, request: u64, asked: Asked) {
        if let Some(Choice { group, of }) = asked.choice.filter(|choice| choice.of > 1) {
            self.groups.entry(group).or_insert(Group { left: of, prefix_ran: false });
        }
        let state = Request {
            asked,
            arrived: stamp,
            queued: None,
            admitted: None,
            prefilled: None,
            first_output: None,
            last_output: stamp.frontend,
            tokens: 0,
            put_out: 0,
            cached_tokens: 0,
            verifications: 0,
        };
        self.requests.insert(request, state);
    }

    /// A request is over, and so is its group if it was the last.
    fn remove(&mut self, request: u64) -> Option<Request> {
        let state = self.requests.remove(&request)?;
        if let Some(Choice { group, .. }) = state.asked.choice
            && let Some(found) = self.groups.get_mut(&group)
        {
            found.left = found.left.saturating_sub(1);
            if found.left == 0 {
                self.groups.remove(&group);
            }
        }
        Some(state)
    }

    fn queued(&mut self, stamp: Stamp, request: u64) {
        let Some(request) = self.requests.get_mut(&request).filter(|r| r.queued.is_none()) else { return };
        request.queued = Some(stamp.engine);
        let took = seconds(request.arrived.engine, stamp.engine);
        self.stage("request_process", took);
    }

    fn admitted(&mut self, stamp: Stamp, request: u64, cached_tokens: u64) {
        let Some(request) = self.requests.get_mut(&request).filter(|r| r.admitted.is_none()) else { return };
        request.admitted = Some(stamp.engine);
        request.cached_tokens = cached_tokens;
        let waited = seconds(request.queued.unwrap_or(stamp.engine), stamp.engine);
        // The prefix that several choices share runs as a request of its own, without output, before they do.
        let group = request.asked.choice.and_then(|choice| self.groups.get_mut(&choice.group));
        let runs_now = group.is_some_and(|group| !std::mem::replace(&mut group.prefix_ran, true));
        let prefix = runs_now.then(|| Request { cached_tokens: 0, ..request.clone() });
        self.histogram("sglang:queue_time_seconds", waited);
        if let Some(prefix) = prefix {
            self.count_finished(stamp, &prefix);
        }
    }

    fn step(&mut self, stamp: Stamp, step: &Step<'_>) {
        let mut decoded = 0;
        for output in step.outputs {
            let Some(request) = self.requests.get_mut(&output.request) else { continue };
            request.tokens += output.tokens;
            if request.prefilled.is_none() {
                request.prefilled = Some(stamp.frontend);
                let took = seconds(request.admitted.unwrap_or(stamp.engine), stamp.engine);
                self.stage("prefill_forward", took);
            } else {
                decoded += output.tokens;
                request.verifications += u64::from(self.setup.speculative_tokens > 0);
            }
            self.put_out_if_due(stamp, output.request);
        }
        self.refresh(stamp, step, decoded);
    }

    /// An output at the first token of an interval: the first, the one after an interval, and so on.
    fn put_out_if_due(&mut self, stamp: Stamp, request: u64) {
        let Some(state) = self.requests.get(&request) else { return };
        let due = if state.asked.streaming {
            let interval = self.setup.stream_interval.max(1);
            state.put_out == 0 || (state.tokens - 1) / interval > (state.put_out - 1) / interval
        } else {
            state.tokens / UNSTREAMED_INTERVAL > state.put_out / UNSTREAMED_INTERVAL
        };
        if due {
            self.put_out(stamp, request);
        }
    }

    /// The API process takes an output: the first is TTFT, later ones ITL.
    fn put_out(&mut self, stamp: Stamp, request: u64) {
        let Some(state) = self.requests.get_mut(&request) else { return };
        let new = state.tokens - state.put_out;
        if new == 0 {
            return;
        }
        state.put_out = state.tokens;
        let interval = seconds(state.last_output, stamp.frontend);
        state.last_output = stamp.frontend;
        if state.first_output.is_none() {
            // Without a stream, what counts is when the scheduler had the token.
            let at = if state.asked.streaming {
                stamp.frontend
            } else {
                state.prefilled.unwrap_or(stamp.frontend)
            };
            state.first_output = Some(at);
            let (ttft, streaming) = (seconds(state.arrived.frontend, at), state.asked.streaming);
            let series = self.streaming("sglang:time_to_first_token_seconds", streaming);
            self.registry.observe(series, ttft);
        } else {
            let series = match self.itl {
                Some(series) => series,
                None => self.registry.series("sglang:inter_token_latency_seconds", &self.labels),
            };
            self.itl = Some(series);
            self.registry.observe_many(series, interval / new as f64, new, interval);
        }
    }

    fn finished(&mut self, stamp: Stamp, request: u64, reason: FinishReason) {
        if matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition) {
            self.put_out(stamp, request);
        }
        let Some(state) = self.remove(request) else { return };
        self.count_finished(stamp, &state);
        let later = state.tokens.saturating_sub(1);
        let complete = matches!(reason, FinishReason::Stop | FinishReason::Length) && later > 0;
        if let (true, Some(first)) = (complete, state.first_output) {
            let tpot = seconds(first, stamp.frontend) / later as f64;
            let series =
                self.streaming("sglang:request_time_per_output_token_seconds", state.asked.streaming);
            self.registry.observe(series, tpot);
        }
    }

    /// The API process asks for an abort. A request that runs is then ended by the scheduler as any other; one that
    /// waits is only dropped.
    fn given_up(&mut self, stamp: Stamp, request: u64) {
        let Some(state) = self.requests.get(&request) else { return };
        let ran = state.admitted.is_some();
        self.add("sglang:num_aborted_requests_total", 1);
        if ran {
            self.finished(stamp, request, FinishReason::Abort);
        } else {
            self.remove(request);
        }
    }

    /// What every request adds when it ends.
    fn count_finished(&mut self, stamp: Stamp, request: &Request) {
        let Asked { prompt_tokens, streaming, .. } = request.asked;
        for (name, amount) in [
            ("sglang:prompt_tokens_total", prompt_tokens),
            ("sglang:generation_tokens_total", request.tokens),
            ("sglang:num_requests_total", 1),
        ] {
            let series = self.streaming(name, streaming);
            self.registry.add(series, amount);
        }
        if request.cached_tokens > 0 {
            let labels = self.labels.with("cache_source", "device");
            let series = self.registry.series("sglang:cached_tokens_total", &labels);
            self.registry.add(series, request.cached_tokens);
        }
        if request.verifications > 0 {
            self.add("sglang:spec_verify_calls_total", request.verifications);
        }
        let computed = prompt_tokens.saturating_sub(request.cached_tokens);
        self.histogram("sglang:prompt_tokens_histogram", prompt_tokens as f64);
        self.histogram("sglang:uncached_prompt_tokens_histogram", computed as f64);
        self.histogram("sglang:generation_tokens_histogram", request.tokens as f64);
        let series = self.streaming("sglang:e2e_request_latency_seconds", streaming);
        self.registry.observe(series, seconds(request.arrived.frontend, stamp.frontend));
    }

    /// Moves the scheduler's figures, if this step is one at which they move.
    fn refresh(&mut self, stamp: Stamp, step: &Step<'_>, decoded: u64) {
        if step.evicted_tokens > 0 {
            self.add("sglang:evicted_tokens_total", step.evicted_tokens);
        }
        let prefilled = step.prefill_tokens + step.cached_tokens;
        if prefilled > 0 {
            let first_time = step.prefill_tokens.saturating_sub(step.recomputed_tokens);
            for (name, mode, amount) in [
                ("sglang:realtime_tokens_total", "prefill_compute", step.prefill_tokens),
                ("sglang:realtime_tokens_total", "prefill_cache", step.cached_tokens),
                ("sglang:prefill_effective_tokens_total", "input", first_time),
                ("sglang:prefill_effective_tokens_total", "device_hit", step.cached_tokens),
            ] {
                self.add_mode(name, mode, amount);
            }
            self.set("sglang:cache_hit_rate", step.cached_tokens as f64 / prefilled as f64);
            self.load(step.load);
            self.ticks.moved = stamp.engine;
        }
        let ticks = &mut self.ticks;
        ticks.since.get_or_insert(stamp.engine);
        ticks.decode_tokens += decoded;
        if let Some(Drafts { drafts, proposed, accepted }) = step.drafts {
            ticks.drafts += drafts;
            ticks.proposed += proposed;
            ticks.accepted += accepted.iter().sum::<u64>();
        }
        ticks.decode_steps += u64::from(decoded > 0);
        if decoded > 0 && ticks.decode_steps.is_multiple_of(self.setup.decode_log_interval.max(1)) {
            self.tick(stamp, step.load);
        }
    }

    /// The refresh at a decode step.
    fn tick(&mut self, stamp: Stamp, load: Load) {
        let Ticks { decode_steps, decode_tokens, since, drafts, proposed, accepted, .. } = self.ticks.clone();
        self.add_mode("sglang:realtime_tokens_total", "decode", decode_tokens);
        let took = since.map_or(0.0, |since| seconds(since, stamp.engine));
        if took > 0.0 {
            self.set("sglang:gen_throughput", decode_tokens as f64 / took);
        }
        if drafts > 0 {
            self.set("sglang:spec_accept_length", 1.0 + accepted as f64 / drafts as f64);
            self.set(
                "sglang:spec_accept_rate",
                if proposed > 0 { accepted as f64 / proposed as f64 } else { 0.0 },
            );
        }
        self.load(load);
        let now = stamp.engine;
        self.ticks = Ticks { decode_steps, since: Some(now), moved: now, ..Ticks::default() };
    }

    /// An idle scheduler says so once nothing has moved its gauges for a while.
    fn idle(&mut self, stamp: Stamp, load: Load) {
        if IDLE <= stamp.engine.since(self.ticks.moved) {
            self.load(load);
            self.set("sglang:gen_throughput", 0.0);
            self.ticks.moved = stamp.engine;
        }
    }

    /// Gauges of how full the engine is.
    fn load(&mut self, load: Load) {
        let total = self.setup.kv_tokens;
        let usage = if total > 0 { load.kv_used as f64 / total as f64 } else { 0.0 };
        let free = total.saturating_sub(load.kv_used).saturating_sub(load.kv_cached);
        for (name, value) in [
            ("sglang:num_running_reqs", load.running as f64),
            ("sglang:num_queue_reqs", (load.waiting + load.deferred) as f64),
            ("sglang:decode_sum_seq_lens", load.sequence_tokens as f64),
            ("sglang:token_usage", (usage * 100.0).round() / 100.0),
            ("sglang:full_token_usage", usage),
            ("sglang:num_used_tokens", load.kv_used as f64),
            ("sglang:kv_used_tokens", load.kv_used as f64),
            ("sglang:kv_evictable_tokens", load.kv_cached as f64),
            ("sglang:kv_available_tokens", free as f64),
            ("sglang:num_retracted_reqs", self.ticks.retracted as f64),
        ] {
            self.set(name, value);
        }
        for at_rest in [
            "sglang:num_grammar_queue_reqs",
            "sglang:gen_throughput",
            "sglang:cache_hit_rate",
            "sglang:spec_accept_length",
            "sglang:spec_accept_rate",
            "sglang:utilization",
            "sglang:num_paused_reqs",
        ] {
            self.registry.series(at_rest, &self.labels);
        }
        self.ticks.retracted = 0;
    }

    fn stage(&mut self, stage: &str, took: f64) {
        let labels = self.labels.with("stage", stage);
        let series = self.registry.series("sglang:per_stage_req_latency_seconds", &labels);
        self.registry.observe(series, took);
    }

    /// The series of a family of the API process that tells streamed answers from others.
    fn streaming(&mut self, name: &str, streaming: bool) -> Series {
        let labels = self.labels.with("is_streaming", if streaming { "true" } else { "false" });
        self.registry.series(name, &labels)
    }

    fn add(&mut self, name: &str, amount: u64) {
        let series = self.registry.series(name, &self.labels);
        self.registry.add(series, amount);
    }

    fn add_mode(&mut self, name: &str, mode: &str, amount: u64) {
        let series = self.registry.series(name, &self.labels.with("mode", mode));
        self.registry.add(series, amount);
    }

    fn set(&mut self, name: &str, value: f64) {
        let series = self.registry.series(name, &self.labels);
        self.registry.set(series, value);
    }

    fn histogram(&mut self, name: &str, value: f64) {
        let series = self.registry.series(name, &self.labels);
        self.registry.observe(series, value);
    }
}
