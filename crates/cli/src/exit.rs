//! How the program ends: documented exit codes, and errors that say what to do.

use std::fmt;
use std::process::ExitCode;

/// The exit codes. They are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// A gate failed: SLO or regression.
    Gate,
    /// The input is wrong.
    Input,
    /// The run is invalid: the target is unreachable, every request failed, or (with --strict) the client was the limit.
    /// A self-check: this host is not fit.
    Invalid,
    /// Interrupted; the partial run is saved.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Gate => 1,
            Exit::Input => 2,
            Exit::Invalid => 3,
            Exit::Interrupted => 130,
        })
    }
}

/// An error for the user: what was wrong, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hints: Vec<String>,
}

impl Failure {
    /// The input is wrong.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { exit: Exit::Input, message: message.into(), hints: Vec::new() }
    }

    /// The run cannot be valid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { exit: Exit::Invalid, message: message.into(), hints: Vec::new() }
    }

    /// The user broke it off.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, message: message.into(), hints: Vec::new() }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
