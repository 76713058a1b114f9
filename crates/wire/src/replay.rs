//! The replay format: what a server does after it has read a whole request, as text.
//!
//! One instruction a line: `# comment`, `#! key value` settings, and `AT_MS <offset> | <bytes>`, which is one
//! write. The format is described in `testdata/README.md`. The script server plays these files over a socket,
//! and the tests feed them to the readers of this crate without one.

use goodput_core::time::Nanos;

/// How the body is framed on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Every write is one HTTP chunk.
    Chunked,
    /// The body ends with the connection.
    Close,
    /// The bytes contain status line and headers themselves.
    Raw,
}

/// How the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Close {
    /// The body is ended properly, then FIN.
    Clean,
    /// RST, and nothing ends the body.
    Reset,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Time after the request was read.
    pub offset: Nanos,
    /// The bytes, framing excluded.
    pub bytes: Vec<u8>,
}

/// A parsed replay file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// HTTP status of the answer.
    pub status: u16,
    /// Response headers, `content-type` always among them.
    pub headers: Vec<(String, String)>,
    /// Body framing.
    pub framing: Framing,
    /// How it closes.
    pub close: Close,
    /// When it closes, if that is later than the last write.
    pub close_at: Option<Nanos>,
    /// The request body the client is assumed to have sent, as JSON text.
    pub request: Option<String>,
    /// The writes, offsets never going back.
    pub steps: Vec<Step>,
}

/// A line that is not in the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("replay line {line}: {reason}")]
pub struct ReplayError {
    /// Line number, from 1.
    pub line: usize,
    /// What was expected.
    pub reason: String,
}

impl Replay {
    /// Reads a replay file.
    ///
    /// # Errors
    /// The first line that is not in the format, with what was expected there.
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        let mut replay = Self {
            status: 200,
            headers: Vec::new(),
            framing: Framing::Chunked,
            close: Close::Clean,
            close_at: None,
            request: None,
            steps: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            replay.line(line).map_err(|reason| ReplayError { line: at + 1, reason })?;
        }
        if !replay.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            let default = ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned());
            replay.headers.push(default);
        }
        Ok(replay)
    }

    /// The response head as bytes; empty for [`Framing::Raw`].
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        if self.framing == Framing::Raw {
            return Vec::new();
        }
        let mut head = format!("HTTP/1.1 {} Scripted\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(match self.framing {
            Framing::Chunked => "transfer-encoding: chunked\r\n\r\n",
            Framing::Close | Framing::Raw => "connection: close\r\n\r\n",
        });
        head.into_bytes()
    }

    /// The bytes of one write as they go over the wire.
    #[must_use]
    pub fn frame(&self, bytes: &[u8]) -> Vec<u8> {
        if self.framing != Framing::Chunked || bytes.is_empty() {
            return bytes.to_vec();
        }
        let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
        out
    }

    /// What ends the body on the wire, before the connection is closed.
    #[must_use]
    pub const fn tail(&self) -> &'static [u8] {
        match (self.framing, self.close) {
            (Framing::Chunked, Close::Clean) => b"0\r\n\r\n",
            _ => b"",
        }
    }

    /// When the connection is closed.
    #[must_use]
    pub fn closes_at(&self) -> Nanos {
        let last = self.steps.last().map_or(Nanos::ZERO, |s| s.offset);
        self.close_at.map_or(last, |at| at.max(last))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(setting) = line.strip_prefix("#!") {
            let setting = setting.trim();
            let (key, value) = setting.split_once(char::is_whitespace).unwrap_or((setting, ""));
            return self.set(key, value.trim());
        }
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let expected = || "expected `AT_MS <offset> | <bytes>`".to_owned();
        let (offset, bytes) =
            line.strip_prefix("AT_MS ").and_then(|rest| rest.split_once('|')).ok_or_else(expected)?;
        let offset = milliseconds(offset)?;
        if self.steps.last().is_some_and(|last| last.offset > offset) {
            return Err("offsets must not go back".to_owned());
        }
        let bytes = unescape(bytes.strip_prefix(' ').unwrap_or(bytes))?;
        self.steps.push(Step { offset, bytes });
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, value) {
            ("status", _) => {
                let status = value.parse().ok().filter(|s| (100..1000).contains(s));
                self.status = status.ok_or_else(|| format!("expected a status code, found {value:?}"))?;
            }
            ("header", _) => {
                let (name, value) = value
                    .split_once(':')
                    .ok_or_else(|| format!("expected `header name: value`, found {value:?}"))?;
                self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            ("framing", "chunked") => self.framing = Framing::Chunked,
            ("framing", "close") => self.framing = Framing::Close,
            ("framing", "raw") => self.framing = Framing::Raw,
            ("close", "clean") => self.close = Close::Clean,
            ("close", "reset") => self.close = Close::Reset,
            ("close_at_ms", _) => self.close_at = Some(milliseconds(value)?),
            ("request", _) => self.request = Some(value.to_owned()),
            _ => {
                return Err(format!(
                    "unknown setting `{key} {value}`; expected status, header, framing chunked|close|raw, \
                     close clean|reset, close_at_ms or request"
                ));
            }
        }
        Ok(())
    }
}

