//! The fields of a timeline that are not chunks, as one table for both formats.
//!
//! The log writes them in this order; Parquet makes each a column of this name. A new field is one new line
//! at the **end** of a table (a minor version): the log knows a field by its position. Units are in the
//! names. Every number is stored as a signed 64-bit integer, because notebooks subtract columns and unsigned
//! ones would wrap.

use crate::layout::phase_name;
use goodput_core::outcome::Outcome;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use serde_json::{Map, Value};

/// A field that is a whole number.
pub(crate) struct Number {
    /// Column name, with the unit.
    pub(crate) name: &'static str,
    /// Whether it can be unknown.
    pub(crate) optional: bool,
    /// The value, if known.
    pub(crate) get: fn(&Timeline) -> Option<u64>,
    /// Puts a stored value back; `false` if it is too large for the field.
    pub(crate) set: fn(&mut Timeline, u64) -> bool,
}

/// A field that is text, or a name out of a closed set.
pub(crate) struct Text {
    /// Column name.
    pub(crate) name: &'static str,
    /// Whether it can be unknown.
    pub(crate) optional: bool,
    /// The value, if known.
    pub(crate) get: fn(&Timeline) -> Option<&str>,
    /// Puts a stored value back; `false` if the set has no such name.
    pub(crate) set: fn(&mut Timeline, &str) -> bool,
}

/// A number that is always known.
macro_rules! known {
    ($name:literal, $($field:ident).+) => {
        Number {
            name: $name,
            optional: false,
            get: |t| Some(u64::from(t.$($field).+)),
            set: |t, v| v.try_into().map(|v| t.$($field).+ = v).is_ok(),
        }
    };
}

/// An instant or span that is always known.
macro_rules! known_nanos {
    ($name:literal, $($field:ident).+) => {
        Number {
            name: $name,
            optional: false,
            get: |t| Some(t.$($field).+.0),
            set: |t, v| { t.$($field).+ = Nanos(v); true },
        }
    };
}

/// A number that may be unknown.
macro_rules! maybe {
    ($name:literal, $($field:ident).+) => {
        Number {
            name: $name,
            optional: true,
            get: |t| t.$($field).+.map(u64::from),
            set: |t, v| v.try_into().map(|v| t.$($field).+ = Some(v)).is_ok(),
        }
    };
}

/// An instant or span that may be unknown.
macro_rules! maybe_nanos {
    ($name:literal, $($field:ident).+) => {
        Number {
            name: $name,
            optional: true,
            get: |t| t.$($field).+.map(|at| at.0),
            set: |t, v| { t.$($field).+ = Some(Nanos(v)); true },
        }
    };
}

/// Every number, in stored order. At most 64: the log marks the known ones in one word.
pub(crate) const NUMBERS: [Number; 31] = [
    known!("index", index),
    known!("session", session),
    known!("turn", turn),
    known!("worker", worker),
    known!("target", target),
    maybe_nanos!("scheduled_ns", instants.scheduled),
    known_nanos!("released_ns", instants.released),
    maybe_nanos!("connect_start_ns", instants.connect_start),
    maybe_nanos!("connected_ns", instants.connected),
    maybe_nanos!("sent_ns", instants.sent),
    maybe_nanos!("sent_all_ns", instants.sent_all),
    maybe_nanos!("headers_ns", instants.headers),
    maybe_nanos!("done_ns", instants.done),
    maybe_nanos!("closed_ns", instants.closed),
    known!("connection", connection.id),
    known!("connection_uses_before", connection.uses_before),
    known_nanos!("connection_idle_ns", connection.idle),
    known!("stale_retries", connection.stale_retries),
    known!("request_bytes", request_bytes),
    known!("response_bytes", response_bytes),
    maybe!("status", status),
    maybe!("planned_input_tokens", planned_input),
    maybe!("max_tokens", max_tokens),
    known!("choices", choices),
    Number {
        name: "output_tokens",
        optional: true,
        get: |t| t.output.map(|output| u64::from(output.count)),
        set: |t, v| v.try_into().map(|count| t.output.get_or_insert(NO_COUNT).count = count).is_ok(),
    },
    maybe!("server_prompt_tokens", server.prompt_tokens),
    maybe!("server_completion_tokens", server.completion_tokens),
    maybe!("server_reasoning_tokens", server.reasoning_tokens),
    maybe!("server_cached_tokens", server.cached_tokens),
    maybe_nanos!("server_queue_ns", server.queue),
    maybe_nanos!("server_first_token_ns", server.first_token),
];

