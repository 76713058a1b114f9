//! One timeline as bytes, for the log: variable-length integers, a few bytes a chunk.
//!
//! A record is its length, then: the number of known-marks, the marks, the marked numbers of
//! [`NUMBERS`](crate::fields::NUMBERS); one byte of switches; the texts; the outcome; the notes; the chunks.
//! Numbers are LEB128 (seven bits a byte, least significant first), differences zigzag before that. A chunk
//! is a head byte that says which members are as in the chunk before, its time since that chunk (the first
//! since the release), its lateness, and the members that changed. Since format 1.1 the chunks' `early_ns` follow, as
//! runs: how many chunks in a row have a value, and the value; in an older record it is unknown. A newer minor version
//! may add to the end of a record; this reader stops where its own knowledge ends.

use crate::fields::{NUMBERS, TEXTS, check, outcome_detail, outcome_from, reset};
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, Timeline};
use goodput_core::tokens::TokenSource;

/// Switch: end-of-sequence was to be ignored.
const IGNORE_EOS: u8 = 1;

/// Head bits of a chunk: which members are those of the chunk before.
const SAME_BYTES: u8 = 1;
const SAME_TOKENS: u8 = 1 << 1;
const SAME_FLAGS: u8 = 1 << 2;
const SAME_CHOICE: u8 = 1 << 3;
const SAME_SOURCE: u8 = 1 << 4;

/// What the first chunk is compared with.
const BEFORE_FIRST: Chunk = Chunk {
    at: Nanos::ZERO,
    late_ns: 0,
    early_ns: Chunk::EARLY_UNKNOWN,
    bytes: 0,
    tokens: 0,
    flags: ChunkFlags(0),
    choice: 0,
    token_source: TokenSource::Server,
};

/// Appends the record of `timeline`. `scratch` is room for one record, kept by the caller.
pub(crate) fn encode(timeline: &Timeline, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    scratch.clear();
    let known = NUMBERS.iter().map(|number| (number.get)(timeline));
    let marks =
        known.clone().enumerate().fold(0, |marks, (bit, value)| marks | u64::from(value.is_some()) << bit);
    put(scratch, NUMBERS.len() as u64);
    put(scratch, marks);
    known.flatten().for_each(|value| put(scratch, value));
    scratch.push(if timeline.ignore_eos { IGNORE_EOS } else { 0 });
    put(scratch, TEXTS.len() as u64);
    TEXTS.iter().for_each(|text| put_text(scratch, (text.get)(timeline)));
    put_text(scratch, Some(timeline.outcome.name()));
    put_text(scratch, outcome_detail(&timeline.outcome).as_deref());
    put(scratch, timeline.notes.len() as u64);
    timeline.notes.iter().for_each(|note| put_text(scratch, Some(note)));
    put(scratch, timeline.chunks.len() as u64);
    let mut before = Chunk { at: timeline.instants.released, ..BEFORE_FIRST };
    for chunk in &timeline.chunks {
        encode_chunk(&before, chunk, scratch);
        before = *chunk;
    }
    for run in timeline.chunks.chunk_by(|a, b| a.early_ns == b.early_ns) {
        put(scratch, run.len() as u64);
        put(scratch, u64::from(run[0].early_ns));
    }
    put(out, scratch.len() as u64);
    out.extend_from_slice(scratch);
}

fn encode_chunk(before: &Chunk, chunk: &Chunk, out: &mut Vec<u8>) {
    let members = [
        (SAME_BYTES, before.bytes == chunk.bytes, u64::from(chunk.bytes)),
        (SAME_TOKENS, before.tokens == chunk.tokens, u64::from(chunk.tokens)),
        (SAME_FLAGS, before.flags == chunk.flags, u64::from(chunk.flags.0)),
        (SAME_CHOICE, before.choice == chunk.choice, u64::from(chunk.choice)),
        (SAME_SOURCE, before.token_source == chunk.token_source, chunk.token_source as u64),
    ];
    out.push(members.iter().filter(|member| member.1).fold(0, |head, member| head | member.0));
    put(out, zigzag(chunk.at.0.wrapping_sub(before.at.0).cast_signed()));
    put(out, u64::from(chunk.late_ns));
    members.iter().filter(|member| !member.1).for_each(|member| put(out, member.2));
}

