//! `requests.parquet` and `chunks.parquet`: the run at rest, for this program and for notebooks.
//!
//! At the end of a run the log is streamed into both files and deleted. One row a request in the order in
//! which they finished, one row a chunk in the same order; `request_row` joins them. Times are whole
//! nanoseconds since the run's epoch, named `..._ns`. Both files get their names only when they are complete
//! and durable, the chunks first, so that a reader who finds `requests.parquet` has everything, and one who
//! does not still has the log.
//!
//! Writing holds one batch, one row group of encoded pages and a compressor a column, some 25 MB in all;
//! reading holds one batch and a decompressor a column. Neither depends on the length of the run (one
//! request's chunks are held whole, as everywhere). Types of the Parquet library do not leave this module.

mod chunks;
mod requests;

use crate::error::StoreError;
use crate::fields::{blank, check};
use crate::layout::{CHUNKS, REQUESTS, RunDir, publish, temporary_name};
use crate::log::{Damage, LogReader};
use crate::version::{FORMAT, FormatVersion};
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use goodput_core::timeline::{ChunkFlags, Timeline};
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// zstd level of both files.
const LEVEL: i32 = 3;
/// Key of the format version in a file's metadata.
const FORMAT_KEY: &str = "goodput.format";

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

/// Wraps an error of the Parquet writer.
fn unwritable<E: Display>(path: &Path) -> impl FnOnce(E) -> StoreError {
    StoreError::content("writable as Parquet", path)
}

/// Wraps an error of the Parquet reader.
fn unreadable<E: Display>(path: &Path) -> impl FnOnce(E) -> StoreError {
    StoreError::content("a whole Parquet file of a goodput run", path)
}

/// Reads the two files of one run, as often as asked.
#[derive(Debug, Clone)]
pub(crate) struct ParquetReader {
    requests: PathBuf,
    chunks: PathBuf,
    rows: u64,
}

impl ParquetReader {
    /// The reader of a run's files; `None` if it has no `requests.parquet`.
    pub(crate) fn open(run: &RunDir) -> Result<Option<Self>, StoreError> {
        let (requests, chunks) = (run.file(REQUESTS), run.file(CHUNKS));
        if !fs::exists(&requests).map_err(StoreError::io("look for", &requests))? {
            return Ok(None);
        }
        open(&chunks)?;
        let rows = open(&requests)?.metadata().file_metadata().num_rows().cast_unsigned();
        Ok(Some(Self { requests, chunks, rows }))
    }

    /// Requests in the files.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Visits every request, in the order in which they finished.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), StoreError> {
        let mut chunks = chunks::Stream::new(read(&self.chunks, chunks::COLUMNS, chunks::BATCH_ROWS)?);
        let mut timeline = blank();
        for batch in read(&self.requests, &[], requests::BATCH_ROWS)? {
            let batch = batch.map_err(unreadable(&self.requests))?;
            let columns = requests::Columns::of(&batch).map_err(unreadable(&self.requests))?;
            for row in 0..batch.num_rows() {
                let count = columns.fill(row, &mut timeline).map_err(unreadable(&self.requests))?;
                chunks.take(count, &mut timeline.chunks).map_err(unreadable(&self.chunks))?;
                check(&timeline).map_err(unreadable(&self.chunks))?;
                visit(&timeline);
            }
        }
        if chunks.is_at_end().map_err(unreadable(&self.chunks))? {
            Ok(())
        } else {
            Err(unreadable(&self.chunks)("it holds more rows than requests.parquet counts"))
        }
    }
}

/// Opens a file of this format and checks its version.
fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(unreadable(path))?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let version = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == FORMAT_KEY)?.value.as_deref());
    let version: FormatVersion = version.unwrap_or("absent").parse().map_err(unreadable(path))?;
    version.check_readable(path)?;
    Ok(builder)
}

/// The batches of a file, with these columns (none: all of them).
fn read(path: &Path, columns: &[&str], rows: usize) -> Result<ParquetRecordBatchReader, StoreError> {
    let builder = open(path)?;
    let mask = match columns {
        [] => ProjectionMask::all(),
        _ => ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied()),
    };
    builder.with_projection(mask).with_batch_size(rows).build().map_err(unreadable(path))
}