/// Every text, in stored order. Outcome and notes have a shape of their own.
pub(crate) const TEXTS: [Text; 3] = [
    Text {
        name: "phase",
        optional: false,
        get: |t| Some(phase_name(t.phase)),
        set: |t, name| {
            let found = [Phase::Warmup, Phase::Measured].into_iter().find(|&phase| phase_name(phase) == name);
            found.map(|phase| t.phase = phase).is_some()
        },
    },
    Text {
        name: "output_source",
        optional: true,
        get: |t| t.output.map(|output| output.source.name()),
        set: |t, name| {
            let found = source_named(name);
            found.map(|source| t.output.get_or_insert(NO_COUNT).source = source).is_some()
        },
    },
    Text {
        name: "finish_reason",
        optional: true,
        get: |t| t.finish_reason.as_deref(),
        set: |t, reason| {
            t.finish_reason = Some(reason.to_owned());
            true
        },
    },
];

/// A count whose two halves are still to be put back.
const NO_COUNT: TokenCount = TokenCount { count: 0, source: TokenSource::Chunks };

/// The token source of this name.
pub(crate) fn source_named(name: &str) -> Option<TokenSource> {
    TokenSource::ALL.into_iter().find(|source| source.name() == name)
}

/// An outcome's evidence as a JSON object, `None` for an outcome that is all in its name.
pub(crate) fn outcome_detail(outcome: &Outcome) -> Option<String> {
    if outcome.is_ok() {
        return None;
    }
    let value = serde_json::to_value(outcome).expect("an outcome is numbers, names and text");
    let Value::Object(mut members) = value else {
        unreachable!("an outcome is an object tagged by its name")
    };
    members.remove(OUTCOME_TAG);
    (!members.is_empty()).then(|| Value::Object(members).to_string())
}

/// The outcome of this name and evidence.
pub(crate) fn outcome_from(name: &str, detail: Option<&str>) -> Result<Outcome, String> {
    if name == Outcome::Ok.name() && detail.is_none() {
        return Ok(Outcome::Ok);
    }
    let mut members = match detail {
        Some(detail) => {
            serde_json::from_str(detail).map_err(|e| format!("outcome evidence `{detail}`: {e}"))?
        }
        None => Map::new(),
    };
    members.insert(OUTCOME_TAG.into(), name.into());
    serde_json::from_value(Value::Object(members)).map_err(|e| format!("outcome `{name}`: {e}"))
}

/// The member that holds the name in an outcome's JSON form.
const OUTCOME_TAG: &str = "name";

/// Empties a timeline for the next record, keeping its room for chunks.
pub(crate) fn reset(timeline: &mut Timeline) {
    let mut chunks = std::mem::take(&mut timeline.chunks);
    chunks.clear();
    *timeline = blank();
    timeline.chunks = chunks;
}

/// A timeline into which a record is read.
pub(crate) fn blank() -> Timeline {
    Timeline::released(0, Phase::Measured, None, Nanos::ZERO)
}

/// Checks what holds for every record, when it is written and when it is read: the order of its instants, and
/// numbers that fit the files.
pub(crate) fn check(timeline: &Timeline) -> Result<(), String> {
    timeline.check_order().map_err(str::to_owned)?;
    let fits = |value: u64| i64::try_from(value).is_ok();
    for number in &NUMBERS {
        if !(number.get)(timeline).is_none_or(fits) {
            return Err(format!("{} is below 2^63", number.name));
        }
    }
    // Chunk times never go back, so the last one is the largest.
    if timeline.chunks.last().is_none_or(|chunk| fits(chunk.at.0)) {
        Ok(())
    } else {
        Err("at_ns of a chunk is below 2^63".into())
    }
}