/// Reads the record at the front of `bytes` into `timeline` and returns what follows it.
///
/// # Errors
/// What is wrong with the record, for the caller to say where it is.
pub(crate) fn decode<'a>(bytes: &'a [u8], timeline: &mut Timeline) -> Result<&'a [u8], String> {
    let mut whole = Cursor { rest: bytes };
    let length = whole.length()?;
    let (record, rest) = whole.rest.split_at(length);
    let mut cursor = Cursor { rest: record };
    reset(timeline);
    decode_numbers(&mut cursor, timeline)?;
    timeline.ignore_eos = cursor.byte()? & IGNORE_EOS != 0;
    decode_texts(&mut cursor, timeline)?;
    let chunks = cursor.length()?;
    timeline.chunks.reserve(chunks);
    let mut before = Chunk { at: timeline.instants.released, ..BEFORE_FIRST };
    for _ in 0..chunks {
        before = decode_chunk(&mut cursor, &before)?;
        timeline.chunks.push(before);
    }
    decode_early(&mut cursor, &mut timeline.chunks)?;
    check(timeline)?;
    Ok(rest)
}

fn decode_numbers(cursor: &mut Cursor, timeline: &mut Timeline) -> Result<(), String> {
    let (count, marks) = (cursor.number()?, cursor.number()?);
    if count > 64 {
        return Err(format!("{count} numbers in a record, at most 64 can be"));
    }
    for bit in (0..64).filter(|bit| marks >> bit & 1 == 1) {
        let value = cursor.number()?;
        // A number past the end of the table is of a newer minor version.
        if let Some(number) = NUMBERS.get(bit)
            && !(number.set)(timeline, value)
        {
            return Err(format!("{} is {value}, too large", number.name));
        }
    }
    Ok(())
}

fn decode_texts(cursor: &mut Cursor, timeline: &mut Timeline) -> Result<(), String> {
    for position in 0..cursor.length()? {
        let value = cursor.text()?;
        if let (Some(text), Some(value)) = (TEXTS.get(position), value)
            && !(text.set)(timeline, value)
        {
            return Err(format!("unknown {} `{value}`", text.name));
        }
    }
    let name = cursor.text()?.ok_or("a record without outcome")?;
    timeline.outcome = outcome_from(name, cursor.text()?)?;
    for _ in 0..cursor.length()? {
        timeline.notes.push(cursor.text()?.ok_or("an absent note")?.to_owned());
    }
    Ok(())
}

fn decode_chunk(cursor: &mut Cursor, before: &Chunk) -> Result<Chunk, String> {
    let head = cursor.byte()?;
    let since = unzigzag(cursor.number()?);
    let mut chunk = Chunk {
        at: Nanos(before.at.0.wrapping_add(since.cast_unsigned())),
        late_ns: cursor.small()?,
        ..*before
    };
    if head & SAME_BYTES == 0 {
        chunk.bytes = cursor.small()?;
    }
    if head & SAME_TOKENS == 0 {
        chunk.tokens = cursor.small()?;
    }
    if head & SAME_FLAGS == 0 {
        chunk.flags = ChunkFlags(cursor.small()?);
    }
    if head & SAME_CHOICE == 0 {
        chunk.choice = cursor.small()?;
    }
    if head & SAME_SOURCE == 0 {
        let code = cursor.small()?;
        chunk.token_source = TokenSource::from_code(code).ok_or(format!("unknown token source {code}"))?;
    }
    Ok(chunk)
}

/// Reads the runs of `early_ns`, which a record of format 1.0 does not have.
fn decode_early(cursor: &mut Cursor, chunks: &mut [Chunk]) -> Result<(), String> {
    let mut rest = chunks;
    while !rest.is_empty() && !cursor.rest.is_empty() {
        let length: usize = cursor.small()?;
        if length == 0 || length > rest.len() {
            return Err(format!("a run of {length} chunks where {} are left", rest.len()));
        }
        let early_ns = cursor.small()?;
        let (run, after) = rest.split_at_mut(length);
        run.iter_mut().for_each(|chunk| chunk.early_ns = early_ns);
        rest = after;
    }
    Ok(())
}

