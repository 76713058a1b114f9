//! The rules of ARCHITECTURE.md that a machine can check: who may depend on whom, what pure crates may not reach,
//! and how sources are kept.
//!
//! Nothing here knows what the program does. A failing test names the rule and every place that breaks it; where a
//! rule has exceptions, they are in the tables of these files with their reasons, and one that is no longer needed
//! fails too.

mod layers;
mod pure;
mod sources;
mod tree;
