//! One connection: what it reads, what it plays, and what it still has to write.

use crate::answer::{Answer, Carried};
use crate::clock::Clock;
use crate::http::{Request, RequestReader};
use crate::ledger::{Ledger, Record};
use crate::shape::Shape;
use goodput_core::time::Nanos;
use mio::net::TcpStream;
use std::io::{self, Write};

/// Most bytes of an untimed answer that share a write.
const BATCH: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    /// Never used twice, unlike its place in the table.
    pub(crate) number: u64,
    pub(crate) accepted: Nanos,
    pub(crate) reader: RequestReader,
    /// When the newest bytes arrived, and whether the kernel says so.
    pub(crate) newest: (Nanos, bool),
    pub(crate) state: State,
    /// The turn that it has in the loop's heap.
    pub(crate) turn: Option<Nanos>,
    out: Vec<u8>,
    sent: usize,
    marks: Vec<Mark>,
}

/// What a connection is doing.
#[derive(Debug)]
pub(crate) enum State {
    /// Between requests.
    Idle,
    /// Its request waits for a slot.
    Waiting(Box<Pending>),
    /// It is being answered.
    Playing(Box<Playing>),
}

/// A request that waits for a slot.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) shape: Shape,
    pub(crate) request: Request,
    pub(crate) record: Record,
}

/// An answer being played.
#[derive(Debug)]
pub(crate) struct Playing {
    pub(crate) answer: Answer,
    /// `None` for the server's own routes.
    pub(crate) record: Option<Record>,
}

/// What has been written once `out` is sent up to `end`.
#[derive(Debug, Clone, Copy)]
struct Mark {
    end: usize,
    due: Nanos,
    carried: Carried,
}

impl Conn {
    pub(crate) fn new(stream: TcpStream, number: u64, accepted: Nanos) -> Self {
        Self {
            stream,
            number,
            accepted,
            reader: RequestReader::default(),
            newest: (accepted, false),
            state: State::Idle,
            turn: None,
            out: Vec::new(),
            sent: 0,
            marks: Vec::new(),
        }
    }

    /// Whether bytes wait for the socket.
    pub(crate) fn is_blocked(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Queues bytes that belong to no answer.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes what is queued; false if the socket takes no more now. A chunk counts as written at the start of the
    /// system call that took its last byte.
    pub(crate) fn flush(&mut self, clock: &Clock, ledger: &mut Ledger) -> io::Result<bool> {
        while self.is_blocked() {
            let before = clock.now();
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    self.note_written(before, ledger);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    fn note_written(&mut self, at: Nanos, ledger: &mut Ledger) {
        let sent = self.sent;
        let done = self.marks.partition_point(|mark| mark.end <= sent);
        let State::Playing(playing) = &mut self.state else { return };
        let stream = playing.answer.is_stream();
        for mark in self.marks.drain(..done) {
            if let Some(record) = &mut playing.record {
                ledger.wrote(record, (mark.due, at), mark.carried, stream);
            }
        }
    }

    /// Queues the writes that are due: one, or as many as fit a batch if the answer is untimed.
    pub(crate) fn queue_due(&mut self, now: Nanos) {
        let State::Playing(playing) = &mut self.state else { return };
        while let Some(due) = playing.answer.due().filter(|&due| due <= now) {
            let carried = playing.answer.emit(&mut self.out);
            if carried.chunks > 0 {
                self.marks.push(Mark { end: self.out.len(), due, carried });
            }
            if !playing.answer.batches() || self.out.len() >= BATCH {
                break;
            }
        }
    }
}
