//! Server-sent events, incremental: bytes in, events and comments out.
//!
//! The parsing rules are those of the WHATWG HTML standard (section "Server-sent events"): lines end in LF, CR
//! or CR LF, a leading byte-order mark is dropped, one blank after the colon is dropped, `data` lines are joined
//! with LF, an event without data is no event. Everything works on bytes, so that a read may end anywhere, inside
//! a UTF-8 character or between CR and LF; text is decoded only by those who get a whole event.
//!
//! An event ends with the first byte of the line end of its blank line. An event that lies whole in one push is
//! handed on without a copy. It never looks into the data.

use memchr::memchr2;

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// One thing found in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseItem<'a> {
    /// An event.
    Event {
        /// Its `event` field; empty if it has none.
        name: &'a [u8],
        /// Its `data` lines, joined with LF.
        data: &'a [u8],
    },
    /// A comment: what follows the colon.
    Comment(&'a [u8]),
}

/// An event (or a line) that goes beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stream event is larger than the limit of {limit} bytes")]
pub struct EventTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Splits a stream into events.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// Bytes of the byte-order mark seen so far; `None` once the start is over.
    start: Option<usize>,
    /// The last line ended in CR: an LF right after it belongs to it.
    after_cr: bool,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// `data` lines of the current event that had to be kept, joined with LF.
    data: Vec<u8>,
    /// Whether the current event has a `data` line in `data`.
    has_data: bool,
    name: Vec<u8>,
    /// Nothing but line ends has come after the last event or comment.
    at_item_end: bool,
}

