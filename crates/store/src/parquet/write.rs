//! From the log of a finished run to its Parquet files.
//!
//! Writing holds one batch, one row group of encoded pages and a compressor a column, some 25 MB in all.

use super::{FORMAT_KEY, chunks, requests, unwritable};
use crate::error::StoreError;
use crate::layout::{CHUNKS, REQUESTS, RunDir, publish, temporary_name};
use crate::log::{Damage, LogReader};
use crate::version::FORMAT;
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use goodput_core::timeline::{ChunkFlags, Timeline};
use std::fs::File;
use std::path::PathBuf;

/// zstd level of both files.
const LEVEL: i32 = 3;

/// What happens to the log once its requests are in Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogAfter {
    /// It is deleted, unless its end was cut.
    Delete,
    /// It stays.
    Keep,
}

/// What a conversion wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Rows of `requests.parquet`.
    pub requests: u64,
    /// Rows of `chunks.parquet`.
    pub chunks: u64,
    /// The cut end of the log, if it had one. The log is kept then.
    pub damage: Option<Damage>,
}

/// Streams the log of a finished run into `requests.parquet` and `chunks.parquet`.
///
/// # Errors
/// Those of [`LogReader::for_each`], and [`StoreError::Io`] or [`StoreError::Content`] if the files cannot be
/// written. The log is untouched then.
pub fn convert(run: &RunDir, log_after: LogAfter) -> Result<Converted, StoreError> {
    let log = LogReader::open(run)?;
    let mut writer = RunWriter::create(run)?;
    let mut written = Ok(());
    let end = log.for_each(&mut |timeline| {
        if written.is_ok() {
            written = writer.push(timeline);
        }
    })?;
    written?;
    let converted = writer.finish(end.damage)?;
    if log_after == LogAfter::Delete && converted.damage.is_none() && !log.is_empty() {
        log.remove(run)?;
    }
    Ok(converted)
}

/// Both files while they grow.
struct RunWriter {
    requests: Output,
    request_rows: requests::Rows,
    chunks: Output,
    chunk_rows: chunks::Rows,
    written: Converted,
}

impl RunWriter {
    fn create(run: &RunDir) -> Result<Self, StoreError> {
        Ok(Self {
            requests: Output::create(
                run.file(REQUESTS),
                requests::schema(),
                requests::GROUP_ROWS,
                &requests::differences(),
            )?,
            request_rows: requests::Rows::new(),
            chunks: Output::create(
                run.file(CHUNKS),
                chunks::schema(),
                chunks::GROUP_ROWS,
                &chunks::DIFFERENCES,
            )?,
            chunk_rows: chunks::Rows::default(),
            written: Converted { requests: 0, chunks: 0, damage: None },
        })
    }

    fn push(&mut self, timeline: &Timeline) -> Result<(), StoreError> {
        let row = self.written.requests.cast_signed();
        self.request_rows.push(row, timeline);
        self.written.requests += 1;
        if self.request_rows.len() >= requests::BATCH_ROWS {
            self.requests.write(self.request_rows.take())?;
        }
        for chunk in &timeline.chunks {
            self.chunk_rows.push(row, chunk);
            if self.chunk_rows.len() >= chunks::BATCH_ROWS {
                self.chunks.write(self.chunk_rows.take())?;
            }
        }
        self.written.chunks += timeline.chunks.len() as u64;
        Ok(())
    }

    fn finish(mut self, damage: Option<Damage>) -> Result<Converted, StoreError> {
        self.requests.write(self.request_rows.take())?;
        self.chunks.write(self.chunk_rows.take())?;
        self.chunks.finish()?;
        self.requests.finish()?;
        Ok(Converted { damage, ..self.written })
    }
}

/// One Parquet file while it grows, under its temporary name.
struct Output {
    path: PathBuf,
    writer: ArrowWriter<File>,
}

impl Output {
    /// `differences` names the columns stored so.
    fn create(
        path: PathBuf,
        schema: SchemaRef,
        group_rows: usize,
        differences: &[&'static str],
    ) -> Result<Self, StoreError> {
        let file = File::create(temporary_name(&path)).map_err(StoreError::io("create", &path))?;
        let level = ZstdLevel::try_new(LEVEL).map_err(unwritable(&path))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(group_rows))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(metadata()));
        for &name in differences {
            properties = properties
                .set_column_dictionary_enabled(ColumnPath::from(name), false)
                .set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
        }
        let writer =
            ArrowWriter::try_new(file, schema, Some(properties.build())).map_err(unwritable(&path))?;
        Ok(Self { path, writer })
    }

    fn write(&mut self, batch: RecordBatch) -> Result<(), StoreError> {
        self.writer.write(&batch).map_err(unwritable(&self.path))
    }

    fn finish(self) -> Result<(), StoreError> {
        let file = self.writer.into_inner().map_err(unwritable(&self.path))?;
        file.sync_all().map_err(StoreError::io("sync", &self.path))?;
        publish(&temporary_name(&self.path), &self.path)
    }
}

/// What both files say about themselves.
fn metadata() -> Vec<KeyValue> {
    let flags: Vec<String> =
        ChunkFlags::NAMES.iter().map(|(name, flag)| format!("{}={name}", flag.0)).collect();
    vec![
        KeyValue::new(FORMAT_KEY.into(), FORMAT.to_string()),
        KeyValue::new("goodput.version".into(), env!("CARGO_PKG_VERSION").to_owned()),
        KeyValue::new(
            "goodput.times".into(),
            "..._ns: nanoseconds since the run's epoch, or a span".to_owned(),
        ),
        KeyValue::new("goodput.chunk_flags".into(), flags.join(",")),
    ]
}
