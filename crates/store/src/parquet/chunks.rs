//! The columns of `chunks.parquet`, and the stream that deals chunks out to their requests.

use crate::fields::source_named;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, Int8Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray, UInt16Array, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, ChunkKind};
use goodput_core::tokens::TokenSource;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Rows handed to the writer, and taken from the reader, at a time.
pub(super) const BATCH_ROWS: usize = 32_768;
/// Rows of a row group: about a megabyte of encoded pages.
pub(super) const GROUP_ROWS: usize = 131_072;

const REQUEST_ROW: &str = "request_row";
const AT: &str = "at_ns";
const LATE: &str = "late_ns";
/// Since format 1.1.
const EARLY: &str = "early_ns";
const KIND: &str = "kind";
const FLAGS: &str = "flags";
const BYTES: &str = "bytes";
const TOKENS: &str = "tokens";
const TOKEN_SOURCE: &str = "token_source";
const CHOICE: &str = "choice";

/// The columns stored as differences: those with many values.
pub(super) const DIFFERENCES: [&str; 4] = [REQUEST_ROW, AT, LATE, EARLY];
/// The columns that are read back; the others follow from them or are there for people.
pub(super) const COLUMNS: &[&str] = &[AT, LATE, EARLY, FLAGS, BYTES, TOKENS, TOKEN_SOURCE, CHOICE];

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    // Signed keys: pandas takes no other.
    let name = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new(REQUEST_ROW, DataType::Int64, false),
        Field::new(AT, DataType::Int64, false),
        Field::new(LATE, DataType::UInt32, false),
        Field::new(KIND, name.clone(), false),
        Field::new(FLAGS, DataType::UInt32, false),
        Field::new(BYTES, DataType::UInt32, false),
        Field::new(TOKENS, DataType::UInt32, false),
        Field::new(TOKEN_SOURCE, name, false),
        Field::new(CHOICE, DataType::UInt16, false),
        Field::new(EARLY, DataType::UInt32, false),
    ]))
});

/// The columns in file order.
pub(super) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// Rows on their way into the file.
#[derive(Default)]
pub(super) struct Rows {
    row: Vec<i64>,
    at: Vec<i64>,
    late: Vec<u32>,
    kind: Vec<i8>,
    flags: Vec<u32>,
    bytes: Vec<u32>,
    tokens: Vec<u32>,
    token_source: Vec<i8>,
    choice: Vec<u16>,
    early: Vec<u32>,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    /// Adds a chunk of the request in this row. Its time is below 2^63, as every record is checked to be.
    pub(super) fn push(&mut self, row: i64, chunk: &Chunk) {
        self.row.push(row);
        self.at.push(chunk.at.0.cast_signed());
        self.late.push(chunk.late_ns);
        self.kind.push(chunk.kind() as i8);
        self.flags.push(chunk.flags.0);
        self.bytes.push(chunk.bytes);
        self.tokens.push(chunk.tokens);
        self.token_source.push(chunk.token_source as i8);
        self.choice.push(chunk.choice);
        self.early.push(chunk.early_ns);
    }

    /// The rows so far, leaving none.
    pub(super) fn take(&mut self) -> RecordBatch {
        let rows = std::mem::take(self);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(rows.row)),
            Arc::new(Int64Array::from(rows.at)),
            Arc::new(UInt32Array::from(rows.late)),
            names(rows.kind, &KINDS),
            Arc::new(UInt32Array::from(rows.flags)),
            Arc::new(UInt32Array::from(rows.bytes)),
            Arc::new(UInt32Array::from(rows.tokens)),
            names(rows.token_source, &SOURCES),
            Arc::new(UInt16Array::from(rows.choice)),
            Arc::new(UInt32Array::from(rows.early)),
        ];
        RecordBatch::try_new(schema(), columns).expect("columns are built in the order of the schema")
    }
}

/// Names of chunk kinds, by discriminant.
static KINDS: LazyLock<ArrayRef> =
    LazyLock::new(|| Arc::new(StringArray::from_iter_values(ChunkKind::ALL.map(ChunkKind::name))));
/// Names of token sources, by discriminant.
static SOURCES: LazyLock<ArrayRef> =
    LazyLock::new(|| Arc::new(StringArray::from_iter_values(TokenSource::ALL.map(TokenSource::name))));

/// A column of names out of a closed set.
fn names(keys: Vec<i8>, set: &ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::new(Int8Array::from(keys), Arc::clone(set)))
}

/// Deals the chunks of the file out to one request after the other.
pub(super) struct Stream {
    reader: ParquetRecordBatchReader,
    /// The batch being dealt out.
    columns: Option<Columns>,
    /// Its next row.
    next: usize,
}

