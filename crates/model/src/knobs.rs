//! The knobs of an engine under the names that the engines give them.
//!
//! vLLM's spelling is the first, SGLang's the alias, where both have the same thing. What is not given is left to the
//! profile, and then to the engine's own default.

use crate::config::Order;
use crate::policy::EngineName;
use serde::{Deserialize, Serialize};

/// Knobs as typed, in a profile's `[knobs]` or on a command line. All optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Knobs {
    /// Whose scheduler: `vllm` or `sglang`.
    pub engine: Option<EngineName>,
    /// Requests that hold a slot at most.
    #[serde(alias = "max-running-requests")]
    pub max_num_seqs: Option<u32>,
    /// Tokens of a step at most.
    pub max_num_batched_tokens: Option<u32>,
    /// SGLang: tokens of a prefill batch at most; -1 switches chunks off.
    pub chunked_prefill_size: Option<i64>,
    /// SGLang: a prefill batch takes up no further request beyond so many tokens.
    pub max_prefill_tokens: Option<u32>,
    /// Tokens of prompt and answer at most.
    #[serde(alias = "context-length")]
    pub max_model_len: Option<u32>,
    /// Whether a prompt may be computed over several steps.
    pub enable_chunked_prefill: Option<bool>,
    /// SGLang: decoding requests ride along in prefill batches.
    pub enable_mixed_chunk: Option<bool>,
    /// Whether freed KV blocks are found again by their content.
    pub enable_prefix_caching: Option<bool>,
    /// SGLang: the opposite of `enable-prefix-caching`.
    pub disable_radix_cache: Option<bool>,
    /// Tokens of a KV block.
    #[serde(alias = "page-size")]
    pub block_size: Option<u32>,
    /// Share of a chip's memory for everything.
    pub gpu_memory_utilization: Option<f64>,
    /// SGLang: share of a chip's memory for weights and KV cache.
    pub mem_fraction_static: Option<f64>,
    /// KV blocks, whatever the memory.
    pub num_gpu_blocks_override: Option<u32>,
    /// SGLang: tokens of KV cache, whatever the memory.
    pub max_total_tokens: Option<u32>,
    /// Chips that share one model.
    #[serde(alias = "tp-size", alias = "tp")]
    pub tensor_parallel_size: Option<u32>,
    /// Replicas of the engine behind a router.
    #[serde(alias = "dp-size", alias = "dp")]
    pub data_parallel_size: Option<u32>,
    /// Draft tokens a step; 0 is no speculation.
    #[serde(alias = "speculative-num-steps")]
    pub num_speculative_tokens: Option<u32>,
    /// Probability that a draft token is accepted, given that those before it were.
    pub acceptance: Option<f64>,
    /// Tokens that a chunk of a stream gathers.
    pub stream_interval: Option<u32>,
    /// Who is taken up first: `fcfs` or `priority`.
    #[serde(alias = "schedule-policy")]
    pub scheduling_policy: Option<Order>,
    /// Requests at most: of vLLM in flight, of SGLang waiting.
    #[serde(alias = "max-queued-requests")]
    pub max_num_queued_reqs: Option<u32>,
    /// Prompt tokens of requests before their first token; none is accepted once it is reached.
    pub max_num_queued_tokens: Option<u64>,
    /// SGLang: scales the estimate of what running answers will need.
    pub schedule_conservativeness: Option<f64>,
    /// Coefficient of variation of step times, 0 for exact ones.
    pub noise_cv: Option<f64>,
}

