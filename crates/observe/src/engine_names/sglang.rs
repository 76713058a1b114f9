//! SGLang's families, as `--enable-metrics` writes them (0.5.23): names, labels and edges from
//! `srt/observability/metrics_collector.py`, rules from there and from `tokenizer_manager.py`, checked against a
//! recorded page.
//!
//! Two processes write: the API process (TTFT, ITL, E2E, tokens of finished requests; its monotonic clock), and the
//! scheduler (queue, stages, gauges). A series appears with its first observation. Gauges of the scheduler move at
//! prefill batches and at every n-th decode step only. A request that a full queue turns away is counted nowhere.

use super::{Clock, Merge, Spec, counter, gauge, histogram};

/// Labels of the API process.
const API: &[&str] = &["engine_type", "model_name"];
const API_STREAMING: &[&str] = &["engine_type", "is_streaming", "model_name"];
/// Labels of the scheduler.
const SCHEDULER: &[&str] = &["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"];
const SCHEDULER_MODE: &[&str] = &["engine_type", "mode", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"];
const SCHEDULER_PID: &[&str] = &["engine_type", "model_name", "moe_ep_rank", "pid", "pp_rank", "tp_rank"];

/// Edges by group, +Inf left out.
pub const EDGES: &[(&str, &[f64])] = &[
    (
        "time_to_first_token",
        &[
            0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
            400.0,
        ],
    ),
    (
        "inter_token_latency",
        &[
            0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
            0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0,
        ],
    ),
    (
        "e2e_request_latency",
        &[
            0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
            400.0, 600.0, 1200.0, 1800.0, 2400.0,
        ],
    ),
    ("prompt_tokens", TOKENS),
    ("generation_tokens", TOKENS),
    (
        "queue_time",
        &[
            0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0,
            40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0,
            900.0, 1000.0, 1200.0, 1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0,
        ],
    ),
    ("per_stage_req_latency", STAGE),
];

const TOKENS: &[f64] = &[
    100.0,
    300.0,
    500.0,
    700.0,
    1000.0,
    1500.0,
    2000.0,
    3000.0,
    4000.0,
    5000.0,
    6000.0,
    7000.0,
    8000.0,
    9000.0,
    10000.0,
    12500.0,
    15000.0,
    17500.0,
    20000.0,
    22500.0,
    25000.0,
    27500.0,
    30000.0,
    35000.0,
    40000.0,
    60000.0,
    80000.0,
    100_000.0,
    200_000.0,
    300_000.0,
    400_000.0,
    600_000.0,
    800_000.0,
    1_000_000.0,
    1_100_000.0,
];

/// 0.001 times 1.62 to the power 0..30, to the digits that the server prints.
const STAGE: &[f64] = &[
    0.001,
    0.001_620_000_000_000_000_1,
    0.002_624_400_000_000_000_7,
    0.004_251_528,
    0.006_887_475_360_000_002,
    0.011_157_710_083_200_004,
    0.018_075_490_334_784_006,
    0.029_282_294_342_350_097,
    0.047_437_316_834_607_154,
    0.076_848_453_272_063_59,
    0.124_494_494_300_743_02,
    0.201_681_080_767_203_73,
    0.326_723_350_842_870_1,
    0.529_291_828_365_449_5,
    0.857_452_761_952_028_2,
    1.389_073_474_362_286,
    2.250_299_028_466_903_6,
    3.645_484_426_116_383_7,
    5.905_684_770_308_542,
    9.567_209_327_899_839,
    15.498_879_111_197_74,
    25.108_184_160_140_34,
    40.675_258_339_427_35,
    65.893_918_509_872_31,
    106.748_147_985_993_16,
    172.931_999_737_308_96,
    280.149_839_574_440_5,
    453.842_740_110_593_64,
    735.225_238_979_161_8,
    1_191.064_887_146_242,
];

/// What a bucket flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketFlag {
    /// Edges, one after the other.
    List,
    /// A rule: `default`, `tse <middle> <base> <count>` or `custom <edge>...`.
    Rule,
}

