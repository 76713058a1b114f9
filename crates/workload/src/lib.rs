//! What to send and when: arrivals, lengths, prompts, data sets.
//!
//! `goodput-workload` turns a frozen plan into a schedule of absolute instants ([`arrival`]) and into
//! requests ([`workload`]). Everything is a pure function of the plan, the seed and the request's index, so
//! any worker can compute any part of a run. It never opens a file or a socket, never reads a clock and draws
//! no entropy: data comes from readers, and the server's tokenizer from a function, that the caller hands in.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod arrival;
pub mod dataset;
mod entries;
mod fingerprint;
pub mod length;
pub mod prompt;
pub mod tokenizer;
pub mod workload;

pub use arrival::schedule;
pub use prompt::{Message, Prompt};
pub use tokenizer::Tokenizer;
pub use workload::{Inputs, Request, Workload, WorkloadError, WorkloadReport};

#[cfg(test)]
mod testing;
