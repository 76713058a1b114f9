//! vLLM's families, as its Python API server writes them (0.32 and 0.33): names, labels and edges from
//! `vllm/v1/metrics/loggers.py` and `buckets.py`, rules from `vllm/v1/metrics/stats.py`, checked against a recorded
//! page.
//!
//! Two clocks: arrival, TTFT and E2E are on the API server's wall clock, the phases and ITL on the engine core's
//! monotonic one, so they do not add up. TTFT and ITL are observed when they happen and everything else when a
//! request finishes, so over a window they speak of different requests; one that its client gave up leaves its TTFT
//! and ITL behind and nothing else.

use super::{Clock, Merge, Spec, counter, gauge, histogram};

/// Labels of almost every family.
const BASE: &[&str] = &["engine", "model_name"];
const SOURCE: &[&str] = &["engine", "model_name", "source"];

/// The group of edges that count a request's tokens; they follow the longest request the model can take.
pub const REQUEST_TOKENS: &str = "request_tokens";

/// Edges by group, +Inf left out. Their names are those that `--custom-histogram-buckets` takes.
pub const EDGES: &[(&str, &[f64])] = &[
    (
        "request_latency",
        &[
            0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
            480.0, 960.0, 1920.0, 7680.0,
        ],
    ),
    (
        "time_to_first_token",
        &[
            0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
            40.0, 80.0, 160.0, 640.0, 2560.0,
        ],
    ),
    (
        "inter_token_latency",
        &[
            0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
            40.0, 80.0,
        ],
    ),
    (
        "iteration_tokens",
        &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0],
    ),
    ("request_params_n", &[1.0, 2.0, 5.0, 10.0, 20.0]),
    ("request_num_preemptions", &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0]),
];

/// The 1-2-5 series up to the longest request, in tokens.
pub(super) fn request_token_edges(max_model_len: u64) -> Vec<f64> {
    let decades = (0..20).map(|exponent| 10_u64.saturating_pow(exponent));
    let series = decades.flat_map(|ten| [1, 2, 5].map(|m| ten.saturating_mul(m)));
    series.take_while(|&edge| edge <= max_model_len).map(|edge| edge as f64).collect()
}

/// Values of `finished_reason`, all of which stand on the page from the start.
pub const FINISHED_REASONS: &[&str] = &["stop", "length", "abort", "error", "repetition"];
/// Values of `reason` of a rejection.
pub const REJECTIONS: &[&str] = &["max_num_queued_reqs", "max_num_queued_tokens"];
/// Values of `source` of prompt tokens.
pub const PROMPT_SOURCES: &[&str] = &["local_compute", "local_cache_hit", "external_kv_transfer"];
/// Values of `source` of cached prompt tokens.
pub const CACHE_SOURCES: &[&str] = &["device", "host", "p2p", "disk", "external_unspecified"];
/// Values of `sleep_state`.
pub const SLEEP_STATES: &[&str] = &["awake", "weights_offloaded", "discard_all"];