/// Appends a LEB128 number.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text as its length plus one and its bytes; absent is zero.
fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    put(out, text.map_or(0, |text| text.len() as u64 + 1));
    out.extend_from_slice(text.unwrap_or_default().as_bytes());
}

/// Small differences of either sign as small numbers.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// What is left of a record.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, String> {
        let (&byte, rest) = self.rest.split_first().ok_or("the record ends early")?;
        self.rest = rest;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    /// A number that fits a narrower type.
    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        let value = self.number()?;
        value.try_into().map_err(|_| format!("{value} is too large for its field"))
    }

    /// The number of things that follow. Each takes at least a byte, so more than the bytes left is wrong,
    /// and a damaged count can never ask for much memory.
    fn length(&mut self) -> Result<usize, String> {
        let length = self.small()?;
        if length <= self.rest.len() { Ok(length) } else { Err("the record ends early".into()) }
    }

    fn text(&mut self) -> Result<Option<&'a str>, String> {
        let Some(length) = self.number()?.checked_sub(1) else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|&l| l <= self.rest.len());
        let (text, rest) = self.rest.split_at(length.ok_or("the record ends early")?);
        self.rest = rest;
        std::str::from_utf8(text).map(Some).map_err(|_| "text that is not UTF-8".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_at_their_borders() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(Cursor { rest: &bytes }.number(), Ok(value));
            let signed = value.cast_signed();
            assert_eq!(unzigzag(zigzag(signed)), signed);
        }
    }

    #[test]
    fn a_plain_stream_takes_a_few_bytes_a_chunk() {
        let mut timeline = crate::fields::blank();
        let chunk = Chunk {
            early_ns: 0,
            bytes: 180,
            tokens: 1,
            flags: ChunkFlags::CHOICES | ChunkFlags::TEXT | ChunkFlags::KERNEL_STAMP,
            ..BEFORE_FIRST
        };
        let chunks = (1..=1_000).map(|i| Chunk { at: Nanos(i * 10_000_000), late_ns: 15_000, ..chunk });
        timeline.chunks = chunks.collect();
        let mut bytes = Vec::new();
        encode(&timeline, &mut Vec::new(), &mut bytes);
        // Head 1, time 4, lateness 3; members change only in the first chunk.
        assert!(bytes.len() < 8_100, "{} bytes", bytes.len());
    }

    #[test]
    fn a_record_of_format_1_0_ends_before_the_bounds_on_arrivals() {
        let mut timeline = crate::fields::blank();
        let chunk = |at| Chunk { at: Nanos(at), early_ns: 0, ..BEFORE_FIRST };
        timeline.chunks = vec![chunk(5), chunk(9)];
        let mut bytes = Vec::new();
        encode(&timeline, &mut Vec::new(), &mut bytes);
        let mut read = crate::fields::blank();
        assert_eq!(decode(&bytes, &mut read), Ok(&b""[..]));
        assert_eq!(read, timeline);
        // One run, of two chunks with 0.
        bytes.truncate(bytes.len() - 2);
        bytes[0] -= 2;
        assert_eq!(decode(&bytes, &mut read), Ok(&b""[..]));
        assert!(read.chunks.iter().all(|chunk| chunk.early_ns == Chunk::EARLY_UNKNOWN));
        bytes.extend([3, 0]);
        bytes[0] += 2;
        assert!(decode(&bytes, &mut read).is_err_and(|e| e.contains("a run of 3 chunks where 2 are left")));
    }

    #[test]
    fn a_record_may_grow_in_a_later_minor_version() {
        let timeline = crate::fields::blank();
        let mut bytes = Vec::new();
        encode(&timeline, &mut Vec::new(), &mut bytes);
        bytes[0] += 3;
        bytes.extend_from_slice(b"newrest");
        let mut read = crate::fields::blank();
        assert_eq!(decode(&bytes, &mut read), Ok(&b"rest"[..]));
        assert_eq!(read, timeline);
    }
}
