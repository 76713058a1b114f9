//! The whole chain against queueing theory: arrivals, driver, queue, timelines, ruler and statistics, at a fixed seed.
//!
//! Successive requests remember each other, so that a run knows less than its number of requests suggests. How far its
//! figures may be off by chance is the band of 500 runs of the same length, by recursions that share nothing with this
//! program (`golden/make_bands.py`). Theory and the run must both be inside.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod theory;
mod watch;
