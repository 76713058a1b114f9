//! Token counts that say where they come from.

use serde::{Deserialize, Serialize};

/// How a token count is known, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TokenSource {
    /// The server's own count (last cumulative usage).
    Server = 0,
    /// Token ids in the stream were counted.
    Ids = 1,
    /// Log-probability entries were counted.
    Logprobs = 2,
    /// The whole text went through the model's own tokenizer.
    Retokenised = 3,
    /// Token-carrying chunks were counted, one token each: an estimate.
    Chunks = 4,
}

impl TokenSource {
    /// Every source, best first.
    pub const ALL: [Self; 5] = [Self::Server, Self::Ids, Self::Logprobs, Self::Retokenised, Self::Chunks];

    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Ids => "ids",
            Self::Logprobs => "logprobs",
            Self::Retokenised => "retokenised",
            Self::Chunks => "chunks",
        }
    }

    /// The source with this discriminant, for readers of stored runs.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether the count is an estimate and must be marked as one.
    #[must_use]
    pub const fn is_estimate(self) -> bool {
        matches!(self, Self::Chunks)
    }
}

/// A count of tokens with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCount {
    /// How many.
    pub count: u32,
    /// How that is known.
    pub source: TokenSource,
}
