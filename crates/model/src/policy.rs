//! Everything in which the schedulers of the engines differ, in one place.
//!
//! vLLM (V1, `vllm/v1/core/sched/scheduler.py`): one step mixes whatever fits the token budget, running requests
//! first, in the order in which they were taken up; when blocks run out the last of them (under priority scheduling
//! the least urgent) loses its KV cache and goes back to the head of the queue.
//!
//! SGLang (`sglang/srt/managers/scheduler.py`, `schedule_policy.py`, `schedule_batch.py`): a batch is either prefill
//! or decode, and prefill goes first while anybody waits and fits; `enable-mixed-chunk` lets decoding requests ride
//! along. A request is taken up only if there is room for its prompt and an estimate of what all running answers will
//! still need; where the estimate was too low, the requests with the shortest answers are retracted to the back of
//! the queue until the others have room for 20 tokens each, and the estimate is raised.
//!
//! Not imitated: SGLang's preemption of running requests by urgent ones, and its cache-aware queue orders (`lpm`).

use crate::config::{ConfigError, Order};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// The name of an engine whose scheduler can be imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// vLLM, V1 scheduler.
    Vllm,
    /// SGLang.
    Sglang,
}

impl EngineName {
    /// The stable name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// Whose scheduler it is, with the knobs that only it has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// vLLM, V1 scheduler.
    Vllm,
    /// SGLang.
    Sglang(Sglang),
}

/// Knobs that only SGLang has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sglang {
    /// `enable-mixed-chunk`: decoding requests ride along in prefill batches.
    pub mixed_chunk: bool,
    /// `max-prefill-tokens`: a prefill batch takes up no further request beyond it.
    pub max_prefill_tokens: u32,
    /// `schedule-conservativeness`: scales the estimate of what running answers will need.
    pub conservativeness: f64,
}

/// What a victim is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Urgency: see [`Policy::rank`].
    pub(crate) rank: i64,
    /// When it queued, as a running number.
    pub(crate) order: u64,
    /// Tokens generated.
    pub(crate) generated: u32,
    /// Tokens of its prompt.
    pub(crate) prompt: u32,
}

/// Where a preempted request queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Where it stood, before all who came later.
    Front,
    /// Behind everybody of its rank.
    Back,
}

impl Policy {
    /// SGLang with its defaults.
    #[must_use]
    pub fn sglang() -> Self {
        Self::Sglang(Sglang { mixed_chunk: false, max_prefill_tokens: 16_384, conservativeness: 1.0 })
    }

    /// Whose it is.
    #[must_use]
    pub fn engine(&self) -> EngineName {
        match self {
            Self::Vllm => EngineName::Vllm,
            Self::Sglang(_) => EngineName::Sglang,
        }
    }

    /// Whether one token budget bounds a step as a whole, prefill and decode together.
    #[must_use]
    pub fn mixes_by_budget(&self) -> bool {
        matches!(self, Self::Vllm)
    }

    /// Urgency of a request, smaller first. vLLM serves small priorities first, SGLang large ones.
    #[must_use]
    pub fn rank(&self, order: Order, priority: i32) -> i64 {
        match (order, self) {
            (Order::Fcfs, _) => 0,
            (Order::Priority, Self::Vllm) => i64::from(priority),
            (Order::Priority, Self::Sglang(_)) => -i64::from(priority),
        }
    }

    /// The place among the running requests (never none) of the one to lose its blocks.
    pub(crate) fn victim(&self, order: Order, running: impl ExactSizeIterator<Item = Candidate>) -> usize {
        let last = running.len() - 1;
        let worst = match (self, order) {
            (Self::Vllm, Order::Fcfs) => return last,
            (Self::Vllm, Order::Priority) => running.enumerate().max_by_key(|(_, c)| (c.rank, c.order)),
            (Self::Sglang(_), _) => {
                running.enumerate().max_by_key(|(_, c)| (c.rank, Reverse(c.generated), c.prompt, c.order))
            }
        };
        worst.map_or(last, |(place, _)| place)
    }

    /// What `max-num-queued-reqs` counts: in vLLM all requests in flight, in SGLang (`max-queued-requests`) those that
    /// wait.
    pub(crate) fn queued(&self, waiting: usize, running: usize) -> usize {
        match self {
            Self::Vllm => waiting + running,
            Self::Sglang(_) => waiting,
        }
    }

