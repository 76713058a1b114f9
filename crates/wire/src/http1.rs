//! HTTP/1.1 response framing, incremental: bytes in, head, body pieces and end out.
//!
//! The rules are those of RFC 9112: interim (1xx) answers are skipped; the body is delimited by the status, by
//! `transfer-encoding: chunked`, by `content-length` or by the close, in that order. A line may end in a bare LF.
//! Body bytes are handed on as slices of what was pushed, never copied; only an unfinished head or an unfinished
//! chunk-size line is kept between pushes. It knows nothing of what the body means.

use memchr::memchr;

/// Longest response head, in bytes, interim answers counted one by one.
pub const MAX_HEAD_BYTES: usize = 64 << 10;
/// Most headers in one head.
pub const MAX_HEADERS: usize = 128;
/// Longest chunk-size line with its extensions, in bytes.
pub const MAX_CHUNK_LINE_BYTES: usize = 4 << 10;
/// Longest trailer section, in bytes.
pub const MAX_TRAILER_BYTES: usize = 16 << 10;

/// What the head of an answer says, as far as anyone here asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// `content-type`, as sent.
    pub content_type: Option<String>,
    /// `retry-after`, as sent.
    pub retry_after: Option<String>,
    /// `content-encoding`, unless it is `identity`.
    pub content_encoding: Option<String>,
    /// Whether the peer means to keep the connection open after this answer.
    pub keep_alive: bool,
}

/// One thing found in the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Http1Event<'a> {
    /// The head of the final answer.
    Head(Head),
    /// A piece of the body, never empty.
    Body(&'a [u8]),
    /// The body has ended as its framing said.
    End,
}

/// Bytes that are not HTTP/1.1, or go beyond a limit. Nothing more can be read from the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Http1Error {
    /// The head cannot be parsed.
    #[error("response head is not HTTP/1.1: {0}")]
    Head(String),
    /// The head is larger than [`MAX_HEAD_BYTES`].
    #[error("response head is larger than {MAX_HEAD_BYTES} bytes")]
    HeadTooLarge,
    /// The peer switches protocols although nobody asked.
    #[error("server switched protocols (101) without being asked")]
    Switched,
    /// A transfer coding other than `chunked`.
    #[error("transfer coding {0:?} is not supported, only chunked")]
    TransferCoding(String),
    /// A `content-length` that is not one number.
    #[error("content-length {0:?} is not one number")]
    ContentLength(String),
    /// A chunk-size line that is no size.
    #[error("chunk size line {0:?} does not begin with a hexadecimal size")]
    ChunkSize(String),
    /// A chunk-size line longer than [`MAX_CHUNK_LINE_BYTES`].
    #[error("chunk size line is longer than {MAX_CHUNK_LINE_BYTES} bytes")]
    ChunkLineTooLong,
    /// No line end after the data of a chunk.
    #[error("chunk data is not followed by a line end")]
    ChunkEnd,
    /// The trailer section is larger than [`MAX_TRAILER_BYTES`].
    #[error("trailer section is larger than {MAX_TRAILER_BYTES} bytes")]
    TrailerTooLarge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Collecting a head.
    Head,
    /// The head says that there is no body.
    Empty,
    /// This many body bytes left.
    Length(u64),
    /// The body lasts as long as the connection.
    UntilClose,
    /// Collecting a chunk-size line.
    ChunkLine,
    /// This many bytes of chunk data left.
    ChunkData(u64),
    /// The CR LF after chunk data.
    ChunkEnd,
    /// The LF after chunk data.
    ChunkEndLf,
    /// Trailer lines until an empty one.
    Trailer,
    /// The answer is over.
    Done,
}

/// Reads one answer. For the next answer on the same connection use a new reader.
#[derive(Debug)]
pub struct Http1Reader {
    state: State,
    /// The unfinished head or line.
    held: Vec<u8>,
    /// Bytes of trailer lines so far.
    trailer: usize,
}

