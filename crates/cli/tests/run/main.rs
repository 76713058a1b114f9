//! The `goodput` binary from the outside: what it prints, what it leaves on disk, how it ends.
//!
//! Every test starts the real program against the exact server in this process. Bounds on time are generous; how
//! exact the times are is tested where they are taken.

mod data;
mod ends;
mod faults;
mod goodput;
mod measuring;
mod queue;
mod recorder;
mod replay;
mod secrets;
mod selfcheck;
mod showing;
mod sim;
mod sim_run;
mod sim_serve;
mod truth;