fn milliseconds(text: &str) -> Result<Nanos, String> {
    match text.trim().parse::<f64>() {
        Ok(ms) if ms.is_finite() && ms >= 0.0 => Ok(Nanos::from_secs_f64(ms / 1e3)),
        _ => Err(format!("expected milliseconds, found {:?}", text.trim())),
    }
}

/// The longest run one `\{HH*N}` may stand for.
const MAX_REPEAT: usize = 64 << 20;

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            out.push(first);
            rest = after;
            continue;
        }
        let (&kind, after) = after.split_first().ok_or("a backslash ends the line")?;
        rest = after;
        match kind {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                out.push(hex_byte(rest)?);
                rest = &rest[2..];
            }
            b'{' => {
                let end = rest.iter().position(|&b| b == b'}').ok_or("`\\{` without `}`")?;
                let (byte, count) = repeat(&rest[..end])?;
                out.resize(out.len() + count, byte);
                rest = &rest[end + 1..];
            }
            other => return Err(format!("unknown escape `\\{}`", char::from(other))),
        }
    }
    Ok(out)
}

fn hex_byte(digits: &[u8]) -> Result<u8, String> {
    let pair = digits.get(..2).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
    pair.and_then(|d| std::str::from_utf8(d).ok())
        .and_then(|d| u8::from_str_radix(d, 16).ok())
        .ok_or_else(|| "expected two hex digits".to_owned())
}

/// `HH*N`: the byte and how often.
fn repeat(inner: &[u8]) -> Result<(u8, usize), String> {
    let byte = hex_byte(inner)?;
    let count = inner.get(2..).and_then(|r| r.strip_prefix(b"*")).and_then(|n| std::str::from_utf8(n).ok());
    count
        .and_then(|n| n.parse().ok())
        .filter(|&n| n <= MAX_REPEAT)
        .map(|n| (byte, n))
        .ok_or_else(|| format!("expected `\\{{HH*N}}` with N up to {MAX_REPEAT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_steps() {
        let text = "# free\n#! status 503\n#! header retry-after: 2\n#! framing close\n#! close reset\n\
                    #! close_at_ms 160\n#! request {\"n\":2}\nAT_MS 0.5 | a\\x20\\n\\{78*3}\\\\\nAT_MS 7 | |\\r\\t\n";
        let r = Replay::parse(text).unwrap();
        assert_eq!((r.status, r.framing, r.close), (503, Framing::Close, Close::Reset));
        assert_eq!(r.close_at, Some(Nanos::from_millis(160)));
        assert_eq!(r.request.as_deref(), Some("{\"n\":2}"));
        assert_eq!(r.headers.len(), 2);
        assert_eq!(r.steps[0], Step { offset: Nanos::from_micros(500), bytes: b"a \nxxx\\".to_vec() });
        assert_eq!(r.steps[1].bytes, b"|\r\t");
        assert_eq!(r.closes_at(), Nanos::from_millis(160));
    }

    #[test]
    fn chunked_framing_is_written() {
        let r = Replay::parse("AT_MS 1 | hello\n").unwrap();
        assert_eq!(r.frame(b"hello"), b"5\r\nhello\r\n");
        assert_eq!(r.tail(), b"0\r\n\r\n");
        assert_eq!(
            String::from_utf8(r.head()).unwrap(),
            "HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("AT_MS 1 | a\nAT_MS x | b", 2),
            ("AT 1 | a", 1),
            ("AT_MS 1 | \\q", 1),
            ("AT_MS 1 | \\x4", 1),
            ("AT_MS 1 | \\{41*x}", 1),
            ("AT_MS 1 | \\{41*999999999999}", 1),
            ("AT_MS 5 | a\nAT_MS 4 | b", 2),
            ("#! status abc", 1),
            ("#! close maybe", 1),
            ("#! header x", 1),
        ] {
            assert_eq!(Replay::parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
