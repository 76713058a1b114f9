//! HTTP/1.1 requests out of bytes, and response heads into bytes.
//!
//! No socket here: the reader is fed whatever arrived and hands out whole requests, so a request may come in any
//! number of pieces and several may share one.

use std::mem;

/// Longest request head.
const HEAD_LIMIT: usize = 64 * 1024;
/// Longest request body.
pub(crate) const BODY_LIMIT: usize = 64 * 1024 * 1024;
/// Most header fields in a request.
const HEADER_LIMIT: usize = 128;

/// A whole request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// Whether the client can read chunked framing (HTTP/1.1).
    pub(crate) chunked_ok: bool,
    /// Whether the client wants the connection kept.
    pub(crate) keep_alive: bool,
    /// `x-request-id`.
    pub(crate) request_id: Option<String>,
    /// `x-goodput-fault`.
    pub(crate) fault: Option<String>,
    /// `accept`.
    pub(crate) accept: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// What the bytes so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A whole request.
    Request(Request),
    /// The client waits for `100 Continue` before it sends the body.
    Continue,
    /// More bytes are needed.
    More,
}

/// A request that cannot be answered; the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadRequest {
    pub(crate) status: u16,
    pub(crate) message: &'static str,
}

const MALFORMED: BadRequest = BadRequest { status: 400, message: "the request is not HTTP/1.1" };
const HEAD_TOO_LONG: BadRequest = BadRequest { status: 431, message: "the request head is over 64 KiB" };
const BODY_TOO_LONG: BadRequest = BadRequest { status: 413, message: "the request body is over 64 MiB" };

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

/// Turns bytes into requests.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    /// Bytes not used yet.
    buffer: Vec<u8>,
    /// The head whose body is awaited.
    open: Option<(Request, Framing)>,
}

impl RequestReader {
    /// Takes the bytes that arrived.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether more is buffered than any one request may hold.
    pub(crate) fn is_overfull(&self) -> bool {
        self.buffer.len() > 2 * BODY_LIMIT
    }

    /// The next step of the current request.
    pub(crate) fn step(&mut self) -> Result<Step, BadRequest> {
        let mut expects = false;
        if self.open.is_none() {
            let Some((request, framing, continues)) = self.head()? else { return Ok(Step::More) };
            expects = continues;
            self.open = Some((request, framing));
        }
        let Some((mut request, framing)) = self.open.take() else { return Ok(Step::More) };
        let whole = match framing {
            Framing::Length(length) => self.sized_body(length, &mut request.body),
            Framing::Chunked => self.chunked_body(&mut request.body)?,
        };
        if whole {
            return Ok(Step::Request(request));
        }
        self.open = Some((request, framing));
        Ok(if expects { Step::Continue } else { Step::More })
    }

    fn head(&mut self) -> Result<Option<(Request, Framing, bool)>, BadRequest> {
        let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
        let mut parsed = httparse::Request::new(&mut headers);
        let used = match parsed.parse(&self.buffer) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) if self.buffer.len() > HEAD_LIMIT => return Err(HEAD_TOO_LONG),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HEAD_TOO_LONG),
            Err(_) => return Err(MALFORMED),
        };
        let found = read_head(&parsed)?;
        self.buffer.drain(..used);
        Ok(Some(found))
    }

    fn sized_body(&mut self, length: usize, body: &mut Vec<u8>) -> bool {
        if self.buffer.len() < length {
            return false;
        }
        let rest = self.buffer.split_off(length);
        *body = mem::replace(&mut self.buffer, rest);
        true
    }

    /// Moves whole chunks into `body`; true after the last one and its trailer.
    fn chunked_body(&mut self, body: &mut Vec<u8>) -> Result<bool, BadRequest> {
        let mut used = 0;
        let whole = loop {
            let rest = &self.buffer[used..];
            let (start, size) = match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete((start, size))) => (start, size),
                Ok(httparse::Status::Partial) => break false,
                Err(_) => return Err(MALFORMED),
            };
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if size > BODY_LIMIT - body.len() {
                return Err(BODY_TOO_LONG);
            }
            if size == 0 {
                let Some(trailer) = trailer_length(&rest[start..]) else { break false };
                used += start + trailer;
                break true;
            }
            let Some(data) = rest.get(start..start + size + 2) else { break false };
            body.extend_from_slice(&data[..size]);
            used += start + size + 2;
        };
        self.buffer.drain(..used);
        Ok(whole)
    }
}

/// Length of the trailer section including its closing empty line.
fn trailer_length(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"\r\n") {
        return Some(2);
    }
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

fn read_head(parsed: &httparse::Request<'_, '_>) -> Result<(Request, Framing, bool), BadRequest> {
    let target = parsed.path.unwrap_or_default();
    let modern = parsed.version == Some(1);
    let mut request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        chunked_ok: modern,
        keep_alive: modern,
        ..Request::default()
    };
    let mut framing = Framing::Length(0);
    let mut expects = false;
    for header in &*parsed.headers {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") && !matches!(framing, Framing::Chunked) {
            framing = Framing::Length(value.parse().map_err(|_| MALFORMED)?);
        } else if is("transfer-encoding") {
            framing = Framing::Chunked;
        } else if is("connection") {
            request.keep_alive = match value.to_ascii_lowercase().as_str() {
                "close" => false,
                "keep-alive" => true,
                _ => request.keep_alive,
            };
        } else if is("expect") {
            expects = value.eq_ignore_ascii_case("100-continue");
        } else if is("x-request-id") {
            request.request_id = Some(value.to_owned());
        } else if is("accept") {
            request.accept = Some(value.to_owned());
        } else if is("x-goodput-fault") {
            request.fault = Some(value.to_owned());
        }
    }
    match framing {
        Framing::Length(length) if length > BODY_LIMIT => Err(BODY_TOO_LONG),
        _ => Ok((request, framing, expects)),
    }
}

