//! Reading the two files back, from front to back or in parts at the same time.
//!
//! A part is consecutive requests with all of their chunks, so that whoever gathers part by part and then puts the
//! results together in order has seen the run from front to back. Each part has a thread, which holds one batch and a
//! decompressor a column.

use super::{FORMAT_KEY, chunks, requests, unreadable};
use crate::error::StoreError;
use crate::fields::{blank, check};
use crate::layout::{CHUNKS, REQUESTS, RunDir};
use crate::version::FormatVersion;
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use goodput_core::timeline::Timeline;
use std::fs::{self, File};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

/// A thread is worth its while from this many chunks on.
const LEAST_CHUNKS: u64 = 1 << 20;
/// What a request costs to read beside its chunks, in chunks.
const REQUEST_COST: u64 = 20;

/// Reads the two files of one run, as often as asked.
#[derive(Debug, Clone)]
pub(crate) struct ParquetReader {
    requests: PathBuf,
    chunks: PathBuf,
    rows: u64,
    chunk_rows: u64,
}

/// Consecutive requests, and where their chunks begin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    rows: Range<u64>,
    first_chunk: u64,
}

impl ParquetReader {
    /// The reader of a run's files; `None` if it has no `requests.parquet`.
    pub(crate) fn open(run: &RunDir) -> Result<Option<Self>, StoreError> {
        let (requests, chunks) = (run.file(REQUESTS), run.file(CHUNKS));
        if !fs::exists(&requests).map_err(StoreError::io("look for", &requests))? {
            return Ok(None);
        }
        let rows = |path: &Path| -> Result<u64, StoreError> {
            Ok(open(path)?.metadata().file_metadata().num_rows().cast_unsigned())
        };
        let (chunk_rows, rows) = (rows(&chunks)?, rows(&requests)?);
        Ok(Some(Self { requests, chunks, rows, chunk_rows }))
    }

    /// Requests in the files.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Visits every request, in the order in which they finished.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), StoreError> {
        self.visit(&Part { rows: 0..self.rows, first_chunk: 0 }, visit)
    }

    /// Visits every request, on at most this many threads; the results are in the order of the requests.
    pub(crate) fn fold<P: Send>(
        &self,
        threads: u64,
        begin: &(impl Fn() -> P + Sync),
        visit: &(impl Fn(&mut P, &Timeline) + Sync),
    ) -> Result<Vec<P>, StoreError> {
        let run = |part: &Part| {
            let mut gathered = begin();
            self.visit(part, &mut |timeline| visit(&mut gathered, timeline))?;
            Ok(gathered)
        };
        let parts = self.parts(threads.min(1 + self.chunk_rows / LEAST_CHUNKS))?;
        let [first, others @ ..] = parts.as_slice() else { return Ok(Vec::new()) };
        thread::scope(|scope| {
            let others: Vec<_> = others.iter().map(|part| scope.spawn(|| run(part))).collect();
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(run(first)).chain(joined).collect()
        })
    }

    /// At most `count` parts, about equal in work.
    fn parts(&self, count: u64) -> Result<Vec<Part>, StoreError> {
        let mut parts = vec![Part { rows: 0..self.rows, first_chunk: 0 }];
        if count < 2 {
            return Ok(parts);
        }
        let work = self.chunk_rows + REQUEST_COST * self.rows;
        let (mut row, mut chunk) = (0, 0);
        for batch in read(&self.requests, &[requests::CHUNK_COUNT], requests::BATCH_ROWS, 0)? {
            let batch = batch.map_err(unreadable(&self.requests))?;
            for chunks in requests::chunk_counts(&batch).map_err(unreadable(&self.requests))? {
                let number = parts.len() as u64;
                if chunk + REQUEST_COST * row >= (work * number).div_ceil(count) && number < count {
                    parts.last_mut().expect("there is a first part").rows.end = row;
                    parts.push(Part { rows: row..self.rows, first_chunk: chunk });
                }
                row += 1;
                chunk += chunks;
            }
        }
        Ok(parts)
    }

    /// Visits the requests of one part, in order.
    fn visit(&self, part: &Part, visit: &mut dyn FnMut(&Timeline)) -> Result<(), StoreError> {
        let mut chunks =
            chunks::Stream::new(read(&self.chunks, chunks::COLUMNS, chunks::BATCH_ROWS, part.first_chunk)?);
        let mut timeline = blank();
        let mut left = part.rows.end - part.rows.start;
        for batch in read(&self.requests, &requests::columns(), requests::BATCH_ROWS, part.rows.start)? {
            let batch = batch.map_err(unreadable(&self.requests))?;
            let columns = requests::Columns::of(&batch).map_err(unreadable(&self.requests))?;
            for row in 0..batch.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX)) {
                let count = columns.fill(row, &mut timeline).map_err(unreadable(&self.requests))?;
                chunks.take(count, &mut timeline.chunks).map_err(unreadable(&self.chunks))?;
                check(&timeline).map_err(unreadable(&self.chunks))?;
                visit(&timeline);
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
        if part.rows.end < self.rows || chunks.is_at_end().map_err(unreadable(&self.chunks))? {
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

/// The batches of a file with these columns, from a row on. Row groups before it are not touched.
fn read(
    path: &Path,
    columns: &[&str],
    batch_rows: usize,
    from: u64,
) -> Result<ParquetRecordBatchReader, StoreError> {
    let builder = open(path)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    let groups = builder.metadata().row_groups();
    let (mut first, mut offset) = (0, from);
    while let Some(rows) = groups.get(first).map(|group| group.num_rows().cast_unsigned())
        && offset >= rows
    {
        first += 1;
        offset -= rows;
    }
    let groups = (first..groups.len()).collect();
    let offset = usize::try_from(offset).map_err(unreadable(path))?;
    let reader = builder.with_projection(mask).with_batch_size(batch_rows).with_row_groups(groups);
    reader.with_offset(offset).build().map_err(unreadable(path))
}