impl SseDecoder {
    /// At the start of a stream, with a limit on one event in bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            start: Some(0),
            after_cr: false,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: Vec::new(),
            at_item_end: false,
        }
    }

    /// Reads on, and hands every event and comment that ends in `bytes` to `sink`, in order.
    ///
    /// # Errors
    /// [`EventTooLarge`]; nothing after that is worth reading.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseItem<'_>)) -> Result<(), EventTooLarge> {
        let mut rest = self.skip_bom(bytes);
        // The data of the current event while it is one line of `bytes` and nothing had to be copied.
        let mut borrowed: Option<&[u8]> = None;
        loop {
            if self.after_cr && !rest.is_empty() {
                self.after_cr = false;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else { break };
            self.after_cr = rest[end] == b'\r';
            let line = &rest[..end];
            rest = &rest[end + 1..];
            let held = self.data.len() + borrowed.map_or(0, <[u8]>::len);
            self.check(held + self.line.len() + line.len())?;
            if self.line.is_empty() {
                self.whole_line(line, &mut borrowed, &mut sink);
            } else {
                self.line.extend_from_slice(line);
                let mut joined = std::mem::take(&mut self.line);
                let mut none = None;
                self.whole_line(&joined, &mut none, &mut sink);
                if let Some(data) = none {
                    self.keep(data);
                }
                joined.clear();
                self.line = joined;
            }
        }
        if let Some(data) = borrowed {
            self.keep(data);
        }
        self.check(self.data.len() + self.line.len() + rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Whether the bytes so far end with the end of an event or comment: only line ends have come after it.
    #[must_use]
    pub const fn is_at_item_end(&self) -> bool {
        self.at_item_end && self.line.is_empty()
    }

    /// What is left of an event whose blank line never came, its last line taken as whole: the data, or nothing
    /// if the stream ended between events. A standard reader drops it.
    #[must_use]
    pub fn into_rest(mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let unfinished = !line.is_empty() && line[0] != b':';
        match field(&line) {
            (b"data", value) => self.keep(value),
            _ if !self.has_data && !unfinished => return None,
            _ => {}
        }
        Some(self.data)
    }

    fn check(&self, size: usize) -> Result<(), EventTooLarge> {
        if size > self.limit { Err(EventTooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// Drops a byte-order mark at the very start, whichever way it was split.
    fn skip_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some(seen) = self.start {
            let Some(&first) = bytes.first() else { break };
            if BOM.get(seen) == Some(&first) {
                self.start = Some(seen + 1);
                bytes = &bytes[1..];
            } else {
                self.start = None;
                // Part of a mark is no mark but the beginning of a line.
                if seen < BOM.len() {
                    self.line.extend_from_slice(&BOM[..seen]);
                }
            }
        }
        bytes
    }

    fn whole_line<'a>(
        &mut self,
        line: &'a [u8],
        borrowed: &mut Option<&'a [u8]>,
        sink: &mut impl FnMut(SseItem<'_>),
    ) {
        match line.first() {
            None => return self.dispatch(borrowed.take(), sink),
            Some(b':') => {
                self.at_item_end = true;
                return sink(SseItem::Comment(&line[1..]));
            }
            Some(_) => self.at_item_end = false,
        }
        match field(line) {
            (b"data", value) => match borrowed.take() {
                None if !self.has_data => *borrowed = Some(value),
                before => {
                    if let Some(before) = before {
                        self.keep(before);
                    }
                    self.keep(value);
                }
            },
            (b"event", value) => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // `id` and `retry` are for reconnecting, which a measurement never does.
            _ => {}
        }
    }

    /// The blank line.
    fn dispatch(&mut self, borrowed: Option<&[u8]>, sink: &mut impl FnMut(SseItem<'_>)) {
        self.at_item_end |= borrowed.is_some() || self.has_data;
        if let Some(data) = borrowed {
            sink(SseItem::Event { name: &self.name, data });
        } else if self.has_data {
            sink(SseItem::Event { name: &self.name, data: &self.data });
        }
        self.data.clear();
        self.has_data = false;
        self.name.clear();
    }

    /// Appends one `data` line.
    fn keep(&mut self, data: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
    }
}

/// Name and value of a line that is not a comment.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    // The usual case without a search.
    if let Some(value) = line.strip_prefix(b"data: ") {
        return (b"data", value);
    }
    match memchr::memchr(b':', line) {
        None => (line, b""),
        Some(at) => {
            let value = &line[at + 1..];
            (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq)]
    enum Item {
        Event(String, String),
        Comment(String),
    }

    fn lossy(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn decode(pieces: &[&[u8]], limit: usize) -> (Vec<Item>, Result<Option<String>, EventTooLarge>) {
        let mut decoder = SseDecoder::new(limit);
        let mut items = Vec::new();
        for piece in pieces {
            let pushed = decoder.push(piece, |item| {
                items.push(match item {
                    SseItem::Event { name, data } => Item::Event(lossy(name), lossy(data)),
                    SseItem::Comment(text) => Item::Comment(lossy(text)),
                });
            });
            if let Err(e) = pushed {
                return (items, Err(e));
            }
        }
        (items, Ok(decoder.into_rest().map(|r| lossy(&r))))
    }

    /// The standard, written down as slowly as it reads: all bytes at once, a line at a time.
    fn reference(bytes: &[u8]) -> Vec<Item> {
        let mut rest = bytes.strip_prefix(&BOM).unwrap_or(bytes).to_vec();
        let (mut items, mut data, mut name) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(end) = rest.iter().position(|b| b"\r\n".contains(b)) {
            let line: Vec<u8> = rest.drain(..end).collect();
            let crlf = rest.starts_with(b"\r\n");
            rest.drain(..if crlf { 2 } else { 1 });
            let colon = line.iter().position(|&b| b == b':');
            let key = &line[..colon.unwrap_or(line.len())];
            let mut value = colon.map_or(Vec::new(), |c| line[c + 1..].to_vec());
            if colon == Some(0) {
                items.push(Item::Comment(lossy(&value)));
                continue;
            }
            if value.first() == Some(&b' ') {
                value.remove(0);
            }
            if line.is_empty() {
                if data.pop().is_some() {
                    items.push(Item::Event(lossy(&name), lossy(&data)));
                }
                data.clear();
                name.clear();
            } else if key == b"data" {
                data.extend(value);
                data.push(b'\n');
            } else if key == b"event" {
                name = value;
            }
        }
        items
    }

    const ALL: usize = usize::MAX;

    fn event(data: &str) -> Item {
        Item::Event(String::new(), data.to_owned())
    }

    #[test]
    fn the_three_line_ends() {
        for end in ["\n", "\r", "\r\n"] {
            let text =
                format!(": hi{end}data: a{end}data:b{end}{end}id: 1{end}{end}event: e{end}data{end}{end}");
            let (items, rest) = decode(&[text.as_bytes()], ALL);
            let named = Item::Event("e".to_owned(), String::new());
            assert_eq!(items, [Item::Comment(" hi".to_owned()), event("a\nb"), named], "{end:?}");
            assert_eq!(rest, Ok(None));
        }
    }

    #[test]
    fn an_event_ends_with_the_first_byte_of_its_blank_line() {
        let mut decoder = SseDecoder::new(ALL);
        let mut count = 0;
        for (piece, after) in [("data: a\r", 0), ("\n\r", 1), ("\ndata: b\n", 1), ("\n", 2)] {
            decoder.push(piece.as_bytes(), |_| count += 1).unwrap();
            assert_eq!(count, after, "{piece:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once() {
        let (items, _) = decode(&[b"\xef", b"\xbb", b"\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"], ALL);
        assert_eq!(items, [event("a")]);
        let (items, _) = decode(&[b"\xef\xbb", b"data: a\n\ndata: b\n\n"], ALL);
        assert_eq!(items, [event("b")]);
    }

    #[test]
    fn what_was_cut_off_is_told() {
        for (text, rest) in [
            ("data: [DONE]", Some("[DONE]")),
            ("data: [DONE]\n", Some("[DONE]")),
            ("data: a\ndata: b", Some("a\nb")),
            ("data: a\n\n", None),
            ("data: a\n\n: pin", None),
            ("data: a\n\ndat", Some("")),
            ("", None),
        ] {
            assert_eq!(decode(&[text.as_bytes()], ALL).1, Ok(rest.map(str::to_owned)), "{text:?}");
        }
    }

    #[test]
    fn the_limit_is_the_same_for_every_split() {
        let line = format!("data: {}\n\n", "x".repeat(94));
        for (limit, ok) in [(100, true), (99, false)] {
            assert_eq!(decode(&[line.as_bytes()], limit).1.is_ok(), ok);
            let bytes: Vec<&[u8]> = line.as_bytes().chunks(1).collect();
            assert_eq!(decode(&bytes, limit).1.is_ok(), ok);
        }
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "\n", "\r", "\r\n", "\n\n", "data", ":", " ", "data: ", "event: e", "id: 1", ": c", "\u{feff}",
            "é", "x", "{}", "retry",
        ]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn every_split_is_what_the_reference_says(text in stream(), size in 1usize..9) {
            let expected = reference(&text);
            prop_assert_eq!(&decode(&[&text], ALL).0, &expected);
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(&decode(&pieces, ALL).0, &expected);
        }

        #[test]
        fn a_limit_fails_alike_however_it_is_split(text in stream(), size in 1usize..9, limit in 0usize..40) {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(decode(&pieces, limit), decode(&[&text], limit));
        }
    }
}
