//! The run directory: what a run leaves on disk, and how it is read again.
//!
//! While a run lasts, finished requests go to an append-only [`log`] that a kill at any byte leaves readable. At the
//! end the log becomes two [`parquet`] files, which notebooks read as they are and which [`reader::RunReader`] reads
//! back without loss. [`manifest`] holds what must always be logged, [`layout`] the file names, [`version`] who can
//! read what.
//!
//! The crate stores facts. It computes no metric and knows no ruler, and the types of the Parquet library stay inside
//! it.

pub mod error;
pub mod layout;
pub mod log;
pub mod manifest;
pub mod parquet;
pub mod reader;
pub mod redact;
pub mod summary;
pub mod version;

mod fields;
mod frame;
mod record;

pub use error::StoreError;