impl Default for Http1Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Http1Reader {
    /// Ready for the first byte of an answer.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Head, held: Vec::new(), trailer: 0 }
    }

    /// The next thing in `input`, which is moved past it. `None`: all of `input` is used up and more is needed.
    /// After [`Http1Event::End`] always `None`, with `input` left alone.
    ///
    /// # Errors
    /// [`Http1Error`] if the bytes are not HTTP/1.1. The reader must not be used after that.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Http1Event<'a>>, Http1Error> {
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Empty | State::Length(0) => {
                    self.state = State::Done;
                    return Ok(Some(Http1Event::End));
                }
                _ if input.is_empty() => return Ok(None),
                State::Head => {
                    if let Some(head) = self.head(input)? {
                        return Ok(Some(Http1Event::Head(head)));
                    }
                }
                State::UntilClose => return Ok(Some(Http1Event::Body(take(input, u64::MAX)))),
                State::Length(left) => {
                    let body = take(input, left);
                    self.state = State::Length(left - body.len() as u64);
                    return Ok(Some(Http1Event::Body(body)));
                }
                State::ChunkLine => self.chunk_line(input)?,
                State::ChunkData(left) => {
                    let body = take(input, left);
                    let left = left - body.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::ChunkData(left) };
                    return Ok(Some(Http1Event::Body(body)));
                }
                State::ChunkEnd | State::ChunkEndLf => self.chunk_end(input)?,
                State::Trailer => self.trailer(input)?,
            }
        }
    }

    /// The connection was closed by the peer. Whether that is the proper end of this body.
    pub fn eof(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Whether the answer is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Collects lines up to the empty one that ends the head. `None` also after an interim answer.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, Http1Error> {
        while let Some(line) = take_line(input) {
            self.hold(line, MAX_HEAD_BYTES).ok_or(Http1Error::HeadTooLarge)?;
            // Blank lines before a head are skipped (RFC 9112, 2.2), also when a read ends inside one.
            if matches!(self.held.as_slice(), b"\r\n" | b"\n") {
                self.held.clear();
                continue;
            }
            if self.held.ends_with(b"\n\r\n") || self.held.ends_with(b"\n\n") {
                let (head, next) = parse_head(&self.held)?;
                self.held.clear();
                self.state = next;
                if next == State::Head {
                    continue;
                }
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    fn chunk_line(&mut self, input: &mut &[u8]) -> Result<(), Http1Error> {
        let Some(line) = take_line(input) else { return Ok(()) };
        self.hold(line, MAX_CHUNK_LINE_BYTES).ok_or(Http1Error::ChunkLineTooLong)?;
        if self.held.ends_with(b"\n") {
            let size = chunk_size(&self.held).ok_or_else(|| Http1Error::ChunkSize(shorten(&self.held)))?;
            self.held.clear();
            self.state = if size == 0 { State::Trailer } else { State::ChunkData(size) };
        }
        Ok(())
    }

    fn chunk_end(&mut self, input: &mut &[u8]) -> Result<(), Http1Error> {
        self.state = match (take(input, 1), self.state) {
            (b"\r", State::ChunkEnd) => State::ChunkEndLf,
            (b"\n", _) => State::ChunkLine,
            _ => return Err(Http1Error::ChunkEnd),
        };
        Ok(())
    }

    fn trailer(&mut self, input: &mut &[u8]) -> Result<(), Http1Error> {
        while let Some(line) = take_line(input) {
            self.trailer += line.len();
            if self.trailer > MAX_TRAILER_BYTES {
                return Err(Http1Error::TrailerTooLarge);
            }
            self.held.extend_from_slice(line);
            if !self.held.ends_with(b"\n") {
                return Ok(());
            }
            let blank = matches!(self.held.as_slice(), b"\r\n" | b"\n");
            self.held.clear();
            if blank {
                // `Empty` is what is left to report: the end.
                self.state = State::Empty;
                return Ok(());
            }
        }
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8], limit: usize) -> Option<()> {
        if self.held.len() + bytes.len() > limit {
            return None;
        }
        self.held.extend_from_slice(bytes);
        Some(())
    }
}

/// Up to `most` bytes off the front.
fn take<'a>(input: &mut &'a [u8], most: u64) -> &'a [u8] {
    let n = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    let (front, rest) = input.split_at(n);
    *input = rest;
    front
}

