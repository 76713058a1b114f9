//! The columns of `requests.parquet`: the tables of [`crate::fields`], what has a shape of its own, and a few
//! instants out of the chunks for people, which are not read back.

use crate::fields::{NUMBERS, Number, TEXTS, Text, outcome_detail, outcome_from, reset};
use arrow_array::builder::{ArrayBuilder, BooleanBuilder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use goodput_core::timeline::Timeline;
use std::sync::{Arc, LazyLock};

/// Rows handed to the writer, and taken from the reader, at a time.
pub(super) const BATCH_ROWS: usize = 2_048;
/// Rows of a row group.
pub(super) const GROUP_ROWS: usize = 32_768;

/// Number of a request's row, by which its chunks name it.
const REQUEST_ROW: &str = "request_row";
const OUTCOME: &str = "outcome";
const OUTCOME_DETAIL: &str = "outcome_detail";
const IGNORE_EOS: &str = "ignore_eos";
const NOTES: &str = "notes";
/// Number of a request's chunks.
pub(super) const CHUNK_COUNT: &str = "chunk_count";

/// An instant that the chunks imply: name and where to find it.
type Derived = (&'static str, fn(&Timeline) -> Option<u64>);

/// For people who do not want to join the chunks. Derived, so never read back.
const DERIVED: [Derived; 3] = [
    ("first_event_ns", |t| t.first_event().map(|at| at.0)),
    ("first_token_ns", |t| t.token_chunks().next().map(|chunk| chunk.at.0)),
    ("last_token_ns", |t| t.token_chunks().next_back().map(|chunk| chunk.at.0)),
];

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = vec![Field::new(REQUEST_ROW, DataType::Int64, false)];
    fields.extend(TEXTS.iter().map(|text| Field::new(text.name, DataType::Utf8, text.optional)));
    fields.push(Field::new(OUTCOME, DataType::Utf8, false));
    fields.push(Field::new(OUTCOME_DETAIL, DataType::Utf8, true));
    fields.extend(NUMBERS.iter().map(|number| Field::new(number.name, DataType::Int64, number.optional)));
    fields.extend(DERIVED.iter().map(|(name, _)| Field::new(*name, DataType::Int64, true)));
    fields.push(Field::new(CHUNK_COUNT, DataType::Int64, false));
    fields.push(Field::new(IGNORE_EOS, DataType::Boolean, false));
    fields.push(Field::new_list(NOTES, Field::new_list_field(DataType::Utf8, true), false));
    Arc::new(Schema::new(fields))
});

/// The columns in file order.
pub(super) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// The columns that are read back; the others follow from them or are there for people.
pub(super) fn columns() -> Vec<&'static str> {
    let tables = TEXTS.iter().map(|text| text.name).chain(NUMBERS.iter().map(|number| number.name));
    tables.chain([OUTCOME, OUTCOME_DETAIL, CHUNK_COUNT, IGNORE_EOS, NOTES]).collect()
}

/// The columns stored as differences: every number. A dictionary of values that are all different only costs
/// memory.
pub(super) fn differences() -> Vec<&'static str> {
    let numbers = NUMBERS.iter().map(|number| number.name).chain(DERIVED.iter().map(|(name, _)| *name));
    numbers.chain([REQUEST_ROW, CHUNK_COUNT]).collect()
}

/// Rows on their way into the file.
pub(super) struct Rows {
    row: Int64Builder,
    texts: Vec<StringBuilder>,
    outcome: StringBuilder,
    outcome_detail: StringBuilder,
    numbers: Vec<Int64Builder>,
    derived: Vec<Int64Builder>,
    chunk_count: Int64Builder,
    ignore_eos: BooleanBuilder,
    notes: ListBuilder<StringBuilder>,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            row: Int64Builder::new(),
            texts: TEXTS.iter().map(|_| StringBuilder::new()).collect(),
            outcome: StringBuilder::new(),
            outcome_detail: StringBuilder::new(),
            numbers: NUMBERS.iter().map(|_| Int64Builder::new()).collect(),
            derived: DERIVED.iter().map(|_| Int64Builder::new()).collect(),
            chunk_count: Int64Builder::new(),
            ignore_eos: BooleanBuilder::new(),
            notes: ListBuilder::new(StringBuilder::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ignore_eos.len()
    }

    /// Adds a request. Its numbers are below 2^63, as every record is checked to be.
    pub(super) fn push(&mut self, row: i64, timeline: &Timeline) {
        self.row.append_value(row);
        for (column, text) in self.texts.iter_mut().zip(&TEXTS) {
            column.append_option((text.get)(timeline));
        }
        self.outcome.append_value(timeline.outcome.name());
        self.outcome_detail.append_option(outcome_detail(&timeline.outcome));
        for (column, number) in self.numbers.iter_mut().zip(&NUMBERS) {
            column.append_option((number.get)(timeline).map(u64::cast_signed));
        }
        for (column, (_, get)) in self.derived.iter_mut().zip(&DERIVED) {
            column.append_option(get(timeline).map(u64::cast_signed));
        }
        self.chunk_count.append_value(timeline.chunks.len() as i64);
        self.ignore_eos.append_value(timeline.ignore_eos);
        for note in &timeline.notes {
            self.notes.values().append_value(note);
        }
        self.notes.append(true);
    }

