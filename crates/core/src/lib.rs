//! The vocabulary of a run and what its numbers mean.
//!
//! `goodput-core` holds the facts of a run ([`timeline`], [`outcome`], [`tokens`]), the frozen description of
//! what was asked ([`plan`]), and the definitions that turn facts into numbers. It is pure: it never reads a
//! clock, a file, a socket, the environment or entropy. Time and randomness come in as arguments.
//!
//! The way from facts to numbers: [`summarise`] reads timelines, each measured by one [`ruler`] into the values of
//! the [`metric`] table, over a [`window`], with the offered load checked ([`load_check`]) and, given an [`slo`],
//! goodput; the result is a [`summary`], the only thing that reports read. Where a server keeps a record of its own,
//! [`truth`] says how far a run's figures are from it.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod concurrency;
mod facts;
mod gap_check;
mod goodput;
pub mod interval;
pub mod load_check;
pub mod metric;
pub mod outcome;
pub mod plan;
pub mod rate;
mod reading;
pub mod rng;
pub mod ruler;
pub mod schedule;
pub mod slo;
pub mod summarise;
pub mod summary;
mod throughput;
pub mod time;
pub mod timeline;
pub mod tokens;
pub mod truth;
pub mod units;
pub mod window;