/// Up to and including the next LF, or everything if there is none; `None` if there is nothing.
fn take_line<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    if input.is_empty() {
        return None;
    }
    let n = memchr(b'\n', input).map_or(input.len(), |at| at + 1);
    Some(take(input, n as u64))
}

/// The size of a chunk-size line, extensions ignored (RFC 9112, section 7.1).
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|&b| b == b';').next()?.trim_ascii();
    let digits = !size.is_empty() && size.len() <= 15 && size.iter().all(u8::is_ascii_hexdigit);
    let text = digits.then_some(size).and_then(|s| std::str::from_utf8(s).ok())?;
    u64::from_str_radix(text, 16).ok()
}

/// The head and the state after it.
fn parse_head(bytes: &[u8]) -> Result<(Head, State), Http1Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Http1Error::Head("it ends too early".to_owned())),
        Err(e) => return Err(Http1Error::Head(e.to_string())),
    }
    let status = response.code.unwrap_or_default();
    let fields = Fields::collect(response.headers)?;
    let keep_by_default = response.version == Some(1);
    let next = match status {
        101 => return Err(Http1Error::Switched),
        100..200 => State::Head,
        204 | 304 => State::Empty,
        _ => fields.framing()?,
    };
    let keep_alive = match fields.connection {
        Some(Connection::Close) => false,
        Some(Connection::KeepAlive) => true,
        None => keep_by_default,
    };
    let head = Head {
        status,
        content_type: fields.content_type,
        retry_after: fields.retry_after,
        content_encoding: fields.content_encoding,
        keep_alive: keep_alive && next != State::UntilClose && !fields.doubtful,
    };
    Ok((head, next))
}

#[derive(Clone, Copy)]
enum Connection {
    Close,
    KeepAlive,
}

/// The header fields that matter here.
#[derive(Default)]
struct Fields {
    content_type: Option<String>,
    retry_after: Option<String>,
    content_encoding: Option<String>,
    connection: Option<Connection>,
    transfer_coding: Option<String>,
    length: Option<u64>,
    /// Both a transfer coding and a length: the coding rules, but the connection is not used again (RFC 9112,
    /// section 6.3).
    doubtful: bool,
}

