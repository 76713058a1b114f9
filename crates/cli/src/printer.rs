//! The only place that writes to stdout and stderr. Stdout is the result, stderr is everything else.
#![expect(clippy::print_stderr, reason = "this module is where printing happens")]

use std::fmt::Display;
use std::io::{self, Write};

/// What a command may say, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    /// No notices on stderr.
    pub(crate) quiet: bool,
}

impl Printer {
    /// The result, on stdout. A reader that has gone away (`| head`) is not an error.
    pub(crate) fn result(self, text: impl Display) {
        // A broken pipe ends the output, as it should.
        drop(writeln!(io::stdout().lock(), "{text}"));
    }

    /// A notice, on stderr, unless quiet.
    pub(crate) fn notice(self, text: impl Display) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// An error, on stderr, always.
    pub(crate) fn error(self, text: impl Display) {
        eprintln!("{text}");
    }

    /// Text that is already complete, on stdout, without a line end added.
    pub(crate) fn raw(self, text: &str) {
        let mut out = io::stdout().lock();
        // A broken pipe ends the output, as it should.
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}