    /// The rows so far, leaving none.
    pub(super) fn take(&mut self) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.row.finish())];
        columns.extend(self.texts.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        columns.push(Arc::new(self.outcome.finish()));
        columns.push(Arc::new(self.outcome_detail.finish()));
        let numbers = self.numbers.iter_mut().chain(&mut self.derived);
        columns.extend(numbers.map(|column| Arc::new(column.finish()) as ArrayRef));
        columns.push(Arc::new(self.chunk_count.finish()));
        columns.push(Arc::new(self.ignore_eos.finish()));
        columns.push(Arc::new(self.notes.finish()));
        RecordBatch::try_new(schema(), columns).expect("columns are built in the order of the schema")
    }
}

/// The chunks of each request of a batch.
pub(super) fn chunk_counts(batch: &RecordBatch) -> Result<Vec<u64>, String> {
    let column = batch.column_by_name(CHUNK_COUNT).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.ok_or_else(|| format!("column {CHUNK_COUNT} is missing or no int64"))?;
    let counts = column.values().iter().map(|&count| u64::try_from(count));
    counts.collect::<Result<_, _>>().map_err(|_| format!("a {CHUNK_COUNT} is negative"))
}

/// One batch of rows, ready to be read. A column that an older minor version lacks is absent.
pub(super) struct Columns {
    texts: Vec<(&'static Text, StringArray)>,
    outcome: StringArray,
    outcome_detail: StringArray,
    numbers: Vec<(&'static Number, Int64Array)>,
    chunk_count: Int64Array,
    ignore_eos: Option<BooleanArray>,
    notes: Option<ListArray>,
}

impl Columns {
    pub(super) fn of(batch: &RecordBatch) -> Result<Self, String> {
        let required = |name: &str| batch.column_by_name(name).ok_or(format!("column {name} is missing"));
        let as_text = |column: &ArrayRef| column.as_string_opt().cloned().ok_or("a text column is not text");
        let as_number = |column: &ArrayRef| {
            column.as_primitive_opt::<Int64Type>().cloned().ok_or("a number column is not int64")
        };
        let mut texts = Vec::new();
        for text in &TEXTS {
            if let Some(column) = batch.column_by_name(text.name) {
                texts.push((text, as_text(column)?));
            }
        }
        let mut numbers = Vec::new();
        for number in &NUMBERS {
            if let Some(column) = batch.column_by_name(number.name) {
                numbers.push((number, as_number(column)?));
            }
        }
        Ok(Self {
            texts,
            outcome: as_text(required(OUTCOME)?)?,
            outcome_detail: as_text(required(OUTCOME_DETAIL)?)?,
            numbers,
            chunk_count: as_number(required(CHUNK_COUNT)?)?,
            ignore_eos: batch.column_by_name(IGNORE_EOS).and_then(|c| c.as_boolean_opt().cloned()),
            notes: batch.column_by_name(NOTES).and_then(|c| c.as_list_opt().cloned()),
        })
    }

    /// Reads one row into `timeline`, all but its chunks, and returns their number.
    pub(super) fn fill(&self, row: usize, timeline: &mut Timeline) -> Result<usize, String> {
        reset(timeline);
        for (number, column) in &self.numbers {
            if column.is_valid(row) {
                let value = column.value(row);
                if !u64::try_from(value).is_ok_and(|value| (number.set)(timeline, value)) {
                    return Err(format!("{} of row {row} is {value}, out of range", number.name));
                }
            }
        }
        for (text, column) in &self.texts {
            if column.is_valid(row) && !(text.set)(timeline, column.value(row)) {
                return Err(format!("unknown {} `{}`", text.name, column.value(row)));
            }
        }
        let detail = self.outcome_detail.is_valid(row).then(|| self.outcome_detail.value(row));
        timeline.outcome = outcome_from(self.outcome.value(row), detail)?;
        timeline.ignore_eos = self.ignore_eos.as_ref().is_some_and(|column| column.value(row));
        if let Some(notes) = self.notes.as_ref().filter(|notes| notes.value_length(row) > 0) {
            let values = notes.value(row);
            let texts = values.as_string_opt::<i32>().ok_or("notes are not text")?;
            timeline.notes.extend(texts.iter().flatten().map(str::to_owned));
        }
        usize::try_from(self.chunk_count.value(row))
            .map_err(|_| format!("{CHUNK_COUNT} of row {row} is negative"))
    }
}
