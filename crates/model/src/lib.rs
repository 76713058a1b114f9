//! Models of LLM serving: a simulated engine, and the queueing theory that it is checked against.
//!
//! Pure and deterministic: time is [`Nanos`](goodput_core::time::Nanos) handed in by the caller, randomness is a
//! counter-based stream of a seed, and the same input gives the same bytes on every machine. Nothing here reads a
//! clock or sleeps; whoever runs a model in real time or in virtual time owns the loop.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cluster;
pub mod config;
pub mod cost;
pub mod engine;
pub mod event;
mod invariant;
pub mod knobs;
pub mod kv;
pub mod laws;
mod number_map;
pub mod policy;
pub mod prefix;
pub mod profile;
pub mod queueing;
pub mod request;
pub mod roofline;
mod scheduler;
mod sequence;

pub use invariant::Violation;
