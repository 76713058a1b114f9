//! Findings, texts and generated documentation from a summary.
//!
//! `goodput-report` reads a [`goodput_core::summary::Summary`] and says in words what it means: [`findings`] is the
//! table of rules, [`text`] the report that an engineer pastes into a channel, [`docs`] the pages generated from the
//! tables of `goodput-core`. It is pure: it never reads a clock, a file, a socket, the environment or entropy, never
//! prints, and never computes a metric; every figure it shows is in the summary.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod docs;
pub mod findings;
mod layout;
mod number;
pub mod text;

pub use layout::{paragraph, table};
pub use number::{count, figure};