impl Fields {
    fn collect(headers: &[httparse::Header<'_>]) -> Result<Self, Http1Error> {
        let mut fields = Self::default();
        for header in headers {
            let name = |wanted: &str| header.name.eq_ignore_ascii_case(wanted);
            let text = || String::from_utf8_lossy(header.value).trim().to_owned();
            if name("content-type") {
                fields.content_type = Some(text());
            } else if name("content-length") {
                fields.content_length(&text())?;
            } else if name("transfer-encoding") {
                let before = fields.transfer_coding.take();
                fields.transfer_coding = Some(before.map_or_else(text, |b| format!("{b}, {}", text())));
            } else if name("connection") {
                fields.connection_options(&text());
            } else if name("retry-after") {
                fields.retry_after = Some(text());
            } else if name("content-encoding") && !text().eq_ignore_ascii_case("identity") {
                fields.content_encoding = Some(text());
            }
        }
        fields.doubtful = fields.transfer_coding.is_some() && fields.length.is_some();
        Ok(fields)
    }

    /// One number, or the same number several times (RFC 9110, section 8.6).
    fn content_length(&mut self, text: &str) -> Result<(), Http1Error> {
        for part in text.split(',').map(str::trim) {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let length = if digits { part.parse().ok() } else { None };
            if length.is_none() || self.length.is_some_and(|l| Some(l) != length) {
                return Err(Http1Error::ContentLength(text.to_owned()));
            }
            self.length = length;
        }
        Ok(())
    }

    fn connection_options(&mut self, text: &str) {
        for option in text.split(',').map(str::trim) {
            if option.eq_ignore_ascii_case("close") {
                self.connection = Some(Connection::Close);
            } else if option.eq_ignore_ascii_case("keep-alive") && self.connection.is_none() {
                self.connection = Some(Connection::KeepAlive);
            }
        }
    }

    fn framing(&self) -> Result<State, Http1Error> {
        match (&self.transfer_coding, self.length) {
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Ok(State::ChunkLine),
            (Some(coding), _) => Err(Http1Error::TransferCoding(coding.clone())),
            (None, Some(length)) => Ok(State::Length(length)),
            (None, None) => Ok(State::UntilClose),
        }
    }
}

/// The start of a line, for a message.
fn shorten(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(40)]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader made of bytes that came in pieces: heads, the joined body, whether it ended, what is left.
    #[derive(Debug, PartialEq, Default)]
    struct Seen {
        heads: Vec<Head>,
        body: Vec<u8>,
        ended: bool,
        left: Vec<u8>,
    }

    fn read(pieces: &[&[u8]]) -> Result<Seen, Http1Error> {
        let mut reader = Http1Reader::new();
        let mut seen = Seen::default();
        for piece in pieces {
            let mut input = *piece;
            while let Some(event) = reader.next(&mut input)? {
                match event {
                    Http1Event::Head(head) => seen.heads.push(head),
                    Http1Event::Body(body) => seen.body.extend_from_slice(body),
                    Http1Event::End => seen.ended = true,
                }
            }
            seen.left.extend_from_slice(input);
        }
        assert_eq!(seen.ended, reader.is_done());
        Ok(seen)
    }

    fn body_of(text: &str) -> String {
        String::from_utf8(read(&[text.as_bytes()]).unwrap().body).unwrap()
    }

    const CHUNKED: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n5;ext=\"a\"\r\nhello\r\n06\n world\n0\r\nX-Trailer: 1\r\n\r\nnext";

    #[test]
    fn chunked_with_extensions_and_trailers() {
        let seen = read(&[CHUNKED.as_bytes()]).unwrap();
        assert_eq!(seen.body, b"hello world");
        assert!(seen.ended);
        assert_eq!(seen.left, b"next");
        assert_eq!(seen.heads.len(), 1);
        assert_eq!(seen.heads[0].status, 200);
        assert_eq!(seen.heads[0].content_type.as_deref(), Some("text/event-stream"));
        assert!(seen.heads[0].keep_alive);
    }

    #[test]
    fn the_four_ways_to_end_a_body() {
        let length = read(&[b"HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabcd"]).unwrap();
        assert_eq!(
            (length.body.as_slice(), length.ended, length.left.as_slice()),
            (&b"abc"[..], true, &b"d"[..])
        );
        for status in [204, 304] {
            let none =
                read(&[format!("HTTP/1.1 {status} X\r\ncontent-length: 9\r\n\r\n").as_bytes()]).unwrap();
            assert!(none.ended);
        }
        let empty = read(&[b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).unwrap();
        assert!(empty.ended);
        let mut reader = Http1Reader::new();
        let mut input = &b"HTTP/1.1 200 OK\n\nabc"[..];
        let Ok(Some(Http1Event::Head(head))) = reader.next(&mut input) else { panic!("no head") };
        assert!(!head.keep_alive);
        assert_eq!(reader.next(&mut input), Ok(Some(Http1Event::Body(b"abc"))));
        assert!(!reader.is_done());
        assert!(reader.eof());
    }

    #[test]
    fn an_early_close_is_not_an_end() {
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"] {
            let mut reader = Http1Reader::new();
            let mut input = text.as_bytes();
            while let Some(_event) = reader.next(&mut input).unwrap() {}
            assert!(!reader.eof(), "{text}");
        }
    }

