//! What the numbers mean, checked from outside: oracles of the specification, the failure cases under `testdata`,
//! and laws that hold for every run.

mod build;
mod cases;
mod findings;
mod goodput;
mod intervals;
mod laws;
mod load;
mod parts;
mod rulers;
mod schema;
mod truth;
mod windows;