/// Flags that change edges, with the group they change.
pub const BUCKET_FLAGS: &[(&str, &str, BucketFlag)] = &[
    ("--bucket-time-to-first-token", "time_to_first_token", BucketFlag::List),
    ("--bucket-inter-token-latency", "inter_token_latency", BucketFlag::List),
    ("--bucket-e2e-request-latency", "e2e_request_latency", BucketFlag::List),
    ("--prompt-tokens-buckets", "prompt_tokens", BucketFlag::Rule),
    ("--generation-tokens-buckets", "generation_tokens", BucketFlag::Rule),
];

/// Values of the label `stage` that are filled.
pub const STAGES: &[&str] = &["request_process", "prefill_forward"];

/// Families of the page that requests fill.
pub const FAMILIES: &[Spec] = &[
    histogram(
        "sglang:time_to_first_token_seconds",
        API_STREAMING,
        "time_to_first_token",
        Clock::FrontendMonotonic,
        "from the request's creation until the API process has the first output; not streamed: until prefill's end",
    ),
    histogram(
        "sglang:inter_token_latency_seconds",
        API,
        "inter_token_latency",
        Clock::FrontendMonotonic,
        "an output of n tokens puts n into the one bucket of interval / n, and the whole interval into the sum",
    ),
    histogram(
        "sglang:e2e_request_latency_seconds",
        API_STREAMING,
        "e2e_request_latency",
        Clock::FrontendMonotonic,
        "from the request's creation to its finish",
    ),
    histogram(
        "sglang:request_time_per_output_token_seconds",
        API_STREAMING,
        "inter_token_latency",
        Clock::FrontendMonotonic,
        "from the first output to the finish over tokens after the first; requests that ended by stop or length",
    ),
    histogram(
        "sglang:prompt_tokens_histogram",
        API,
        "prompt_tokens",
        Clock::None,
        "prompt tokens, at the finish",
    ),
    histogram(
        "sglang:uncached_prompt_tokens_histogram",
        API,
        "prompt_tokens",
        Clock::None,
        "prompt tokens that were computed, at the finish",
    ),
    histogram(
        "sglang:generation_tokens_histogram",
        API,
        "generation_tokens",
        Clock::None,
        "tokens generated, at the finish",
    ),
    gauge("sglang:max_total_num_tokens", SCHEDULER, Merge::Max, "tokens that the KV cache can hold"),
    gauge("sglang:page_size", SCHEDULER, Merge::Max, "tokens a page of the KV cache"),
    gauge("sglang:num_pages", SCHEDULER, Merge::Max, "pages of the KV cache"),
    gauge("sglang:context_len", SCHEDULER, Merge::Max, "the longest request, in tokens"),
    gauge("sglang:num_running_reqs", SCHEDULER, Merge::Max, "requests running, told by every rank"),
    gauge("sglang:num_queue_reqs", SCHEDULER, Merge::Max, "requests waiting, told by every rank"),
    gauge("sglang:num_grammar_queue_reqs", SCHEDULER, Merge::Max, "requests that wait for a grammar"),
    gauge(
        "sglang:gen_throughput",
        SCHEDULER,
        Merge::Max,
        "tokens generated since the last refresh at a decode step over the time since, prefills included",
    ),
    gauge(
        "sglang:cache_hit_rate",
        SCHEDULER,
        Merge::Max,
        "cached share of the prompt tokens of the last prefill batch",
    ),
    gauge("sglang:decode_sum_seq_lens", SCHEDULER, Merge::Max, "tokens of all running sequences"),
    gauge("sglang:token_usage", SCHEDULER, Merge::Max, "share of the KV tokens in use, to two decimals"),
    gauge("sglang:full_token_usage", SCHEDULER, Merge::Max, "share of the KV tokens in use"),
    gauge("sglang:num_used_tokens", SCHEDULER, Merge::Max, "KV tokens in use"),
    gauge("sglang:kv_available_tokens", SCHEDULER, Merge::Max, "KV tokens free"),
    gauge("sglang:kv_evictable_tokens", SCHEDULER, Merge::Max, "KV tokens that only the prefix cache holds"),
    gauge("sglang:kv_used_tokens", SCHEDULER, Merge::Max, "KV tokens in use"),
    gauge(
        "sglang:spec_accept_length",
        SCHEDULER,
        Merge::Max,
        "tokens a draft, the one that the model adds included, since the last refresh",
    ),
    gauge(
        "sglang:spec_accept_rate",
        SCHEDULER,
        Merge::Max,
        "accepted share of the draft tokens since the last refresh",
    ),
    gauge("sglang:utilization", SCHEDULER, Merge::Max, "always 0: the engine does not compute it"),
    counter("sglang:prompt_tokens_total", API_STREAMING, "prompt tokens, at the finish"),
    counter("sglang:generation_tokens_total", API_STREAMING, "tokens generated, at the finish"),
    counter(
        "sglang:num_requests_total",
        API_STREAMING,
        "requests finished; one of n > 1 choices counts n + 1, since its prefix is a request of its own",
    ),
    counter(
        "sglang:cached_tokens_total",
        &["cache_source", "engine_type", "model_name"],
        "cached prompt tokens by tier, at the finish",
    ),
    counter(
        "sglang:num_aborted_requests_total",
        API,
        "aborts that the API process asked for; a request that the queue turned away is not in it",
    ),
    counter("sglang:spec_verify_calls_total", API, "verifications of drafts, at the finish"),
    counter("sglang:num_retracted_requests_total", SCHEDULER, "requests that lost their KV tokens"),
    counter(
        "sglang:prefill_effective_tokens_total",
        SCHEDULER_MODE,
        "prompt tokens by where they came from, moved at refreshes; what a retraction computes again is not in it",
    ),
    counter(
        "sglang:realtime_tokens_total",
        SCHEDULER_MODE,
        "tokens by what was done for them, moved at refreshes",
    ),
    counter(
        "sglang:evicted_tokens_total",
        &["cache_type", "dp_rank", "pp_rank", "tp_rank"],
        "KV tokens that eviction freed",
    ),
    histogram(
        "sglang:per_stage_req_latency_seconds",
        &["engine_type", "model_name", "moe_ep_rank", "pp_rank", "stage", "tp_rank"],
        "per_stage_req_latency",
        Clock::Engine,
        "by stage: request_process until the wait queue, prefill_forward from the first batch to the first token",
    ),
    histogram(
        "sglang:queue_time_seconds",
        SCHEDULER,
        "queue_time",
        Clock::Engine,
        "from the wait queue to the first batch, once a request",
    ),
    gauge("sglang:num_retracted_reqs", SCHEDULER_PID, Merge::Max, "requests retracted at the last refresh"),
    gauge("sglang:num_paused_reqs", SCHEDULER_PID, Merge::Max, "requests paused for new weights"),
];