    #[test]
    fn keep_alive_follows_version_and_header() {
        let keep = |line: &str, headers: &str| {
            let text = format!("{line} 200 OK\r\ncontent-length: 0\r\n{headers}\r\n");
            read(&[text.as_bytes()]).unwrap().heads[0].keep_alive
        };
        assert!(keep("HTTP/1.1", ""));
        assert!(!keep("HTTP/1.1", "Connection: x, Close\r\n"));
        assert!(!keep("HTTP/1.0", ""));
        assert!(keep("HTTP/1.0", "connection: keep-alive\r\n"));
        assert!(!keep("HTTP/1.1", "connection: keep-alive, close\r\n"));
        let both = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        let seen = read(&[both.as_bytes()]).unwrap();
        assert!(seen.ended && !seen.heads[0].keep_alive);
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let head = "HTTP/1.1 200 OK\r\n";
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let error = |text: String| read(&[text.as_bytes()]).unwrap_err();
        assert!(matches!(error("SSH-2.0-x\r\n\r\n".into()), Http1Error::Head(_)));
        assert!(matches!(error(format!("{head}content-length: 3, 4\r\n\r\n")), Http1Error::ContentLength(_)));
        assert!(matches!(error(format!("{head}content-length: -3\r\n\r\n")), Http1Error::ContentLength(_)));
        assert!(matches!(
            error(format!("{head}transfer-encoding: gzip, chunked\r\n\r\n")),
            Http1Error::TransferCoding(_)
        ));
        assert!(matches!(error("HTTP/1.1 101 Switching\r\n\r\n".into()), Http1Error::Switched));
        for size in ["x", "", "-1", "ffffffffffffffff", "5 5"] {
            assert!(matches!(error(format!("{chunked}{size}\r\n")), Http1Error::ChunkSize(_)), "{size}");
        }
        assert_eq!(error(format!("{chunked}1\r\nab")), Http1Error::ChunkEnd);
        assert_eq!(error(format!("{head}a: {}", "x".repeat(MAX_HEAD_BYTES))), Http1Error::HeadTooLarge);
        let long = format!("{chunked}1;{}", "x".repeat(MAX_CHUNK_LINE_BYTES));
        assert_eq!(error(long), Http1Error::ChunkLineTooLong);
        assert_eq!(
            error(format!("{chunked}0\r\n{}", "a: b\r\n".repeat(MAX_TRAILER_BYTES / 4))),
            Http1Error::TrailerTooLarge
        );
    }

    #[test]
    fn codings_are_told() {
        let seen = read(&[
            b"HTTP/1.1 503 X\r\nRetry-After: 5\r\nContent-Encoding: gzip\r\ncontent-length: 0\r\n\r\n",
        ]);
        let head = &seen.unwrap().heads[0];
        assert_eq!(head.retry_after.as_deref(), Some("5"));
        assert_eq!(head.content_encoding.as_deref(), Some("gzip"));
        assert_eq!(body_of("HTTP/1.1 200 OK\r\n\r\nabc"), "abc");
    }

    proptest! {
        #[test]
        fn any_split_reads_the_same(cuts in prop::collection::vec(0..CHUNKED.len(), 0..12)) {
            let whole = read(&[CHUNKED.as_bytes()]).unwrap();
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut rest = CHUNKED.as_bytes();
            let mut at = 0;
            for cut in cuts {
                let (front, back) = rest.split_at(cut - at);
                pieces.push(front);
                (rest, at) = (back, cut);
            }
            pieces.push(rest);
            prop_assert_eq!(read(&pieces).unwrap(), whole);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            text.extend_from_slice(&bytes);
            let pieces: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(read(&pieces), read(&[&text]));
        }
    }
}
