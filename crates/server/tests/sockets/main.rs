//! The server over real sockets on 127.0.0.1. Times are checked from below only: never early.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod engine;
mod fixed;
mod script;
