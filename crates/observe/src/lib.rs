//! Metrics pages of inference servers, read and written: what a server says of itself.
//!
//! A page of Prometheus text or OpenMetrics becomes a [`expose::Page`] of families; two pages become the counts
//! of the time between them ([`delta`]), and a histogram answers with intervals, never with a number that it
//! cannot know ([`histogram`]). What each engine's families are called, which clock they are on and when they are
//! observed is data ([`engine_names`]). The simulated engine writes the same pages by the same tables ([`page`]).
//!
//! All of it is functions over bytes and numbers that the caller hands in. It never reads a clock, a socket, a
//! file, the environment or entropy, it scrapes nothing, and it never judges what the numbers mean for a user.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod delta;
pub mod engine_names;
pub mod expose;
pub mod fuzz;
pub mod histogram;
pub mod page;
