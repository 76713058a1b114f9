//! An engine's configuration, complete and checked: what a profile and its knobs resolve to.

use crate::cost::StepCost;
use crate::policy::Policy;
use serde::{Deserialize, Serialize};

/// Everything that decides how an engine behaves, besides its seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Whose scheduler it is.
    pub policy: Policy,
    /// How long steps take.
    pub cost: StepCost,
    /// Coefficient of variation of the noise on step times, 0 for none.
    pub noise_cv: f64,
    /// KV blocks.
    pub kv_blocks: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// Whether freed blocks are found again by their content.
    pub prefix_caching: bool,
    /// Requests that hold a slot at most.
    pub max_num_seqs: u32,
    /// Tokens that a step computes at most.
    pub max_num_batched_tokens: u32,
    /// Tokens of prompt and answer at most.
    pub max_model_len: u32,
    /// Whether a prompt may be computed over several steps.
    pub chunked_prefill: bool,
    /// Who is taken up first.
    pub order: Order,
    /// Waiting requests at most; `None` is no limit.
    pub max_queued: Option<u32>,
    /// Prompt tokens of waiting requests at most; `None` is no limit.
    pub max_queued_tokens: Option<u64>,
    /// Speculative decoding, if any.
    pub speculation: Option<Speculation>,
    /// Tokens that a chunk of a stream gathers before it is sent; the first and the last are sent at once.
    pub stream_interval: u32,
}

/// Who is taken up first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First come, first served.
    #[default]
    Fcfs,
    /// By priority, then first come, first served.
    Priority,
}

/// Speculative decoding: drafts that are verified together, each accepted with the same probability as long as those
/// before it were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speculation {
    /// k: draft tokens a step.
    pub tokens: u32,
    /// a: probability that a draft token is accepted, given that those before it were.
    pub acceptance: f64,
}

impl Speculation {
    /// Mean tokens of a step: (1 - a^(k+1)) / (1 - a), of Leviathan, Kalman and Matias (2023), equation 1.
    #[must_use]
    pub fn mean_tokens(&self) -> f64 {
        let k = f64::from(self.tokens);
        if self.acceptance >= 1.0 {
            return k + 1.0;
        }
        (1.0 - self.acceptance.powf(k + 1.0)) / (1.0 - self.acceptance)
    }
}

/// A configuration that no engine can run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A knob that must be at least 1.
    #[error("{knob} is 0: give at least 1")]
    Zero {
        /// Its name.
        knob: &'static str,
    },
    /// A constant that is not a number of the wanted kind.
    #[error("{what} is {value}: expected {expected}")]
    Number {
        /// What it is.
        what: &'static str,
        /// What it was.
        value: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// The longest request does not fit the KV cache.
    #[error(
        "the KV cache holds {capacity} tokens and max-model-len is {max_model_len}: lower max-model-len or give more memory"
    )]
    Capacity {
        /// Tokens the cache holds.
        capacity: u64,
        /// The longest request.
        max_model_len: u32,
    },
    /// Whole prefills that can exceed a step.
    #[error(
        "without chunked prefill a step must hold the longest prompt: raise max-num-batched-tokens from {budget} to max-model-len {max_model_len}"
    )]
    WholePrefill {
        /// The budget.
        budget: u32,
        /// The longest request.
        max_model_len: u32,
    },
    /// Slots that a step cannot serve.
    #[error(
        "max-num-batched-tokens {budget} is less than {needed}: each of max-num-seqs requests decodes in every step"
    )]
    Budget {
        /// The budget.
        budget: u32,
        /// Tokens that all slots decode.
        needed: u64,
    },
}

