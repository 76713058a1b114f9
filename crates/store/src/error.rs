//! What can go wrong with a run directory, in words that name the file, what was expected, and what to do.

use crate::version::FormatVersion;
use std::io;
use std::path::{Path, PathBuf};

/// A run directory that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A run of this name is there already.
    #[error(
        "{} exists already and a run is never overwritten; choose another --name, or leave it out for a new one",
        path.display()
    )]
    Exists {
        /// The directory that is taken.
        path: PathBuf,
    },
    /// A run name that cannot name a folder.
    #[error("`{name}` cannot name a run: {reason}; use letters, digits, `-`, `_` and `.`")]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A path that is no run and holds none.
    #[error(
        "{} is not a run directory: {reason}; give the path of a run, or of a folder that holds runs",
        path.display()
    )]
    NotARun {
        /// What was given.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A format of another time.
    #[error(
        "{} was written by format {found}, this program reads {reads}; open it with the goodput that wrote it \
         (manifest.json names its version)",
        path.display()
    )]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// The version found.
        found: FormatVersion,
        /// The version this program writes; it reads every earlier minor of the same major.
        reads: FormatVersion,
    },
    /// A file whose content is not what its name says.
    #[error("{} is not {expected}: {detail}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What was found.
        detail: String,
    },
    /// A log broken in the middle. The requests before the break have been delivered.
    #[error(
        "{} is damaged at byte {byte}: {reason}; the {requests} requests before it were read; restore the file \
         from a copy, or remove this segment and the later ones to go on without them",
        path.display()
    )]
    Corrupt {
        /// The segment.
        path: PathBuf,
        /// Where the broken frame begins.
        byte: u64,
        /// What is wrong with it.
        reason: String,
        /// Requests delivered before the break.
        requests: u64,
    },
    /// A record that breaks a rule every record keeps: a fault of the program that made it.
    #[error(
        "the record of {phase} request {index} breaks a rule of every record: {rule}; please report this"
    )]
    Record {
        /// The request's index within its phase.
        index: u64,
        /// `warmup` or `measured`.
        phase: &'static str,
        /// The rule that is broken.
        rule: String,
    },
}

impl StoreError {
    /// Wraps an i/o error with what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Wraps a parser's error with the file and what it should have been.
    pub(crate) fn content<E: std::fmt::Display>(
        expected: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |detail| Self::Content { path: path.to_owned(), expected, detail: detail.to_string() }
    }
}
