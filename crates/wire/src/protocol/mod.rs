//! What the events of each protocol say.
//!
//! One file per protocol family turns the data of one event into [`Piece`]s, one per choice; [`fault`] knows how
//! servers spell errors; [`json`] holds the forgiving field types they share. Nothing here keeps state over
//! events or judges an answer.

pub(crate) mod fault;
pub(crate) mod json;
pub(crate) mod openai;
pub(crate) mod sglang;

use goodput_core::timeline::ChunkFlags;

/// What one event says about one choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// `choices[].index`.
    pub(crate) index: u32,
    /// The facts that are visible in this choice alone.
    pub(crate) flags: ChunkFlags,
    /// Token ids in it.
    pub(crate) ids: u32,
    /// Log-probability entries in it.
    pub(crate) logprobs: u32,
    /// The server's cumulative count of output tokens, where this event gives one.
    pub(crate) count: Option<u32>,
    /// The finish reason, if not empty.
    pub(crate) finish: Option<&'a json::Finish<'a>>,
    /// Whether the server says that a stop string ended the choice.
    pub(crate) stop_string: bool,
}