/// How the end of a response body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// `content-length`.
    Length(usize),
    /// Chunked framing.
    Chunked,
    /// The connection closes.
    Close,
}

/// Appends a response head. `headers` are whole lines without their line ends.
pub(crate) fn write_head(out: &mut Vec<u8>, status: u16, headers: &[&str], body: BodyEnd, keep_alive: bool) {
    out.extend_from_slice(format!("HTTP/1.1 {status} {}\r\n", reason(status)).as_bytes());
    for header in headers {
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    match body {
        BodyEnd::Length(length) => out.extend_from_slice(format!("content-length: {length}\r\n").as_bytes()),
        BodyEnd::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        BodyEnd::Close => {}
    }
    if !keep_alive || body == BodyEnd::Close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends one HTTP chunk. Nothing is written for no bytes: an empty chunk would end the body.
pub(crate) fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let digits = (usize::BITS - data.len().leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(data.len() >> (digit * 4)) & 15]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The chunk that ends a body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZED: &str =
        "POST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\nX-Request-Id: r-7\r\ncontent-length: 5\r\n\r\nhello";
    const CHUNKED: &str = "POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\nx-goodput-fault: crlf\r\nAccept: */*\r\n\r\n\
                           3\r\nhel\r\n2;note=1\r\nlo\r\n0\r\nDigest: z\r\n\r\n";
    const BARE: &str = "GET /health HTTP/1.0\r\n\r\n";

    fn wanted() -> Vec<Request> {
        let base = Request { chunked_ok: true, keep_alive: true, ..Request::default() };
        vec![
            Request {
                method: "POST".into(),
                path: "/v1/completions".into(),
                request_id: Some("r-7".into()),
                body: b"hello".to_vec(),
                ..base
            },
            Request {
                method: "POST".into(),
                path: "/generate".into(),
                fault: Some("crlf".into()),
                body: b"hello".to_vec(),
                chunked_ok: true,
                keep_alive: true,
                request_id: None,
                accept: Some("*/*".into()),
            },
            Request { method: "GET".into(), path: "/health".into(), ..Request::default() },
        ]
    }

    proptest! {
        /// However the bytes are cut, the requests are the same.
        #[test]
        fn cuts_do_not_matter(cuts in prop::collection::vec(1_usize..40, 1..60)) {
            let bytes = [SIZED, CHUNKED, BARE].concat().into_bytes();
            let mut reader = RequestReader::default();
            let mut found = Vec::new();
            let mut at = 0;
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(bytes.len());
                reader.feed(&bytes[at..end]);
                at = end;
                while let Step::Request(request) = reader.step().unwrap() {
                    found.push(request);
                }
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(found, wanted());
        }
    }

    #[test]
    fn expect_is_answered_once_and_only_while_the_body_is_missing() {
        let head = b"POST / HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n";
        let mut reader = RequestReader::default();
        reader.feed(head);
        assert_eq!(reader.step(), Ok(Step::Continue));
        assert_eq!(reader.step(), Ok(Step::More));
        reader.feed(b"ok");
        assert!(matches!(reader.step(), Ok(Step::Request(request)) if request.body == b"ok"));
        reader.feed(&[&head[..], b"ok"].concat());
        assert!(matches!(reader.step(), Ok(Step::Request(_))));
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_LIMIT));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADER_LIMIT + 1));
        let cases: [(&str, u16); 6] = [
            ("\x16\x03\x01 hello\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
            ("POST / HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n", 413),
            (&long, 431),
            (&many, 431),
        ];
        for (text, status) in cases {
            let mut reader = RequestReader::default();
            reader.feed(text.as_bytes());
            assert_eq!(reader.step().map_err(|bad| bad.status), Err(status), "{}", &text[..20]);
        }
    }

    #[test]
    fn connection_header_decides_about_reuse() {
        for (version, header, kept) in [
            ("1.1", "", true),
            ("1.1", "connection: close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.1", "connection: upgrade\r\n", true),
        ] {
            let mut reader = RequestReader::default();
            reader.feed(format!("GET / HTTP/{version}\r\n{header}\r\n").as_bytes());
            let Ok(Step::Request(request)) = reader.step() else { panic!("a whole request") };
            assert_eq!(request.keep_alive, kept, "{version} {header}");
        }
    }

    #[test]
    fn chunks_are_framed_in_hex() {
        for (size, head) in [(1, "1"), (15, "f"), (16, "10"), (255, "ff"), (4_096, "1000")] {
            let mut out = Vec::new();
            write_chunk(&mut out, &vec![b'x'; size]);
            assert_eq!(out, format!("{head}\r\n{}\r\n", "x".repeat(size)).into_bytes());
        }
        let mut out = Vec::new();
        write_chunk(&mut out, b"");
        assert!(out.is_empty());
    }

    #[test]
    fn heads_say_how_the_body_ends() {
        let mut out = Vec::new();
        write_head(&mut out, 503, &["retry-after: 1"], BodyEnd::Length(2), true);
        assert_eq!(out, b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n");
        out.clear();
        write_head(&mut out, 200, &[], BodyEnd::Chunked, false);
        assert_eq!(out, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    }
}
