//! Flags of the simulated engine: profiles, and the knobs under the names that vLLM and SGLang give them.

use super::{LimitArgs, LoadArgs, OutputArgs, ReadingArgs, VerdictArgs, WorkloadArgs};
use clap::{Args, ValueEnum};
use goodput_model::cluster::Routing;
use goodput_model::config::Order;
use goodput_model::knobs::Knobs;
use goodput_model::policy::EngineName;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct SimProfilesArgs {
    /// Print the list as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimRunArgs {
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Write the engine's own account of every request, one JSON line each: when it arrived, was taken up, had its
    /// prompt computed, got each token and left.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) engine_truth: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,
}

/// Which engine is simulated.
#[derive(Debug, Args)]
#[command(next_help_heading = "Simulated engine")]
pub(crate) struct EngineArgs {
    /// Model and hardware: a shipped profile (`goodput sim profiles` lists them) or a file of one's own.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Whose scheduler: that of vLLM or of SGLang [default: the profile's, else vllm].
    #[arg(long, value_enum)]
    pub(crate) engine: Option<EngineArg>,
    /// How replicas (--data-parallel-size) share the requests.
    #[arg(long, value_enum, default_value_t = RoutingArg::RoundRobin)]
    pub(crate) routing: RoutingArg,
    #[command(flatten)]
    pub(crate) knobs: KnobArgs,
}

/// Knobs of the engine; each default is the profile's, else the engine's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine knobs (vLLM's names, SGLang's as aliases)")]
pub(crate) struct KnobArgs {
    /// Requests that run at a time at most.
    #[arg(long, visible_alias = "max-running-requests", value_name = "N")]
    max_num_seqs: Option<u32>,
    /// Tokens that a step computes at most.
    #[arg(long, value_name = "N")]
    max_num_batched_tokens: Option<u32>,
    /// SGLang: tokens of a prefill batch at most; -1 for whole prompts.
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "max_num_batched_tokens")]
    chunked_prefill_size: Option<i64>,
    /// SGLang: a prefill batch takes up no further request beyond so many tokens.
    #[arg(long, value_name = "N")]
    max_prefill_tokens: Option<u32>,
    /// Tokens of prompt and answer at most.
    #[arg(long, visible_alias = "context-length", value_name = "N")]
    max_model_len: Option<u32>,
    /// Compute long prompts over several steps.
    #[arg(long, overrides_with = "no_enable_chunked_prefill")]
    enable_chunked_prefill: bool,
    /// Compute every prompt in one step.
    #[arg(long)]
    no_enable_chunked_prefill: bool,
    /// SGLang: let decoding requests ride along in prefill batches.
    #[arg(long)]
    enable_mixed_chunk: bool,
    /// Find freed KV blocks again by their content.
    #[arg(long, overrides_with = "no_enable_prefix_caching")]
    enable_prefix_caching: bool,
    /// Compute every prompt anew.
    #[arg(long, visible_alias = "disable-radix-cache")]
    no_enable_prefix_caching: bool,
    /// Tokens of a KV block.
    #[arg(long, visible_alias = "page-size", value_name = "N")]
    block_size: Option<u32>,
    /// Share of a chip's memory for everything, 0 to 1.
    #[arg(long, value_name = "SHARE")]
    gpu_memory_utilization: Option<f64>,
    /// SGLang: share of a chip's memory for weights and KV cache, 0 to 1.
    #[arg(long, value_name = "SHARE", conflicts_with = "gpu_memory_utilization")]
    mem_fraction_static: Option<f64>,
    /// KV blocks, whatever the memory.
    #[arg(long, value_name = "N")]
    num_gpu_blocks_override: Option<u32>,
    /// SGLang: tokens of KV cache, whatever the memory.
    #[arg(long, value_name = "N", conflicts_with = "num_gpu_blocks_override")]
    max_total_tokens: Option<u32>,
    /// Chips that share one model.
    #[arg(long, visible_aliases = ["tp-size", "tp"], value_name = "N")]
    tensor_parallel_size: Option<u32>,
    /// Replicas of the engine.
    #[arg(long, visible_aliases = ["dp-size", "dp"], value_name = "N")]
    data_parallel_size: Option<u32>,
    /// Draft tokens a step; 0 for none.
    #[arg(long, visible_alias = "speculative-num-steps", value_name = "N")]
    num_speculative_tokens: Option<u32>,
    /// Probability that a draft token is accepted, given that those before it were.
    #[arg(long, value_name = "P")]
    acceptance: Option<f64>,
    /// Tokens that a chunk of a stream gathers; the first and the last go out at once.
    #[arg(long, value_name = "N")]
    stream_interval: Option<u32>,
    /// Who is taken up first.
    #[arg(long, visible_alias = "schedule-policy", value_enum)]
    scheduling_policy: Option<OrderArg>,
    /// Requests at most, beyond which they are rejected: of vLLM in flight, of SGLang waiting.
    #[arg(long, visible_alias = "max-queued-requests", value_name = "N")]
    max_num_queued_reqs: Option<u32>,
    /// Prompt tokens of requests before their first token, beyond which requests are rejected.
    #[arg(long, value_name = "N")]
    max_num_queued_tokens: Option<u64>,
    /// SGLang: scales the estimate of what running answers will need.
    #[arg(long, value_name = "X")]
    schedule_conservativeness: Option<f64>,
    /// Coefficient of variation of step times, 0 for exact ones.
    #[arg(long, value_name = "CV")]
    noise_cv: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// One step mixes decode and prefill within a token budget.
    Vllm,
    /// Prefill batches first, decode batches else.
    Sglang,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// First come, first served.
    Fcfs,
    /// By priority, then first come.
    Priority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoutingArg {
    /// In turn.
    RoundRobin,
    /// The fewest requests.
    LeastLoaded,
    /// The longest cached prefix, unless that replica has far more to do.
    PrefixAware,
}

