//! How a request ended: an enum with its evidence, never a string.
//!
//! Only [`Outcome::Ok`] has latencies. Every other outcome stays in the denominator of attainment and counts
//! against goodput, except [`Outcome::Cancelled`] by the run's own end, which is censored when it had not yet
//! broken a limit.

use serde::{Deserialize, Serialize};

/// Which limit ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutPhase {
    /// The connection (TCP and TLS) did not come up.
    Connect,
    /// No token came in time.
    FirstToken,
    /// No body byte came for too long.
    Idle,
    /// The whole request took too long.
    Total,
}

impl TimeoutPhase {
    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstToken => "first_token",
            Self::Idle => "idle",
            Self::Total => "total",
        }
    }
}

/// Why a connection could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectFault {
    /// Nobody listens there.
    Refused,
    /// No route, network down.
    Unreachable,
    /// This machine ran out of ports or file descriptors: the client's fault, and the run is invalid.
    ClientLimit,
    /// The TLS handshake failed.
    Tls,
    /// Anything else, as the system put it.
    Other,
}

/// Who ended a request that was still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    /// The run was over and the drain time had passed.
    RunEnd,
    /// The user pressed Ctrl-C.
    Interrupt,
    /// The error budget was used up.
    ErrorBudget,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "name")]
pub enum Outcome {
    /// A whole answer with at least one token.
    Ok,
    /// A status other than 200.
    HttpError {
        /// The status code.
        status: u16,
        /// What the body said, shortened.
        message: String,
    },
    /// An error object inside a 200: in the stream, or as the whole body.
    StreamError {
        /// What it said, shortened.
        message: String,
    },
    /// The finish reason says that the engine gave up (`abort`, `error`).
    Aborted {
        /// The finish reason, with its message where there is one.
        reason: String,
    },
    /// The body ended without a finish reason and without the protocol's end.
    Truncated {
        /// Whether the connection went away inside the HTTP body, whose framing had promised more. Otherwise the
        /// body ended as HTTP wants it, and only the answer in it is cut off.
        #[serde(default)]
        inside_body: bool,
    },
    /// A well-formed, terminated answer without a single token.
    NoTokens,
    /// Fewer tokens than asked although end-of-sequence was to be ignored.
    ShortOutput {
        /// Tokens that came.
        got: u32,
        /// Tokens asked for.
        wanted: u32,
    },
    /// A limit of ours ran out.
    Timeout {
        /// Which one.
        phase: TimeoutPhase,
    },
    /// No connection.
    Connect {
        /// Why.
        fault: ConnectFault,
        /// The system's words.
        message: String,
    },
    /// The peer reset the connection, or closed it before any part of an answer.
    Reset,
    /// Bytes that are not the protocol: not a stream, broken JSON, broken HTTP.
    Protocol {
        /// What was wrong.
        message: String,
    },
    /// Ended by us.
    Cancelled {
        /// Who.
        cause: CancelCause,
    },
}

impl Outcome {
    /// The stable names, in the order in which reports list them.
    pub const NAMES: [&'static str; 12] = [
        "ok",
        "http_error",
        "stream_error",
        "aborted",
        "truncated",
        "no_tokens",
        "short_output",
        "timeout",
        "connect",
        "reset",
        "protocol",
        "cancelled",
    ];

    /// The stable name in outputs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HttpError { .. } => "http_error",
            Self::StreamError { .. } => "stream_error",
            Self::Aborted { .. } => "aborted",
            Self::Truncated { .. } => "truncated",
            Self::NoTokens => "no_tokens",
            Self::ShortOutput { .. } => "short_output",
            Self::Timeout { .. } => "timeout",
            Self::Connect { .. } => "connect",
            Self::Reset => "reset",
            Self::Protocol { .. } => "protocol",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether this request has latencies.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Whether the run itself cut this request off, so that it is censored rather than failed.
    #[must_use]
    pub const fn is_censored(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// Whether the fault lies with this machine.
    #[must_use]
    pub const fn is_client_fault(&self) -> bool {
        matches!(self, Self::Connect { fault: ConnectFault::ClientLimit, .. })
    }
}
