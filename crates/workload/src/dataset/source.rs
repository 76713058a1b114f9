//! A reader that knows at which byte and line it is.

use super::{Break, ENTRY_BYTES_MAX};
use std::io::{BufRead, ErrorKind};

/// A position-keeping reader.
pub(super) struct Source<R> {
    reader: R,
    byte: u64,
    line: u64,
}

impl<R: BufRead> Source<R> {
    /// At byte 0, line 1, behind a byte-order mark if there is one.
    pub(super) fn new(reader: R) -> Result<Self, Break> {
        let mut source = Self { reader, byte: 0, line: 1 };
        // A reader may hand out its first bytes one by one, so the mark is matched byte by byte.
        for (position, mark) in [0xef, 0xbb, 0xbf].into_iter().enumerate() {
            match source.peek()? {
                Some(byte) if byte == mark => source.consume(1),
                _ if position == 0 => break,
                _ => return Err(source.damage_here("not UTF-8 text")),
            }
        }
        Ok(source)
    }

    pub(super) fn byte(&self) -> u64 {
        self.byte
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The bytes at hand; empty at the end of the file.
    pub(super) fn chunk(&mut self) -> Result<&[u8], Break> {
        loop {
            // Asked twice, because a borrow that leaves the function cannot also be retried.
            match self.reader.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Break::Read { byte: self.byte, reason: error.to_string() }),
            }
        }
        let byte = self.byte;
        self.reader.fill_buf().map_err(|error| Break::Read { byte, reason: error.to_string() })
    }

    pub(super) fn peek(&mut self) -> Result<Option<u8>, Break> {
        Ok(self.chunk()?.first().copied())
    }

    /// Moves over `count` bytes of the chunk at hand.
    pub(super) fn consume(&mut self, count: usize) {
        let passed = match self.reader.fill_buf() {
            Ok(chunk) => memchr::memchr_iter(b'\n', &chunk[..count]).count(),
            Err(_) => 0,
        };
        self.reader.consume(count);
        self.byte += count as u64;
        self.line += passed as u64;
    }

    /// Appends `count` bytes of the chunk at hand to `entry` and moves over them.
    pub(super) fn take(&mut self, count: usize, entry: &mut Vec<u8>) -> Result<(), Break> {
        if entry.len() + count > ENTRY_BYTES_MAX {
            return Err(
                self.damage_here("an entry of more than 64 MiB: a quotation mark or bracket must be missing")
            );
        }
        entry.extend_from_slice(&self.chunk()?[..count]);
        self.consume(count);
        Ok(())
    }

    pub(super) fn damage_here(&self, reason: &str) -> Break {
        Break::Damage { byte: self.byte, line: self.line, reason: reason.to_owned() }
    }
}

/// The damage inside `entry`, which began at (byte, line), with the place that the JSON reader names within
/// it.
pub(super) fn damage_inside(entry: &[u8], (byte, line): (u64, u64), error: &serde_json::Error) -> Break {
    let lines_before = error.line().saturating_sub(1);
    let line_start = match lines_before {
        0 => 0,
        n => memchr::memchr_iter(b'\n', entry).nth(n - 1).map_or(0, |newline| newline + 1),
    };
    let offset = (line_start + error.column().saturating_sub(1)).min(entry.len());
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default().to_owned();
    Break::Damage { byte: byte + offset as u64, line: line + lines_before as u64, reason }
}
