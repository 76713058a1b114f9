//! Prompts from data: ShareGPT files and JSON lines, read as streams from readers the caller opened.
//!
//! Two kinds of trouble are kept apart. An *entry* that cannot be used is dropped and counted by reason; it
//! never stops the load. A *file* that is damaged (cut off, or not JSON any more) is refused with the byte,
//! the reason and the number of whole entries before it, unless salvaging was asked for: then those entries
//! are used and the damage is reported. Nothing is skipped in silence, and a file is never held as a whole.

mod elements;
pub mod jsonl;
pub mod sharegpt;
mod source;

use crate::prompt::Prompt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Entries longer than this are taken for damage (a lost quotation mark makes the rest of a file one entry).
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Why an entry is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// JSON, but not of the shape of an entry.
    Malformed,
    /// No conversation in it.
    NoConversation,
    /// Fewer than two turns, system messages not counted.
    TooFewTurns,
    /// No user turn followed at once by an assistant turn.
    NoPair,
    /// Neither a prompt nor messages.
    NoPrompt,
    /// The prompt has no character that is not blank.
    EmptyPrompt,
    /// The answer has no character that is not blank.
    EmptyCompletion,
    /// The prompt has fewer tokens than the filter wants.
    PromptTooShort,
    /// The answer has fewer tokens than the filter wants.
    CompletionTooShort,
    /// The prompt, or prompt and answer together, have more tokens than the filter allows.
    TooLong,
}

impl Reason {
    /// The name in reports and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoConversation => "no_conversation",
            Self::TooFewTurns => "too_few_turns",
            Self::NoPair => "no_pair",
            Self::NoPrompt => "no_prompt",
            Self::EmptyPrompt => "empty_prompt",
            Self::EmptyCompletion => "empty_completion",
            Self::PromptTooShort => "prompt_too_short",
            Self::CompletionTooShort => "completion_too_short",
            Self::TooLong => "too_long",
        }
    }
}

/// Dropped entries by reason.
pub type Dropped = BTreeMap<Reason, u64>;

/// An entry whose shape can be used. Its lengths have not been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Position among the entries of the file, from 0.
    pub position: u64,
    /// What to send.
    pub prompt: Prompt,
    /// What the data says about the length of the answer.
    pub output: OutputHint,
}

/// What the data says about the length of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputHint {
    /// Nothing.
    None,
    /// As many tokens.
    Tokens(u32),
    /// As many tokens as this answer has.
    Answer(Box<str>),
}

/// What was read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Usable entries in file order.
    pub candidates: Vec<Candidate>,
    /// Whole entries read.
    pub entries_read: u64,
    /// Entries that cannot be used, by reason.
    pub dropped: Dropped,
    /// Where the file breaks, if it does and its whole entries were asked for.
    pub damaged: Option<Damage>,
}

impl Loaded {
    /// Books one entry.
    fn push(&mut self, entry: Result<(Prompt, OutputHint), Reason>) {
        let position = self.entries_read;
        self.entries_read += 1;
        match entry {
            Ok((prompt, output)) => self.candidates.push(Candidate { position, prompt, output }),
            Err(reason) => *self.dropped.entry(reason).or_default() += 1,
        }
    }

    /// Ends the reading at a break: an error, or the damage on record.
    fn end_at(mut self, broken: Break, salvage: bool) -> Result<Self, DatasetError> {
        match broken {
            Break::Read { byte, reason } => Err(DatasetError::Read { byte, reason }),
            Break::Damage { byte, line, reason } => {
                let damage = Damage { byte, line, reason, whole_before: self.entries_read };
                if !salvage {
                    return Err(DatasetError::Damaged(damage));
                }
                self.damaged = Some(damage);
                Ok(self)
            }
        }
    }
}

/// Where and why a file breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Byte of the file at which it was noticed, from 0.
    pub byte: u64,
    /// Line of that byte, from 1.
    pub line: u64,
    /// What is wrong there.
    pub reason: String,
    /// Whole entries before it.
    pub whole_before: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { byte, line, reason, whole_before } = self;
        write!(f, "damaged at byte {byte} (line {line}): {reason}; whole entries before it: {whole_before}")
    }
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatasetError {
    /// Damaged, and salvaging was not asked for.
    #[error("{0}; --salvage uses those and reports the damage")]
    Damaged(Damage),
    /// The reader failed.
    #[error("reading failed at byte {byte}: {reason}")]
    Read {
        /// Bytes read before.
        byte: u64,
        /// What the reader said.
        reason: String,
    },
}

/// Why a source ends before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Break {
    Read { byte: u64, reason: String },
    Damage { byte: u64, line: u64, reason: String },
}

/// Names of reasons with their counts, for messages.
pub(crate) fn describe_dropped(dropped: &Dropped) -> String {
    let parts: Vec<String> =
        dropped.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    if parts.is_empty() { "nothing dropped".into() } else { parts.join(", ") }
}