    /// Where the victim queues.
    pub(crate) fn requeue(&self) -> Requeue {
        match self {
            Self::Vllm => Requeue::Front,
            Self::Sglang(_) => Requeue::Back,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Sglang(Sglang { conservativeness: value, .. }) if !(*value >= 0.0 && value.is_finite()) => {
                let expected = "a finite number, 0 or more";
                Err(ConfigError::Number { what: "schedule-conservativeness", value: *value, expected })
            }
            Self::Sglang(Sglang { max_prefill_tokens: 0, .. }) => {
                Err(ConfigError::Zero { knob: "max-prefill-tokens" })
            }
            _ => Ok(()),
        }
    }
}

/// SGLang's estimate of how much of their allowed answers running requests will still use: the "new token ratio".
///
/// It starts at 0.7 times the conservativeness, falls to 0.14 of that over 600 decode steps, and is raised after a
/// retraction to what the remaining answers have used so far and 20 tokens each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserve {
    ratio: f64,
    floor: f64,
    decay: f64,
}

impl Reserve {
    /// An answer is never assumed to use more than this (`SGLANG_CLIP_MAX_NEW_TOKENS`).
    pub(crate) const CLIP: u32 = 4_096;
    /// A retraction makes room for so many tokens of each remaining request (`SGLANG_RETRACT_DECODE_STEPS`).
    pub(crate) const HEADROOM: u32 = 20;

    pub(crate) fn new(sglang: &Sglang) -> Self {
        let start = (0.7 * sglang.conservativeness).min(1.0);
        let floor = start * 0.14;
        Self { ratio: start, floor, decay: (start - floor) / 600.0 }
    }

    /// Tokens to keep for a running request that may generate `remaining` more.
    pub(crate) fn tokens(&self, remaining: u32) -> f64 {
        f64::from(remaining.min(Self::CLIP)) * self.ratio
    }

    /// A decode step went well.
    pub(crate) fn relax(&mut self) {
        self.ratio = (self.ratio - self.decay).max(self.floor);
    }

    /// A retraction left requests with `generated` of `allowed` tokens, `requests` of them.
    pub(crate) fn raise(&mut self, generated: u64, allowed: u64, requests: usize) {
        let used = generated as f64 + f64::from(Self::HEADROOM) * requests as f64;
        self.ratio = (used / (allowed + 1) as f64).min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rank: i64, order: u64, generated: u32, prompt: u32) -> Candidate {
        Candidate { rank, order, generated, prompt }
    }

    #[test]
    fn each_engine_has_its_own_victim() {
        let running = [
            candidate(5, 0, 40, 100),
            candidate(1, 1, 3, 100),
            candidate(1, 2, 3, 700),
            candidate(1, 3, 90, 100),
        ];
        let victim = |policy: Policy, order| policy.victim(order, running.iter().copied());
        assert_eq!(victim(Policy::Vllm, Order::Fcfs), 3, "the last taken up");
        assert_eq!(victim(Policy::Vllm, Order::Priority), 0, "the least urgent");
        let equal = running.iter().map(|c| Candidate { rank: 0, ..*c });
        let shortest = Policy::sglang().victim(Order::Fcfs, equal.collect::<Vec<_>>().into_iter());
        assert_eq!(shortest, 2, "the shortest answer, of the longest prompt");
    }

    #[test]
    fn priorities_point_the_way_of_their_engine() {
        assert!(Policy::Vllm.rank(Order::Priority, 1) < Policy::Vllm.rank(Order::Priority, 2));
        assert!(Policy::sglang().rank(Order::Priority, 2) < Policy::sglang().rank(Order::Priority, 1));
        assert_eq!(Policy::Vllm.rank(Order::Fcfs, 7), 0);
    }

    #[test]
    fn the_reserve_relaxes_to_its_floor_and_is_raised_by_a_retraction() {
        let Policy::Sglang(knobs) = Policy::sglang() else { panic!("sglang") };
        let mut reserve = Reserve::new(&knobs);
        assert_eq!(reserve.tokens(1_000), 700.0);
        assert_eq!(reserve.tokens(9_000), 4_096.0 * 0.7);
        for _ in 0..10_000 {
            reserve.relax();
        }
        assert!((reserve.tokens(1_000) - 98.0).abs() < 1e-9);
        reserve.raise(100, 999, 5);
        assert!((reserve.tokens(1_000) - 200.0).abs() < 1e-9);
        reserve.raise(2_000, 999, 5);
        assert_eq!(reserve.tokens(1_000), 1_000.0);
    }
}
