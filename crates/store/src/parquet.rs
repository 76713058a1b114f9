//! `requests.parquet` and `chunks.parquet`: the run at rest, for this program and for notebooks.
//!
//! One row a request in the order in which they finished, one row a chunk in the same order; `request_row` joins them.
//! Times are whole nanoseconds since the run's epoch, named `..._ns`. Both files get their names only when they are
//! complete and durable, the chunks first, so that a reader who finds `requests.parquet` has everything, and one who
//! does not still has the log.
//!
//! Neither writing nor reading takes memory by the length of the run (one request's chunks are held whole, as
//! everywhere). Types of the Parquet library do not leave this module.

mod chunks;
mod read;
mod requests;
mod write;

use crate::error::StoreError;
use std::fmt::Display;
use std::path::Path;

pub(crate) use read::ParquetReader;
pub use write::{Converted, LogAfter, convert, convert_on};

/// Key of the format version in a file's metadata.
const FORMAT_KEY: &str = "goodput.format";

/// Wraps an error of the Parquet writer.
fn unwritable<E: Display>(path: &Path) -> impl FnOnce(E) -> StoreError {
    StoreError::content("writable as Parquet", path)
}

/// Wraps an error of the Parquet reader.
fn unreadable<E: Display>(path: &Path) -> impl FnOnce(E) -> StoreError {
    StoreError::content("a whole Parquet file of a goodput run", path)
}
