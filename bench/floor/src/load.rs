//! The closed loop: who still has to send, and where each answer ends.
//!
//! It knows nothing of how bytes are received.

use crate::sys;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// The last chunk of a chunked body without trailers, after the line end of the chunk before it.
const TERMINAL_CHUNK: [u8; 7] = *b"\r\n0\r\n\r\n";
/// The beginning of an answer that will stream.
const ACCEPTED: &[u8] = b"HTTP/1.1 200";

/// Where the server is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target(SocketAddr);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.strip_prefix("http://").ok_or("expected http://ADDRESS:PORT")?;
        let mut found = authority.trim_end_matches('/').to_socket_addrs().map_err(|e| e.to_string())?;
        found.next().map(Self).ok_or_else(|| format!("{authority} has no address"))
    }
}

/// What is asked for.
pub(crate) struct Work {
    pub(crate) streams: usize,
    pub(crate) requests: usize,
    pub(crate) tokens: u32,
    pub(crate) prompt: usize,
}

impl Work {
    /// The request that `goodput run` sends for this work.
    fn request(&self, target: Target) -> Vec<u8> {
        let prompt = "word ".chars().cycle().take(self.prompt).collect::<String>();
        let body = format!(
            r#"{{"model":"goodput-fixed","messages":[{{"role":"user","content":"{prompt}"}}],"max_tokens":{},"ignore_eos":true,"stream":true,"stream_options":{{"include_usage":true}}}}"#,
            self.tokens
        );
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            target.0,
            body.len()
        )
        .into_bytes()
    }
}

struct Slot {
    stream: TcpStream,
    /// The last bytes of the answer so far, the newest in the lowest byte.
    tail: u64,
    /// Whether the next read brings the head of an answer.
    fresh: bool,
}

/// All connections and how far the work is.
pub(crate) struct Load {
    slots: Vec<Slot>,
    request: Vec<u8>,
    to_send: usize,
    to_end: usize,
    bytes: u64,
    reads: u64,
    stamped_reads: u64,
}

impl Load {
    /// Opens a connection for every slot.
    pub(crate) fn open(target: &Target, work: &Work) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(target.0)?;
            stream.set_nodelay(true)?;
            Ok(Slot { stream, tail: 0, fresh: true })
        };
        Ok(Self {
            slots: (0..work.streams).map(connect).collect::<io::Result<_>>()?,
            request: work.request(*target),
            to_send: work.requests,
            to_end: work.requests,
            bytes: 0,
            reads: 0,
            stamped_reads: 0,
        })
    }

    /// Asks the kernel for a receive stamp with every read.
    pub(crate) fn ask_for_stamps(&self) -> io::Result<()> {
        self.sockets().try_for_each(sys::enable_receive_stamps)
    }

    /// The sockets, in the order of the slots.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = RawFd> {
        self.slots.iter().map(|slot| slot.stream.as_raw_fd())
    }

    /// Sends the first request of every slot, spread evenly over `spread`, so that answers which are timed alike do not
    /// come in step. Nothing is read meanwhile: the first answer should take longer than that.
    pub(crate) fn begin(&mut self, spread: Duration) -> io::Result<()> {
        let (start, slots) = (Instant::now(), self.slots.len());
        for slot in 0..slots {
            let due = spread.mul_f64(slot as f64 / slots as f64);
            thread::sleep(due.saturating_sub(start.elapsed()));
            self.send(slot)?;
        }
        Ok(())
    }

    /// Whether the last answer has ended.
    pub(crate) const fn is_over(&self) -> bool {
        self.to_end == 0
    }

    /// A read of a slot brought these bytes. At the end of an answer the slot sends its next request.
    ///
    /// Between two reads a server that streams never stops right after a line end, a zero and an empty line unless that
    /// is the terminal chunk, since the data of an event ends with a line feed and no carriage return before it.
    pub(crate) fn took(&mut self, slot: usize, bytes: &[u8], stamp: Option<u64>) -> io::Result<()> {
        self.reads += 1;
        self.bytes += bytes.len() as u64;
        self.stamped_reads += u64::from(stamp.is_some());
        let connection = &mut self.slots[slot];
        if connection.fresh {
            connection.fresh = false;
            if !bytes.starts_with(ACCEPTED) {
                let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
                return Err(io::Error::other(format!("expected status 200 and a stream, got: {shown}")));
            }
        }
        connection.tail = tail_after(connection.tail, bytes);
        if ends_answer(connection.tail) {
            connection.tail = 0;
            connection.fresh = true;
            self.to_end -= 1;
            self.send(slot)?;
        }
        Ok(())
    }

    fn send(&mut self, slot: usize) -> io::Result<()> {
        if self.to_send > 0 {
            self.to_send -= 1;
            self.slots[slot].stream.write_all(&self.request)?;
        }
        Ok(())
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn reads(&self) -> u64 {
        self.reads
    }

    pub(crate) const fn stamped_reads(&self) -> u64 {
        self.stamped_reads
    }
}

/// The last eight bytes of a stream, given those before `bytes`.
fn tail_after(tail: u64, bytes: &[u8]) -> u64 {
    match bytes.last_chunk() {
        Some(last) => u64::from_be_bytes(*last),
        None => bytes.iter().fold(tail, |tail, &byte| tail << 8 | u64::from(byte)),
    }
}

const fn ends_answer(tail: u64) -> bool {
    let [a, b, c, d, e, f, g] = TERMINAL_CHUNK;
    tail << 8 == u64::from_be_bytes([a, b, c, d, e, f, g, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_however_the_bytes_are_divided() {
        let answer = b"HTTP/1.1 200 OK\r\n\r\n5\r\ndata\n\r\n0\r\n\r\n";
        for size in 1..=answer.len() {
            let mut tail = 0;
            let mut ends = Vec::new();
            let mut seen = 0;
            for piece in answer.chunks(size) {
                tail = tail_after(tail, piece);
                seen += piece.len();
                ends.extend(ends_answer(tail).then_some(seen));
            }
            assert_eq!(ends, [answer.len()], "pieces of {size} bytes");
        }
    }

    #[test]
    fn a_request_has_the_length_that_it_says() {
        let work = Work { streams: 1, requests: 1, tokens: 7, prompt: 12 };
        let request = work.request("http://127.0.0.1:80".parse().expect("an address"));
        let text = String::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["max_tokens"], 7);
        assert_eq!(body["messages"][0]["content"], "word word wo");
    }
}
