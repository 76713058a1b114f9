//! Sockets, arrival stamps and the release thread: the real-time world of a run.
//!
//! Three kinds of threads share the work, and nothing is shared between them but messages:
//!
//! - the **release thread** ([`release`]) runs the load driver on an absolute schedule and writes each request to
//!   a ready connection itself, so that a busy receiver cannot delay an arrival;
//! - **receive threads** ([`receive`]) own the sockets of running requests, take the kernel's arrival stamp with
//!   every read, copy, and only then parse;
//! - the **feeder** ([`feed`]) encodes request bodies ahead of time.
//!
//! Finished timelines leave through one channel to the caller, the only writer of the run's record.

pub mod clock;
pub mod connection;
pub mod feed;
pub mod http2;
mod inbox;
pub mod limits;
pub mod probe;
pub mod receive;
pub mod records;
pub mod release;
pub mod run;
mod run_delay;
pub mod source;
mod sys;
pub mod target;
pub mod timer;
mod turn;
mod warm;
