//! `summary.json`: the published numbers, as strict JSON.

use crate::error::StoreError;
use crate::layout::{RunDir, SUMMARY};
use goodput_core::summary::{SCHEMA, Summary};
use std::fs;

/// Writes `summary.json`.
///
/// JSON has no NaN and no infinity, and the writer would turn them into `null`, which means undefined. So the
/// text is read back first: a number that got lost is an error here instead of a wrong file.
///
/// # Errors
/// [`StoreError::Content`] for a number that JSON cannot hold, [`StoreError::Io`].
pub fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), StoreError> {
    let path = run.file(SUMMARY);
    let value = serde_json::to_value(summary).map_err(StoreError::content("JSON", &path))?;
    let back: Summary =
        serde_json::from_value(value).map_err(StoreError::content("strict JSON without NaN", &path))?;
    if back == *summary {
        run.write_json(SUMMARY, summary)
    } else {
        Err(StoreError::content("strict JSON without NaN", &path)(
            "a number is not finite; undefined must be null",
        ))
    }
}

/// Reads `summary.json`.
///
/// # Errors
/// [`StoreError::Io`] if there is none, [`StoreError::Content`] if it is broken or of another schema major.
pub fn read_summary(run: &RunDir) -> Result<Summary, StoreError> {
    let path = run.file(SUMMARY);
    let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
    let summary: Summary = serde_json::from_slice(&bytes).map_err(StoreError::content("a summary", &path))?;
    let major = |schema: &str| schema.split('.').take(2).collect::<Vec<_>>().join(".");
    if major(&summary.schema) == major(SCHEMA) {
        Ok(summary)
    } else {
        let detail = format!("schema {}, this program reads {SCHEMA}", summary.schema);
        Err(StoreError::content("a summary of this program", &path)(detail))
    }
}
