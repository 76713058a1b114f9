//! The truth file: one JSON line for each request, written when it ends, and how it is read again.
//!
//! What the instants mean: the **arrival** is when the kernel had the last byte of the request (its receive stamp where
//! there is one, else the time of the read). A chunk was **written** at the start of the system call that handed its
//! last byte to the kernel, so the call itself and the way to the client come after it; it was **due** when it should
//! have been. Their difference is the server's own lateness.

use serde::{Deserialize, Serialize};
use std::io::BufRead;
use thiserror::Error;

/// One line. The JSON keys are the field names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthLine {
    /// Number since the start or the last reset, from 0.
    pub n: u64,
    /// The request's `x-request-id`.
    pub request_id: Option<String>,
    /// Number of the connection.
    pub connection: u64,
    /// How it ended.
    pub fate: Fate,
    /// When the connection was accepted, Unix ns.
    pub accepted_unix_ns: u64,
    /// When the request had arrived whole, Unix ns.
    pub arrived_unix_ns: u64,
    /// First chunk written, Unix ns.
    pub first_unix_ns: Option<u64>,
    /// Last chunk written, Unix ns.
    pub last_unix_ns: Option<u64>,
    /// Tokens written.
    pub tokens: u64,
    /// Token-carrying chunks written.
    pub chunks: u64,
    /// When each write that carried chunks was due, ns since the arrival.
    pub due_ns: Vec<u64>,
    /// When it was written, ns since the arrival.
    pub written_ns: Vec<u64>,
    /// The tokens it carried.
    pub chunk_tokens: Vec<u32>,
    /// What happened to it inside the simulated engine, if it was served by one to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineInstants>,
}

/// A request inside the simulated engine. Instants are ns after the request's arrival at the server, on the server's
/// clock: at `--speed 10` a step of 20 ms takes 2 ms of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInstants {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those of them that were found in the prefix cache when it was first taken up.
    pub cached_tokens: u32,
    /// How often it lost its KV cache.
    pub preemptions: u32,
    /// When it reached the engine: at once, unless the engine had passed that instant already.
    pub arrived_ns: u64,
    /// When it entered the waiting queue.
    pub queued_ns: u64,
    /// When a step first took it up.
    pub admitted_ns: Option<u64>,
    /// The end of the step that completed its prompt and gave the first token.
    pub prefilled_ns: Option<u64>,
    /// When it left the engine.
    pub finished_ns: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Answered to the end.
    Finished,
    /// The client went away.
    Disconnected,
    /// The server stopped first.
    Open,
}

/// A truth file that cannot be read.
#[derive(Debug, Error)]
pub enum TruthFileError {
    /// The reader failed.
    #[error("line {line}: {source}")]
    Io {
        /// From 1.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
    /// Not a line of such a file.
    #[error(
        "line {line} is not one of a truth file (`goodput sim fixed` and `sim serve` write them with --truth FILE): {source}"
    )]
    Line {
        /// From 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
}

/// Reads a truth file line by line. A last line without an end is left out: its server is still writing it.
///
/// # Errors
/// [`TruthFileError`] with the line.
pub fn read_truth(mut reader: impl BufRead, mut visit: impl FnMut(TruthLine)) -> Result<(), TruthFileError> {
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        reader.read_line(&mut text).map_err(|source| TruthFileError::Io { line, source })?;
        if !text.ends_with('\n') {
            break;
        }
        visit(serde_json::from_str(&text).map_err(|source| TruthFileError::Line { line, source })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"n":0,"request_id":"r","connection":3,"fate":"finished","accepted_unix_ns":1,
        "arrived_unix_ns":2,"first_unix_ns":5,"last_unix_ns":9,"tokens":2,"chunks":2,"due_ns":[3,7],
        "written_ns":[3,7],"chunk_tokens":[1,1]}"#;

    fn read(text: &str) -> Result<Vec<TruthLine>, String> {
        let mut lines = Vec::new();
        read_truth(text.as_bytes(), |line| lines.push(line)).map_err(|e| e.to_string())?;
        Ok(lines)
    }

    #[test]
    fn lines_are_read_and_a_cut_one_is_left_out() {
        let line = LINE.replace('\n', "");
        let lines = read(&format!("{line}\n{line}\n{}", &line[..40])).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].request_id.as_deref(), lines[0].fate), (Some("r"), Fate::Finished));
        assert_eq!(lines[0].written_ns, [3, 7]);
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn other_files_are_refused_with_the_line() {
        let line = LINE.replace('\n', "");
        let wrong = read(&format!("{line}\n{{\"a\": 1}}\n")).unwrap_err();
        assert!(wrong.starts_with("line 2 is not one of a truth file"), "{wrong}");
        assert!(read("schedule,csv\n").unwrap_err().starts_with("line 1 "));
    }
}
