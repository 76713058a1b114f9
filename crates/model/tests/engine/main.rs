//! The simulated engine from outside: exact times, laws, and the phenomena that it is there to show.

mod cancel;
mod cluster;
mod driver;
mod laws;
mod prefix;
mod pressure;
mod queue;
mod speculation;
mod stall;
