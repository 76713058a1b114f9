#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
//! Numbers only: quantiles by name with intervals, resampling, steady state, goodness of fit.
//!
//! Knows nothing of requests, tokens or time; depends on none of the other crates; reads no clock, file or entropy
//! (every random choice takes an explicit seed). **No function here takes the mean of quantiles**: parts are
//! pooled as samples, then quantiled.

pub mod batch;
mod binomial;
mod bins;
pub mod blocks;
pub mod bootstrap;
pub mod bound;
pub mod compare;
pub mod dispersion;
mod fft;
pub mod gof;
pub mod interval;
mod moments;
pub mod pool;
pub mod quantile;
pub mod sample;
mod sum;
mod table;

pub use blocks::Blocks;
pub use bootstrap::{Estimate, Resampling};
pub use bound::{RankInterval, early_stopping_rank, early_stopping_samples, order_statistic_ranks};
pub use dispersion::Dispersion;
pub use interval::Interval;
pub use quantile::{Method, Support, quantile, support};
pub use sample::{Samples, Sorted};