/// Families on a real page that are not in [`FAMILIES`], by how their names begin, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("sglang:process_cpu_", "of the Python process"),
    ("sglang:scheduler_", "time of the scheduler's own loop"),
    ("sglang:http_", "of the HTTP framework, not of the engine"),
    ("sglang:startup_", "of the start, before there are requests"),
    ("sglang:weight_", "memory that the simulated engine does not have"),
    ("sglang:kv_cache_memory_usage_gb", "memory that the simulated engine does not have"),
    ("sglang:graph_memory_usage_gb", "memory that the simulated engine does not have"),
    ("sglang:eviction_duration_seconds", "an eviction takes no time in the simulated engine"),
    ("sglang:dp_attention_", "data-parallel attention only"),
    ("sglang:swa_", "sliding-window models only"),
    ("sglang:mamba_", "state-space models only"),
    ("sglang:num_prefill_", "disaggregated serving only"),
    ("sglang:num_decode_", "disaggregated serving only"),
    ("sglang:pending_prealloc_", "disaggregated serving only"),
    ("sglang:prealloc_", "disaggregated serving only"),
    ("sglang:spec_cap_length", "one speculation algorithm only"),
    ("sglang:spec_block_accept_length", "one speculation algorithm only"),
    ("sglang:spec_num_", "adaptive speculation only"),
    ("sglang:routing_key", "routing keys, which are no part of a request here"),
    ("sglang:num_unique_running_routing_keys", "routing keys, which are no part of a request here"),
    ("sglang:cuda_graph_passes", "of the accelerator"),
    ("sglang:is_cuda_graph", "of the accelerator"),
    ("sglang:fwd_occupancy", "of the accelerator"),
    ("sglang:new_token_ratio", "an estimate inside the real scheduler"),
];
