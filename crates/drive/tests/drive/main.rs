//! The driver in virtual time, exact to the nanosecond, and its laws for random loads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod closed_loop;
mod engine;
mod handover;
mod laws;
mod limits;
mod open_loop;
mod stopping;
mod world;