impl Knobs {
    /// These, and where they say nothing those of `base`.
    #[must_use]
    pub fn or(self, base: &Self) -> Self {
        // A memory or chunk setting replaces its other spelling too.
        let memory = self.gpu_memory_utilization.is_some() || self.mem_fraction_static.is_some();
        let room = self.num_gpu_blocks_override.is_some() || self.max_total_tokens.is_some();
        let chunks = self.chunked_prefill_size.is_some();
        let budget = chunks || self.max_num_batched_tokens.is_some();
        let caching = self.disable_radix_cache.is_some() || self.enable_prefix_caching.is_some();
        Self {
            engine: self.engine.or(base.engine),
            max_num_seqs: self.max_num_seqs.or(base.max_num_seqs),
            max_num_batched_tokens: pick(self.max_num_batched_tokens, budget, base.max_num_batched_tokens),
            chunked_prefill_size: pick(self.chunked_prefill_size, budget, base.chunked_prefill_size),
            max_prefill_tokens: self.max_prefill_tokens.or(base.max_prefill_tokens),
            max_model_len: self.max_model_len.or(base.max_model_len),
            enable_chunked_prefill: pick(self.enable_chunked_prefill, chunks, base.enable_chunked_prefill),
            enable_mixed_chunk: self.enable_mixed_chunk.or(base.enable_mixed_chunk),
            enable_prefix_caching: pick(self.enable_prefix_caching, caching, base.enable_prefix_caching),
            disable_radix_cache: pick(self.disable_radix_cache, caching, base.disable_radix_cache),
            block_size: self.block_size.or(base.block_size),
            gpu_memory_utilization: pick(self.gpu_memory_utilization, memory, base.gpu_memory_utilization),
            mem_fraction_static: pick(self.mem_fraction_static, memory, base.mem_fraction_static),
            num_gpu_blocks_override: pick(self.num_gpu_blocks_override, room, base.num_gpu_blocks_override),
            max_total_tokens: pick(self.max_total_tokens, room, base.max_total_tokens),
            tensor_parallel_size: self.tensor_parallel_size.or(base.tensor_parallel_size),
            data_parallel_size: self.data_parallel_size.or(base.data_parallel_size),
            num_speculative_tokens: self.num_speculative_tokens.or(base.num_speculative_tokens),
            acceptance: self.acceptance.or(base.acceptance),
            stream_interval: self.stream_interval.or(base.stream_interval),
            scheduling_policy: self.scheduling_policy.or(base.scheduling_policy),
            max_num_queued_reqs: self.max_num_queued_reqs.or(base.max_num_queued_reqs),
            max_num_queued_tokens: self.max_num_queued_tokens.or(base.max_num_queued_tokens),
            schedule_conservativeness: self.schedule_conservativeness.or(base.schedule_conservativeness),
            noise_cv: self.noise_cv.or(base.noise_cv),
        }
    }

    /// Knobs from `name=value` texts, values as in TOML (`max-num-seqs=64`, `scheduling-policy=priority`).
    ///
    /// # Errors
    /// What is wrong, with the known names.
    pub fn parse(settings: &[String]) -> Result<Self, KnobError> {
        let mut lines = String::new();
        for setting in settings {
            let form = || KnobError { text: format!("`{setting}` is not a setting: write name=value") };
            let (name, value) = setting.split_once('=').ok_or_else(form)?;
            let is_bare =
                value.starts_with(|c: char| c.is_ascii_alphabetic()) && !matches!(value, "true" | "false");
            let value = if is_bare { format!("\"{value}\"") } else { value.to_owned() };
            lines.push_str(&format!("{} = {value}\n", name.trim().trim_start_matches('-')));
        }
        toml::from_str(&lines).map_err(|e| KnobError { text: e.message().to_owned() })
    }
}

/// What overrides wins; a setting that its other spelling overrides is none; else what is below.
fn pick<T>(mine: Option<T>, overridden: bool, base: Option<T>) -> Option<T> {
    if mine.is_some() || overridden { mine } else { base }
}

/// A setting that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct KnobError {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(settings: &[&str]) -> Result<Knobs, String> {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        Knobs::parse(&settings).map_err(|e| e.to_string())
    }

    #[test]
    fn both_engines_spellings_are_one_knob() {
        assert_eq!(parse(&["max-num-seqs=64"]), parse(&["max-running-requests=64"]));
        assert_eq!(parse(&["block-size=32"]), parse(&["page-size=32"]));
        assert_eq!(parse(&["tensor-parallel-size=2"]), parse(&["--tp=2"]));
        assert_eq!(parse(&["scheduling-policy=priority"]), parse(&["schedule-policy=priority"]));
        assert_eq!(parse(&["engine=sglang"]).expect("known").engine, Some(EngineName::Sglang));
    }

    #[test]
    fn what_is_unknown_is_named_with_what_is_known() {
        let message = parse(&["max-seqs=64"]).expect_err("unknown");
        assert!(message.contains("max-seqs") && message.contains("max-num-seqs"), "{message}");
        assert!(parse(&["max-num-seqs"]).expect_err("no value").contains("name=value"));
        assert!(parse(&["max-num-seqs=many"]).is_err());
    }

    #[test]
    fn the_upper_layer_wins_in_either_spelling() {
        let base = parse(&["gpu-memory-utilization=0.9", "max-num-seqs=8", "enable-chunked-prefill=false"])
            .expect("ok");
        let over = parse(&["mem-fraction-static=0.8", "chunked-prefill-size=4096"]).expect("ok").or(&base);
        assert_eq!((over.gpu_memory_utilization, over.mem_fraction_static), (None, Some(0.8)));
        assert_eq!((over.enable_chunked_prefill, over.chunked_prefill_size), (None, Some(4_096)));
        assert_eq!(over.max_num_seqs, Some(8));
    }
}
