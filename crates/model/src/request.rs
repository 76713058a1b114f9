//! What goes into an engine and what is known of it afterwards: requests, their ends, and the ground truth.

use goodput_core::time::Nanos;
use serde::Serialize;
use std::sync::Arc;

/// The caller's name for a request. Unique among those in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// A request as it reaches the engine: tokenised, with its length of answer decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens of the answer, at least 1. A simulated engine generates exactly so many.
    pub output_tokens: u32,
    /// Priority in the engine's own sense (see [`Policy::rank`](crate::policy::Policy::rank)); looked at under
    /// priority scheduling only.
    pub priority: i32,
    /// What the prompt is, as [`block_hashes`](crate::prefix::block_hashes) of the engine's block size: of the prompt,
    /// or of the prompt and the answer where the answer is known beforehand. Empty: shares nothing with anybody.
    pub prefix: Arc<[u64]>,
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Reject {
    /// Prompt and answer are longer than the context.
    #[error("{tokens} tokens of prompt and answer exceed max-model-len {max_model_len}")]
    TooLong {
        /// Tokens of both.
        tokens: u64,
        /// The limit.
        max_model_len: u32,
    },
    /// Nothing to read or nothing to say.
    #[error("a request needs at least one token of prompt and one of answer")]
    Empty,
    /// The queue has its full number of requests.
    #[error("the queue is full: {limit} requests wait")]
    QueueFull {
        /// The limit.
        limit: u32,
    },
    /// The queue has its full number of prompt tokens.
    #[error("the queue is full: a limit of {limit} waiting prompt tokens")]
    QueueTokens {
        /// The limit.
        limit: u64,
    },
}

/// How an admitted or waiting request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All its tokens were generated.
    Length,
    /// The client gave it up.
    Cancelled,
}

/// Tokens that one step generated for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokenStamp {
    /// The end of the step.
    pub at: Nanos,
    /// How many, at least 1; more than 1 only under speculation.
    pub tokens: u32,
}

/// All that happened to one request inside the engine, to the nanosecond of the engine's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Which request.
    pub id: RequestId,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens it asked for.
    pub output_tokens: u32,
    /// Its priority.
    pub priority: i32,
    /// When it reached the engine.
    pub arrived: Nanos,
    /// When it entered the waiting queue. This engine has no front end, so it is the arrival.
    pub queued: Nanos,
    /// When a step first took it up. `None` if that never happened.
    pub admitted: Option<Nanos>,
    /// When its prompt was computed in full: the end of that step, which also gave the first token.
    pub prefilled: Option<Nanos>,
    /// Every step that gave it tokens, in order. A stream shows them at the same instants or, with a stream interval,
    /// later ones.
    pub tokens: Vec<TokenStamp>,
    /// When it left the engine.
    pub finished: Nanos,
    /// How it ended.
    pub end: End,
    /// How often it lost its KV cache and had to compute it again.
    pub preemptions: u32,
    /// Prompt tokens found in the prefix cache when it was first taken up.
    pub cached_tokens: u32,
}

impl Truth {
    /// The truth about a request that has just arrived.
    pub(crate) fn arrived(request: &Request, now: Nanos) -> Self {
        Self {
            id: request.id,
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            priority: request.priority,
            arrived: now,
            queued: now,
            admitted: None,
            prefilled: None,
            tokens: Vec::new(),
            finished: now,
            end: End::Length,
            preemptions: 0,
            cached_tokens: 0,
        }
    }

    /// Notes what a step generated.
    pub(crate) fn book(&mut self, at: Nanos, tokens: u32) {
        if self.tokens.is_empty() {
            // Once, so that a long answer is not copied as it grows; a cancelled one wastes little.
            self.tokens.reserve_exact(self.output_tokens.min(4_096) as usize);
        }
        self.tokens.push(TokenStamp { at, tokens });
    }

    /// Tokens generated.
    #[must_use]
    pub fn generated(&self) -> u32 {
        self.tokens.iter().map(|stamp| stamp.tokens).sum()
    }

    /// The end of the step that gave the first token.
    #[must_use]
    pub fn first_token(&self) -> Option<Nanos> {
        self.tokens.first().map(|stamp| stamp.at)
    }

    /// The end of the step that gave the last token so far.
    #[must_use]
    pub fn last_token(&self) -> Option<Nanos> {
        self.tokens.last().map(|stamp| stamp.at)
    }
}
