//! Bytes and arrival stamps in, chunks and an outcome out; request bodies out.
//!
//! `goodput-wire` knows how the bytes of an answer are framed (HTTP/1.1, server-sent events), what the events of
//! each protocol say, and how an answer can end. It is sans-IO and incremental: whoever owns the socket pushes
//! what it read together with the stamp of that read, in pieces of any size, and asks for a [`reply::Reply`] at
//! the end. It never reads a clock, a socket, a file, the environment or entropy, and it never judges whether an
//! answer was fast: it writes down facts.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
pub mod exchange;
pub mod fuzz;
pub mod http1;
mod protocol;
pub mod replay;
pub mod reply;
pub mod request;
pub mod sse;
mod stamp;
mod tally;

pub use stamp::Stamp;
