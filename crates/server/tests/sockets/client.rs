//! A client that knows just enough HTTP to look at the bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(crate) struct Client(BufReader<TcpStream>);

/// No test waits longer than this for bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A POST with extra header lines.
pub(crate) fn body(headers: &str, path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// A completions request with faults.
pub(crate) fn completions(json: &str, fault: &str) -> String {
    body(&format!("x-goodput-fault: {fault}\r\n"), "/v1/completions", json)
}

/// The data of the events in a body.
pub(crate) fn events(text: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(text).unwrap();
    text.split("\n\n")
        .filter(|e| !e.is_empty())
        .map(|e| e.strip_prefix("data: ").unwrap().to_owned())
        .collect()
}

/// Asks until the answer fits.
pub(crate) fn eventually<T>(ask: impl Fn() -> T, fits: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if fits(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "what was waited for never came");
        std::thread::yield_now();
    }
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The response head.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "the connection ended in the head: {head:?}");
        }
        head
    }

    /// One HTTP chunk; `None` for the last.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut data = vec![0; size + 2];
        self.0.read_exact(&mut data).unwrap();
        assert_eq!(data.split_off(size), b"\r\n");
        (size > 0).then_some(data)
    }

    /// A response with a content length: head and body.
    pub(crate) fn whole(&mut self) -> (String, Vec<u8>) {
        let head = self.head();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (head, body)
    }

    /// Everything up to the end of the connection, or what came before it broke.
    pub(crate) fn rest(&mut self) -> Result<Vec<u8>, (Vec<u8>, io::Error)> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err((bytes, error)),
        }
    }
}