impl Stream {
    pub(super) fn new(reader: ParquetRecordBatchReader) -> Self {
        Self { reader, columns: None, next: 0 }
    }

    /// Appends the next `count` chunks.
    pub(super) fn take(&mut self, count: usize, chunks: &mut Vec<Chunk>) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let Some((columns, next)) = self.rest()? else {
                return Err(format!("it ends {left} rows before a request of requests.parquet is whole"));
            };
            let rows = left.min(columns.len() - next);
            columns.copy(next..next + rows, chunks);
            self.next += rows;
            left -= rows;
        }
        Ok(())
    }

    /// Whether every row has been dealt out.
    pub(super) fn is_at_end(&mut self) -> Result<bool, String> {
        self.rest().map(|rest| rest.is_none())
    }

    /// A batch that has rows left and the first of them; `None` at the end of the file.
    fn rest(&mut self) -> Result<Option<(&Columns, usize)>, String> {
        while self.columns.as_ref().is_none_or(|columns| self.next == columns.len()) {
            let Some(batch) = self.reader.next() else { return Ok(None) };
            self.columns = Some(Columns::of(&batch.map_err(|e| e.to_string())?)?);
            self.next = 0;
        }
        Ok(self.columns.as_ref().map(|columns| (columns, self.next)))
    }
}

/// One batch of rows, as plain arrays of one length.
struct Columns {
    at: Int64Array,
    late: UInt32Array,
    /// Absent in a file of format 1.0.
    early: Option<UInt32Array>,
    flags: UInt32Array,
    bytes: UInt32Array,
    tokens: UInt32Array,
    choice: UInt16Array,
    token_source: Vec<TokenSource>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, String> {
        Ok(Self {
            at: numbers::<Int64Type>(batch, AT)?,
            late: numbers::<UInt32Type>(batch, LATE)?,
            early: batch.column_by_name(EARLY).map(|_| numbers::<UInt32Type>(batch, EARLY)).transpose()?,
            flags: numbers::<UInt32Type>(batch, FLAGS)?,
            bytes: numbers::<UInt32Type>(batch, BYTES)?,
            tokens: numbers::<UInt32Type>(batch, TOKENS)?,
            choice: numbers::<UInt16Type>(batch, CHOICE)?,
            token_source: sources(batch)?,
        })
    }

    fn len(&self) -> usize {
        self.at.len()
    }

    fn copy(&self, rows: Range<usize>, chunks: &mut Vec<Chunk>) {
        let (at, late, flags) = (self.at.values(), self.late.values(), self.flags.values());
        let early = self.early.as_ref().map(|early| &early.values()[..]);
        let (bytes, tokens, choice) = (self.bytes.values(), self.tokens.values(), self.choice.values());
        chunks.extend(rows.map(|row| Chunk {
            at: Nanos(at[row].cast_unsigned()),
            late_ns: late[row],
            early_ns: early.map_or(Chunk::EARLY_UNKNOWN, |early| early[row]),
            bytes: bytes[row],
            tokens: tokens[row],
            flags: ChunkFlags(flags[row]),
            choice: choice[row],
            token_source: self.token_source[row],
        }));
    }
}

/// A column of this batch, without nulls.
fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, String> {
    let column = batch.column_by_name(name).ok_or(format!("column {name} is missing"))?;
    if column.null_count() == 0 { Ok(column) } else { Err(format!("column {name} has nulls")) }
}

fn numbers<T: ArrowPrimitiveType>(batch: &RecordBatch, name: &str) -> Result<PrimitiveArray<T>, String> {
    let column = column(batch, name)?.as_primitive_opt::<T>();
    column.cloned().ok_or(format!("column {name} is not {}", T::DATA_TYPE))
}

fn sources(batch: &RecordBatch) -> Result<Vec<TokenSource>, String> {
    let unreadable = || format!("column {TOKEN_SOURCE} is not a dictionary of names");
    let column = column(batch, TOKEN_SOURCE)?.as_dictionary_opt::<Int8Type>().ok_or_else(unreadable)?;
    let names = column.values().as_string_opt::<i32>().ok_or_else(unreadable)?;
    let known: Vec<Option<TokenSource>> = names.iter().map(|name| name.and_then(source_named)).collect();
    let source = |&key: &i8| known.get(usize::from(key.cast_unsigned())).copied().flatten();
    let found: Option<Vec<TokenSource>> = column.keys().values().iter().map(source).collect();
    found.ok_or_else(|| format!("column {TOKEN_SOURCE} has a name this program does not know"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_places_in_the_lists_of_names() {
        assert!(ChunkKind::ALL.iter().enumerate().all(|(place, &kind)| kind as usize == place));
        assert!(TokenSource::ALL.iter().enumerate().all(|(place, &source)| source as usize == place));
    }
}
