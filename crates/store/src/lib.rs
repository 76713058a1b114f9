//! The run directory: what a run leaves on disk, and how it is read again.
//!
//! While a run lasts, finished requests go to an append-only [`log`] that a kill at any byte leaves readable.
//! At the end the log becomes two [`parquet`] files, which notebooks read as they are and which
//! [`reader::RunReader`] reads back without loss. [`manifest`] holds what must always be logged, [`layout`]
//! the file names, [`version`] who can read what.
//!
//! The life of a run, in the order that keeps it readable at every moment: [`layout::RunDir::create`]; plan,
//! schedule and a manifest that says `running`; a [`log::LogWriter`] with an `append` for every finished
//! request and a `tick` every few milliseconds; at the end its `finish`, [`parquet::convert`],
//! [`summary::write_summary`], and last the manifest again, which now says how the run ended.
//!
//! The crate stores facts. It computes no metric and knows no ruler, and the types of the Parquet library
//! stay inside it.

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
