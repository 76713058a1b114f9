//! What an engine says: events with their instants, and the figures of each step.

use crate::request::{Reject, RequestId, Truth};
use goodput_core::time::Nanos;
use serde::Serialize;

/// Something that happened in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, on the clock of the caller.
    pub at: Nanos,
    /// What.
    pub kind: EventKind,
}

/// What can happen in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A request entered the waiting queue.
    Queued {
        /// Which.
        id: RequestId,
    },
    /// A request was turned away; nothing more is said about it.
    Rejected {
        /// Which.
        id: RequestId,
        /// Why.
        reason: Reject,
    },
    /// A step took up a request, for the first time or again after a preemption.
    Admitted {
        /// Which.
        id: RequestId,
        /// Tokens found in the prefix cache, which cost nothing to compute.
        cached_tokens: u32,
    },
    /// The prompt is computed in full.
    Prefilled {
        /// Which.
        id: RequestId,
    },
    /// A chunk of the stream.
    Tokens {
        /// Whose.
        id: RequestId,
        /// Generated tokens in it, at least 1.
        tokens: u32,
    },
    /// A request lost its KV cache and waits again.
    Preempted {
        /// Which.
        id: RequestId,
    },
    /// A request left the engine; nothing more is said about it.
    Finished(Box<Truth>),
    /// A step ended.
    Step(Box<StepStats>),
}

/// The figures of one step, as a metrics page needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StepStats {
    /// Number of the step, from 0.
    pub step: u64,
    /// When it began.
    pub began: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// Requests that held a slot during the step.
    pub running: u32,
    /// Requests in the waiting queue when it ended.
    pub waiting: u32,
    /// KV blocks in use during the step.
    pub kv_used: u32,
    /// All KV blocks.
    pub kv_total: u32,
    /// Prompt tokens (and recomputed ones) that the step computed.
    pub prefill_tokens: u32,
    /// Tokens that it computed for decoding requests: one each, with speculation one and the drafts.
    pub decode_tokens: u32,
    /// Tokens that it generated.
    pub generated_tokens: u32,
    /// Requests that its scheduling preempted.
    pub preempted: u32,
}

impl StepStats {
    /// All tokens that went through the model in this step.
    #[must_use]
    pub fn iteration_tokens(&self) -> u32 {
        self.prefill_tokens + self.decode_tokens
    }

    /// Share of the KV blocks in use, 0 to 1.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        if self.kv_total == 0 { 0.0 } else { f64::from(self.kv_used) / f64::from(self.kv_total) }
    }
}

/// Sums since the engine was made. Those of a cluster are the sums of its replicas'.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Requests submitted, rejected ones among them.
    pub submitted: u64,
    /// Requests turned away.
    pub rejected: u64,
    /// Requests that got all their tokens.
    pub finished: u64,
    /// Requests given up by their client.
    pub cancelled: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Steps run.
    pub steps: u64,
    /// Nanoseconds in which a step ran.
    pub busy_ns: u64,
    /// Prompt tokens (and recomputed ones) computed.
    pub prefill_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Prompt tokens looked up in the prefix cache, at first admission.
    pub prefix_queried_tokens: u64,
    /// Those of them that were found.
    pub prefix_hit_tokens: u64,
    /// Decode steps of a request under speculation.
    pub drafts: u64,
    /// Draft tokens verified.
    pub draft_tokens: u64,
    /// Draft tokens accepted, also those beyond the end of an answer.
    pub accepted_tokens: u64,
    /// Accepted draft tokens by position in the draft.
    pub accepted_at: Vec<u64>,
}

impl Counters {
    /// Adds those of another engine.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.submitted, other.submitted),
            (&mut self.rejected, other.rejected),
            (&mut self.finished, other.finished),
            (&mut self.cancelled, other.cancelled),
            (&mut self.preemptions, other.preemptions),
            (&mut self.steps, other.steps),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.prefill_tokens, other.prefill_tokens),
            (&mut self.generated_tokens, other.generated_tokens),
            (&mut self.prefix_queried_tokens, other.prefix_queried_tokens),
            (&mut self.prefix_hit_tokens, other.prefix_hit_tokens),
            (&mut self.drafts, other.drafts),
            (&mut self.draft_tokens, other.draft_tokens),
            (&mut self.accepted_tokens, other.accepted_tokens),
        ] {
            *mine += theirs;
        }
        if self.accepted_at.len() < other.accepted_at.len() {
            self.accepted_at.resize(other.accepted_at.len(), 0);
        }
        for (mine, theirs) in self.accepted_at.iter_mut().zip(&other.accepted_at) {
            *mine += theirs;
        }
    }
}

/// The state of an engine at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Gauges {
    /// Requests that hold a slot.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Prompt tokens of requests whose prompt is not computed in full, running or waiting.
    pub unprefilled_tokens: u64,
    /// KV blocks in use.
    pub kv_used: u32,
    /// All KV blocks.
    pub kv_total: u32,
}
