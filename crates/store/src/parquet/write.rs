//! From the log of a finished run to its Parquet files.
//!
//! Row groups of chunks are encoded by threads of their own while the log is read on, and are put into the file in
//! their order. On one core there is no such thread, and writing holds one batch, one row group of encoded pages and a
//! compressor a column, some 15 MB in all; each thread adds about 20 MB. The footer of the file is held too, some 70
//! bytes for a thousand chunks.
//!
//! The log is deleted only when both files are durable and have as many rows as the log had.

use super::{FORMAT_KEY, chunks, requests, unwritable};
use crate::error::StoreError;
use crate::layout::{CHUNKS, REQUESTS, RunDir, publish, temporary_name};
use crate::log::{Damage, LogReader};
use crate::version::FORMAT;
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use goodput_core::timeline::{ChunkFlags, Timeline};
use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle, available_parallelism};

/// zstd level of both files.
const LEVEL: i32 = 3;
/// A thread is worth its memory from this many bytes of log on: about four million chunks.
const LEAST_BYTES: u64 = 32 << 20;
/// Row groups that are encoded at the same time, however many cores there are.
const MOST_THREADS: usize = 4;

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
    let cores = available_parallelism().map_or(1, NonZero::get);
    let worth = 1 + LogReader::open(run)?.bytes() / LEAST_BYTES;
    convert_on(run, log_after, cores.min(MOST_THREADS).min(usize::try_from(worth).unwrap_or(MOST_THREADS)))
}

/// As [`convert`], with this many row groups encoded at the same time instead of one a core. The files do not depend on
/// it.
///
/// # Errors
/// As [`convert`].
pub fn convert_on(run: &RunDir, log_after: LogAfter, threads: usize) -> Result<Converted, StoreError> {
    let log = LogReader::open(run)?;
    let mut writer = RunWriter::create(run, threads)?;
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
    chunks: Groups,
    chunk_rows: chunks::Rows,
    written: Converted,
}

impl RunWriter {
    fn create(run: &RunDir, threads: usize) -> Result<Self, StoreError> {
        Ok(Self {
            requests: Output::create(
                run.file(REQUESTS),
                requests::schema(),
                requests::GROUP_ROWS,
                &requests::differences(),
            )?,
            request_rows: requests::Rows::new(),
            chunks: Groups::of(
                Output::create(run.file(CHUNKS), chunks::schema(), chunks::GROUP_ROWS, &chunks::DIFFERENCES)?,
                threads,
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
        self.chunks.finish(self.written.chunks)?;
        self.requests.finish(self.written.requests)?;
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

    fn finish(mut self, rows: u64) -> Result<(), StoreError> {
        let metadata = self.writer.finish().map_err(unwritable(&self.path))?;
        let written = metadata.file_metadata().num_rows().cast_unsigned();
        complete(&self.path, self.writer.inner(), written, rows)
    }
}

/// Gives a file its name once it is durable and has every row.
fn complete(path: &Path, file: &File, written: u64, rows: u64) -> Result<(), StoreError> {
    if written != rows {
        return Err(unwritable(path)(format!("{written} rows were written of {rows}")));
    }
    file.sync_all().map_err(StoreError::io("sync", path))?;
    publish(&temporary_name(path), path)
}

/// A file whose row groups are encoded at the same time. They are the same, byte for byte, however many threads there
/// are.
struct Groups {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    factory: ArrowRowGroupWriterFactory,
    /// Row groups encoded at the same time; with one, batch by batch as they come.
    threads: usize,
    /// Row groups begun.
    begun: usize,
    /// The row group that is being filled: its columns, and what they have not yet encoded.
    columns: Vec<ArrowColumnWriter>,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Row groups that are being encoded, in order.
    encoding: VecDeque<JoinHandle<Result<Vec<ArrowColumnChunk>, ParquetError>>>,
}

impl Groups {
    fn of(output: Output, threads: usize) -> Result<Self, StoreError> {
        let Output { path, writer } = output;
        let (writer, factory) = writer.into_serialized_writer().map_err(unwritable(&path))?;
        let columns = factory.create_column_writers(0).map_err(unwritable(&path))?;
        let (batches, encoding) = (Vec::new(), VecDeque::new());
        Ok(Self { path, writer, factory, threads, begun: 1, columns, batches, rows: 0, encoding })
    }

    /// Adds a batch, of whose size a row group is a multiple.
    fn write(&mut self, batch: RecordBatch) -> Result<(), StoreError> {
        self.rows += batch.num_rows();
        if self.threads > 1 {
            self.batches.push(batch);
        } else {
            encode(&mut self.columns, &batch).map_err(unwritable(&self.path))?;
        }
        if self.rows < chunks::GROUP_ROWS { Ok(()) } else { self.end_group() }
    }

    fn end_group(&mut self) -> Result<(), StoreError> {
        let next = self.factory.create_column_writers(self.begun).map_err(unwritable(&self.path))?;
        let columns = std::mem::replace(&mut self.columns, next);
        let batches = std::mem::take(&mut self.batches);
        self.begun += 1;
        self.rows = 0;
        if self.threads < 2 {
            let chunks = encoded(columns, &batches).map_err(unwritable(&self.path))?;
            return self.append(chunks);
        }
        if self.encoding.len() == self.threads {
            self.append_oldest()?;
        }
        let thread = Builder::new().name("parquet".to_owned()).spawn(move || encoded(columns, &batches));
        self.encoding.push_back(thread.map_err(StoreError::io("start a thread for", &self.path))?);
        Ok(())
    }

    fn append_oldest(&mut self) -> Result<(), StoreError> {
        let Some(oldest) = self.encoding.pop_front() else { return Ok(()) };
        let chunks = oldest.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.append(chunks.map_err(unwritable(&self.path))?)
    }

    fn append(&mut self, chunks: Vec<ArrowColumnChunk>) -> Result<(), StoreError> {
        let append = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            chunks.into_iter().try_for_each(|chunk| chunk.append_to_row_group(&mut group))?;
            group.close().map(|_| ())
        };
        append().map_err(unwritable(&self.path))
    }

    fn finish(mut self, rows: u64) -> Result<(), StoreError> {
        if self.rows > 0 {
            self.end_group()?;
        }
        while !self.encoding.is_empty() {
            self.append_oldest()?;
        }
        let metadata = self.writer.finish().map_err(unwritable(&self.path))?;
        let written = metadata.file_metadata().num_rows().cast_unsigned();
        complete(&self.path, self.writer.inner(), written, rows)
    }
}

/// The rest of a row group's batches encoded, and its columns closed.
fn encoded(
    mut columns: Vec<ArrowColumnWriter>,
    batches: &[RecordBatch],
) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
    batches.iter().try_for_each(|batch| encode(&mut columns, batch))?;
    columns.into_iter().map(ArrowColumnWriter::close).collect()
}

/// Adds a batch to the columns of its row group.
fn encode(columns: &mut [ArrowColumnWriter], batch: &RecordBatch) -> Result<(), ParquetError> {
    let schema = batch.schema();
    let mut leaves = Vec::new();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        leaves.extend(compute_leaves(field, array)?);
    }
    columns.iter_mut().zip(&leaves).try_for_each(|(column, leaf)| column.write(leaf))
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
