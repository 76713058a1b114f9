//! Opening a connection and sending its request, as far as the kernel lets it go at a time.

use super::{ReceiveThread, Running, Stage};
use crate::clock::RunClock;
use crate::connection::Connection;
use goodput_core::outcome::ConnectFault;
use goodput_wire::reply::End;
use mio::{Interest, Token};
use std::cmp::Reverse;
use std::io;

impl ReceiveThread {
    /// Moves a connection on as far as the kernel allows: TCP, TLS, request.
    pub(super) fn advance(&mut self, index: usize) {
        let now = self.shared.clock.now();
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        if slot.assignment.stage == Stage::Opening {
            match open(&mut slot.assignment.connection) {
                Ok(false) => return,
                Ok(true) => {}
                Err((fault, message)) => return self.connect_failed(index, fault, message),
            }
            let running = &mut slot.assignment.running;
            running.deadlines.connected();
            // A request sent once more keeps the instants of its first attempt.
            if running.timeline.instants.sent.is_none() {
                running.timeline.instants.connected = Some(now);
            }
            slot.assignment.stage = Stage::Sending;
        }
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let connection = &mut slot.assignment.connection;
        if slot.assignment.stage != Stage::Sending {
            // Only TLS has something left to say after the request: key updates and alerts.
            if connection.write(&[]).is_err() {
                self.end_of_stream(index, End::Reset);
            }
            return;
        }
        let running = &mut slot.assignment.running;
        match send_some(connection, running, &self.shared.clock) {
            Ok(true) => {
                slot.assignment.stage = Stage::Waiting;
                let token = Token(index);
                let readable =
                    self.poll.registry().reregister(&mut connection.stream, token, Interest::READABLE);
                if let Some((at, _)) = running.deadlines.next() {
                    self.alarms.push(Reverse((at, (index, slot.serial))));
                }
                if readable.is_err() {
                    self.end_of_stream(index, End::Reset);
                }
            }
            Ok(false) => {}
            Err(_) => self.end_of_stream(index, End::Reset),
        }
    }

    pub(super) fn connect_failed(&mut self, index: usize, fault: ConnectFault, message: String) {
        let now = self.shared.clock.now();
        self.finish(index, End::Connect { fault, message }, now, false);
    }
}

/// Whether TCP and TLS are up, or why they never will be.
fn open(connection: &mut Connection) -> Result<bool, (ConnectFault, String)> {
    match connection.tcp_is_up() {
        Ok(false) => return Ok(false),
        Ok(true) => {}
        Err(e) => return Err((crate::release::io_fault(&e), e.to_string())),
    }
    connection.is_open().map_err(|e| (ConnectFault::Tls, e.to_string()))
}

/// Writes what the kernel takes; `true` when the whole request is out.
pub(crate) fn send_some(
    connection: &mut Connection,
    running: &mut Running,
    clock: &RunClock,
) -> io::Result<bool> {
    let rest = &running.prepared.bytes[running.written..];
    if running.timeline.instants.sent.is_none() {
        let now = clock.now();
        running.timeline.instants.sent = Some(now);
        running.latest = running.latest.max(now);
        running.deadlines.on_sent(now);
    }
    running.written += connection.write(rest)?;
    let all = running.written == running.prepared.bytes.len() && !connection.wants_write();
    if all {
        running.timeline.instants.sent_all = Some(clock.now());
    }
    Ok(all)
}
