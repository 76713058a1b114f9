//! The elements of one JSON array, one by one, without reading the rest.
//!
//! Brackets and quotation marks are matched here to find where an element ends; whether it is JSON is for its
//! reader.

use super::Break;
use super::source::Source;
use std::io::BufRead;

/// The elements of the array in `reader`.
pub(super) struct Elements<R> {
    source: Source<R>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    BeforeArray,
    AfterElement,
    Ended,
}

/// How far a scan over an element has come.
#[derive(Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    started: bool,
}

impl<R: BufRead> Elements<R> {
    pub(super) fn new(reader: R) -> Result<Self, Break> {
        Ok(Self { source: Source::new(reader)?, state: State::BeforeArray })
    }

    /// Reads the next element into `entry` and returns the byte and line where it begins; `None` after the
    /// last. After an error or the end there is nothing more.
    pub(super) fn next(&mut self, entry: &mut Vec<u8>) -> Result<Option<(u64, u64)>, Break> {
        entry.clear();
        if self.state == State::Ended {
            return Ok(None);
        }
        let before = std::mem::replace(&mut self.state, State::Ended);
        let begins = self.separator(before)?;
        if !begins {
            return Ok(None);
        }
        let start = (self.source.byte(), self.source.line());
        let mut scan = Scan::default();
        loop {
            let chunk = self.source.chunk()?;
            if chunk.is_empty() {
                let reason = format!("the file ends inside the entry that begins at byte {}", start.0);
                return Err(self.source.damage_here(&reason));
            }
            let (count, done) = match scan.end_in(chunk) {
                Some(end) => (end, true),
                None => (chunk.len(), false),
            };
            self.source.take(count, entry)?;
            if done {
                self.state = State::AfterElement;
                return Ok(Some(start));
            }
        }
    }

    /// Reads what stands between elements. Whether another one begins.
    fn separator(&mut self, state: State) -> Result<bool, Break> {
        if state == State::BeforeArray {
            match self.skip_blanks()? {
                Some(b'[') => self.source.consume(1),
                Some(_) => {
                    return Err(self.source.damage_here("expected `[`: the file is to be one JSON array"));
                }
                None => return Err(self.source.damage_here("the file is empty")),
            }
            if self.skip_blanks()? != Some(b']') {
                return self.element_begins();
            }
        }
        match self.skip_blanks()? {
            Some(b',') => {
                self.source.consume(1);
                self.skip_blanks()?;
                self.element_begins()
            }
            Some(b']') => {
                self.source.consume(1);
                match self.skip_blanks()? {
                    None => Ok(false),
                    Some(_) => Err(self.source.damage_here("something follows the end of the array")),
                }
            }
            Some(_) => Err(self.source.damage_here("expected `,` or `]` after an entry")),
            None => Err(self.source.damage_here("the file ends before the `]` of its array")),
        }
    }

    fn element_begins(&mut self) -> Result<bool, Break> {
        match self.source.peek()? {
            Some(b',' | b']' | b'}') => Err(self.source.damage_here("expected an entry")),
            Some(_) => Ok(true),
            None => Err(self.source.damage_here("the file ends where an entry should begin")),
        }
    }

    fn skip_blanks(&mut self) -> Result<Option<u8>, Break> {
        loop {
            let chunk = self.source.chunk()?;
            match chunk.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(position) => {
                    let found = chunk[position];
                    self.source.consume(position);
                    return Ok(Some(found));
                }
                None if chunk.is_empty() => return Ok(None),
                None => {
                    let count = chunk.len();
                    self.source.consume(count);
                }
            }
        }
    }
}

impl Scan {
    /// The length of the part of `chunk` that belongs to the element, if it ends in there.
    fn end_in(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < chunk.len() {
            if self.escaped {
                self.escaped = false;
                at += 1;
            } else if self.in_string {
                let found = memchr::memchr2(b'"', b'\\', &chunk[at..])?;
                self.escaped = chunk[at + found] == b'\\';
                self.in_string = self.escaped;
                at += found + 1;
                if !self.in_string && self.depth == 0 {
                    return Some(at);
                }
            } else {
                match chunk[at] {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' if self.depth == 1 => return Some(at + 1),
                    b'}' | b']' if self.depth > 1 => self.depth -= 1,
                    // A bare number or word has no end of its own.
                    byte if self.depth == 0 && self.started && ends_a_word(byte) => return Some(at),
                    _ => {}
                }
                at += 1;
            }
            self.started = true;
        }
        None
    }
}

fn ends_a_word(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn all(text: &str, buffer: usize) -> (Vec<String>, Option<Break>) {
        let mut elements = Elements::new(BufReader::with_capacity(buffer, text.as_bytes())).expect("text");
        let (mut found, mut entry) = (Vec::new(), Vec::new());
        loop {
            match elements.next(&mut entry) {
                Ok(Some((byte, _))) => {
                    let element = String::from_utf8(entry.clone()).expect("text");
                    assert_eq!(
                        text.as_bytes()[usize::try_from(byte).expect("small")..][..entry.len()],
                        entry[..]
                    );
                    found.push(element);
                }
                Ok(None) => return (found, None),
                Err(broken) => return (found, Some(broken)),
            }
        }
    }

    #[test]
    fn elements_are_found_whatever_the_buffer() {
        let text = r#" [ {"a":"]}\"\\"} , [1,[2]],"x\"," ,12, null ,{"b":{}}
        ] "#;
        let expected = [r#"{"a":"]}\"\\"}"#, "[1,[2]]", r#""x\",""#, "12", "null", r#"{"b":{}}"#];
        for buffer in 1..40 {
            let (found, broken) = all(text, buffer);
            assert_eq!((found, broken), (expected.map(str::to_owned).to_vec(), None), "{buffer}");
        }
    }

    #[test]
    fn breaks_name_their_byte_and_line() {
        let cases: [(&str, usize, u64, u64, &str); 9] = [
            ("", 0, 0, 1, "the file is empty"),
            ("  {}", 0, 2, 1, "expected `[`"),
            ("[{}\n {}]", 1, 5, 2, "expected `,` or `]`"),
            ("[{},]", 1, 4, 1, "expected an entry"),
            ("[,{}]", 0, 1, 1, "expected an entry"),
            ("[{}] x", 1, 5, 1, "something follows"),
            ("[{},\n", 1, 5, 2, "the file ends where an entry should begin"),
            ("[{}", 1, 3, 1, "the file ends before the `]`"),
            ("[{},{\"a\n\":", 1, 10, 2, "the file ends inside the entry that begins at byte 4"),
        ];
        for (text, whole, byte, line, part) in cases {
            let (found, broken) = all(text, 3);
            let Some(Break::Damage { byte: b, line: l, reason }) = broken else {
                panic!("{text}: {broken:?}")
            };
            assert_eq!((found.len(), b, l), (whole, byte, line), "{text}: {reason}");
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn nothing_comes_after_the_end() {
        let mut elements = Elements::new("[1".as_bytes()).expect("text");
        let mut entry = Vec::new();
        assert!(elements.next(&mut entry).is_err());
        assert_eq!(elements.next(&mut entry), Ok(None));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(all("\u{feff}[1 ]", 1), (vec!["1".to_owned()], None));
    }
}
