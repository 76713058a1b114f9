//! Load policy as a pure state machine, and the virtual-time loop that runs it.
//!
//! [`driver::Driver`] decides when a request is let go and when a run is over. It is told what time it is and what
//! happened, and it answers with what to do; it owns no clock, no socket and no thread. A loop over sockets runs it in
//! real time, [`virtual_time::run`] runs the same machine against a simulated server in exact integer time, so that a
//! policy exists once.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod deadline;
pub mod driver;
pub mod engine_server;
pub mod fixed_server;
mod loop_rule;
pub mod phase;
pub mod queue_server;
mod stop;
pub mod virtual_time;