impl Config {
    /// Tokens that the KV cache holds.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        u64::from(self.kv_blocks) * u64::from(self.block_size)
    }

    /// Draft tokens of a decode step.
    #[must_use]
    pub fn drafts(&self) -> u32 {
        self.speculation.map_or(0, |speculation| speculation.tokens)
    }

    /// Whether an engine can run it without ever being stuck.
    ///
    /// # Errors
    /// [`ConfigError`] with what to change.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (knob, value) in [
            ("block-size", self.block_size),
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("max-model-len", self.max_model_len),
            ("stream-interval", self.stream_interval),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero { knob });
            }
        }
        self.check_numbers()?;
        let capacity = self.kv_tokens();
        if capacity < u64::from(self.max_model_len) {
            return Err(ConfigError::Capacity { capacity, max_model_len: self.max_model_len });
        }
        let (budget, max_model_len) = (self.max_num_batched_tokens, self.max_model_len);
        if self.policy.mixes_by_budget() {
            if !self.chunked_prefill && budget < max_model_len {
                return Err(ConfigError::WholePrefill { budget, max_model_len });
            }
            let needed = u64::from(self.max_num_seqs) * u64::from(1 + self.drafts());
            if u64::from(budget) < needed {
                return Err(ConfigError::Budget { budget, needed });
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), ConfigError> {
        let cost = &self.cost;
        for (what, value) in [
            ("the base time of a step", cost.base),
            ("the time of a prefill token", cost.prefill_token),
            ("the time of a prefill pair", cost.prefill_pair),
            ("the time of a decode token", cost.decode_token),
            ("the time of a KV token", cost.kv_token),
            ("the time of a draft position", cost.draft_position),
            ("the CV of step times", self.noise_cv),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ConfigError::Number { what, value, expected: "a finite number, 0 or more" });
            }
        }
        if let Some(Speculation { tokens, acceptance }) = self.speculation {
            if tokens == 0 {
                return Err(ConfigError::Zero { knob: "num-speculative-tokens" });
            }
            if !(0.0..=1.0).contains(&acceptance) {
                let expected = "a probability from 0 to 1";
                return Err(ConfigError::Number { what: "acceptance", value: acceptance, expected });
            }
        }
        self.policy.check()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small engine of easy figures: a step takes 20 ms and 45.166015625 us a prefill token.
    pub(crate) fn config(policy: Policy) -> Config {
        Config {
            policy,
            cost: StepCost { base: 20e6, prefill_token: 45_166.015_625, ..StepCost::default() },
            noise_cv: 0.0,
            kv_blocks: 4_096,
            block_size: 16,
            prefix_caching: true,
            max_num_seqs: 256,
            max_num_batched_tokens: 65_536,
            max_model_len: 40_960,
            chunked_prefill: true,
            order: Order::Fcfs,
            max_queued: None,
            max_queued_tokens: None,
            speculation: None,
            stream_interval: 1,
        }
    }

    #[test]
    fn what_could_get_stuck_is_refused_with_the_cure() {
        let ok = config(Policy::Vllm);
        assert_eq!(ok.check(), Ok(()));
        let refused = |change: fn(&mut Config)| {
            let mut config = config(Policy::Vllm);
            change(&mut config);
            config.check().expect_err("refused").to_string()
        };
        assert!(refused(|c| c.kv_blocks = 100).contains("holds 1600 tokens"));
        assert!(refused(|c| c.max_num_seqs = 0).contains("max-num-seqs is 0"));
        assert!(refused(|c| c.cost.base = f64::NAN).contains("NaN"));
        let whole = |c: &mut Config| (c.chunked_prefill, c.max_num_batched_tokens) = (false, 2_048);
        assert!(refused(whole).contains("raise max-num-batched-tokens from 2048"));
        assert!(refused(|c| c.max_num_batched_tokens = 200).contains("less than 256"));
        let sure = |c: &mut Config| c.speculation = Some(Speculation { tokens: 3, acceptance: 1.5 });
        assert!(refused(sure).contains("acceptance is 1.5"));
        // A separate prefill batch takes one prompt of any length.
        let mut sglang = config(Policy::sglang());
        whole(&mut sglang);
        assert_eq!(sglang.check(), Ok(()));
    }

    #[test]
    fn speculation_s_mean_is_the_closed_form() {
        let mean = |tokens, acceptance| Speculation { tokens, acceptance }.mean_tokens();
        assert_eq!(mean(3, 0.0), 1.0);
        assert_eq!(mean(3, 1.0), 4.0);
        assert!((mean(4, 0.8) - 3.3616).abs() < 1e-12);
    }
}