impl From<RoutingArg> for Routing {
    fn from(arg: RoutingArg) -> Self {
        match arg {
            RoutingArg::RoundRobin => Self::RoundRobin,
            RoutingArg::LeastLoaded => Self::LeastLoaded,
            RoutingArg::PrefixAware => Self::PrefixAware,
        }
    }
}

impl EngineArgs {
    /// The knobs as typed.
    pub(crate) fn knobs(&self) -> Knobs {
        let knobs = &self.knobs;
        let switch = |on: bool, off: bool| if off { Some(false) } else { on.then_some(true) };
        Knobs {
            engine: self.engine.map(|engine| match engine {
                EngineArg::Vllm => EngineName::Vllm,
                EngineArg::Sglang => EngineName::Sglang,
            }),
            max_num_seqs: knobs.max_num_seqs,
            max_num_batched_tokens: knobs.max_num_batched_tokens,
            chunked_prefill_size: knobs.chunked_prefill_size,
            max_prefill_tokens: knobs.max_prefill_tokens,
            max_model_len: knobs.max_model_len,
            enable_chunked_prefill: switch(knobs.enable_chunked_prefill, knobs.no_enable_chunked_prefill),
            enable_mixed_chunk: knobs.enable_mixed_chunk.then_some(true),
            enable_prefix_caching: switch(knobs.enable_prefix_caching, knobs.no_enable_prefix_caching),
            disable_radix_cache: None,
            block_size: knobs.block_size,
            gpu_memory_utilization: knobs.gpu_memory_utilization,
            mem_fraction_static: knobs.mem_fraction_static,
            num_gpu_blocks_override: knobs.num_gpu_blocks_override,
            max_total_tokens: knobs.max_total_tokens,
            tensor_parallel_size: knobs.tensor_parallel_size,
            data_parallel_size: knobs.data_parallel_size,
            num_speculative_tokens: knobs.num_speculative_tokens,
            acceptance: knobs.acceptance,
            stream_interval: knobs.stream_interval,
            scheduling_policy: knobs.scheduling_policy.map(|order| match order {
                OrderArg::Fcfs => Order::Fcfs,
                OrderArg::Priority => Order::Priority,
            }),
            max_num_queued_reqs: knobs.max_num_queued_reqs,
            max_num_queued_tokens: knobs.max_num_queued_tokens,
            schedule_conservativeness: knobs.schedule_conservativeness,
            noise_cv: knobs.noise_cv,
        }
    }
}