/// Families of the page that requests fill.
pub const FAMILIES: &[Spec] = &[
    gauge(
        "vllm:num_requests_running",
        BASE,
        Merge::Sum,
        "requests in the engine's batches, set at every step",
    ),
    gauge("vllm:num_requests_waiting", BASE, Merge::Sum, "requests that wait, deferred ones among them"),
    gauge(
        "vllm:num_requests_waiting_by_reason",
        &["engine", "model_name", "reason"],
        Merge::Sum,
        "requests that wait, by reason: capacity or deferred",
    ),
    gauge(
        "vllm:engine_sleep_state",
        &["engine", "model_name", "sleep_state"],
        Merge::Max,
        "1 for the state that the engine is in, awake unless it was put to sleep",
    ),
    gauge(
        "vllm:kv_cache_usage_perc",
        BASE,
        Merge::Mean,
        "share of the KV blocks in use, 0 to 1 despite the name",
    ),
    counter(
        "vllm:prefix_cache_queries_total",
        BASE,
        "prompt tokens looked up, once a request at its admission",
    ),
    counter("vllm:prefix_cache_hits_total", BASE, "prompt tokens found, once a request at its admission"),
    counter("vllm:external_prefix_cache_queries_total", BASE, "prompt tokens looked up in other instances"),
    counter("vllm:external_prefix_cache_hits_total", BASE, "prompt tokens found in other instances"),
    counter("vllm:mm_cache_queries_total", BASE, "multi-modal items looked up"),
    counter("vllm:mm_cache_hits_total", BASE, "multi-modal items found"),
    counter("vllm:num_preemptions_total", BASE, "preemptions, each time a request loses its blocks"),
    counter(
        "vllm:prompt_tokens_total",
        BASE,
        "the whole prompt, cached tokens included, when the first token appears",
    ),
    counter(
        "vllm:prompt_tokens_by_source_total",
        SOURCE,
        "prompt tokens by where they came from, at the first token",
    ),
    counter(
        "vllm:prompt_tokens_cached_total",
        BASE,
        "prompt tokens that were found in a cache, at the first token",
    ),
    counter(
        "vllm:prompt_tokens_cached_by_source_total",
        SOURCE,
        "cached prompt tokens by tier, at admission",
    ),
    counter("vllm:generation_tokens_total", BASE, "tokens generated, at every step"),
    counter(
        "vllm:request_success_total",
        &["engine", "finished_reason", "model_name"],
        "requests that the engine finished, by reason; those that a client gave up are not in it",
    ),
    counter(
        "vllm:admission_rejections_total",
        &["model_name", "reason"],
        "requests that a limit of the front end's queue turned away",
    ),
    histogram(
        "vllm:request_prompt_tokens",
        BASE,
        REQUEST_TOKENS,
        Clock::None,
        "prompt tokens, at the finish",
    ),
    histogram(
        "vllm:request_generation_tokens",
        BASE,
        REQUEST_TOKENS,
        Clock::None,
        "tokens generated, at the finish",
    ),
    histogram(
        "vllm:iteration_tokens_total",
        BASE,
        "iteration_tokens",
        Clock::None,
        "per step with output: tokens generated, and the computed prompt tokens of requests whose first token it has",
    ),
    histogram(
        "vllm:request_max_num_generation_tokens",
        BASE,
        REQUEST_TOKENS,
        Clock::None,
        "the longest output among a request's choices, when the last of them finishes",
    ),
    histogram(
        "vllm:request_params_n",
        BASE,
        "request_params_n",
        Clock::None,
        "choices asked for, once a request when the last of them finishes",
    ),
    histogram(
        "vllm:request_params_max_tokens",
        BASE,
        REQUEST_TOKENS,
        Clock::None,
        "the most tokens asked for, at the finish",
    ),
    histogram(
        "vllm:time_to_first_token_seconds",
        BASE,
        "time_to_first_token",
        Clock::FrontendWall,
        "from arrival, before tokenisation, until the front end has the first output",
    ),
    histogram(
        "vllm:inter_token_latency_seconds",
        BASE,
        "inter_token_latency",
        Clock::Engine,
        "between two steps with output for a request: one sample a step, however many tokens it brought",
    ),
    histogram(
        "vllm:request_time_per_output_token_seconds",
        BASE,
        "inter_token_latency",
        Clock::Engine,
        "decode time over tokens after the first, at the finish; 0 for one token",
    ),
    histogram(
        "vllm:e2e_request_latency_seconds",
        BASE,
        "request_latency",
        Clock::FrontendWall,
        "from arrival until the front end has the last output, at the finish",
    ),
    histogram(
        "vllm:request_queue_time_seconds",
        BASE,
        "request_latency",
        Clock::Engine,
        "from queued to first scheduled, at the finish",
    ),
    histogram(
        "vllm:request_inference_time_seconds",
        BASE,
        "request_latency",
        Clock::Engine,
        "from first scheduled to the last token, at the finish",
    ),
    histogram(
        "vllm:request_prefill_time_seconds",
        BASE,
        "request_latency",
        Clock::Engine,
        "from first scheduled to the first token, preemptions included, at the finish",
    ),
    histogram(
        "vllm:request_decode_time_seconds",
        BASE,
        "request_latency",
        Clock::Engine,
        "from the first token to the last, at the finish",
    ),
    histogram(
        "vllm:request_num_preemptions",
        BASE,
        "request_num_preemptions",
        Clock::None,
        "how often a request was preempted, at the finish",
    ),
    histogram(
        "vllm:request_prefill_kv_computed_tokens",
        BASE,
        REQUEST_TOKENS,
        Clock::None,
        "prompt tokens that were computed, cached ones left out, at the finish",
    ),
];

/// Families that stand on the page of an engine that speculates.
pub const SPECULATION: &[Spec] = &[
    counter("vllm:spec_decode_num_drafts_total", BASE, "drafts verified: one a speculating request and step"),
    counter("vllm:spec_decode_num_draft_tokens_total", BASE, "draft tokens proposed"),
    counter("vllm:spec_decode_num_accepted_tokens_total", BASE, "draft tokens accepted"),
    counter(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        &["engine", "model_name", "position"],
        "draft tokens accepted, by their place in the draft",
    ),
];

/// Families on a real page that are not in [`FAMILIES`], by how their names begin, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("python_", "of the Python process"),
    ("process_", "of the Python process"),
    ("http_", "of the HTTP framework, not of the engine"),
    ("vllm:estimated_", "a model of the accelerator's work, 0 unless it is switched on"),
    ("vllm:cache_config_info", "every field of a configuration that the simulated engine does not have"),
];
