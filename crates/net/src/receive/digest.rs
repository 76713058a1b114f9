//! The second half of a turn: what was read is decrypted, parsed and judged.

use super::read::Arrival;
use super::{ReceiveThread, Stage};
use crate::sys;
use goodput_core::outcome::ConnectFault;
use goodput_core::time::Nanos;
use goodput_wire::Stamp;
use goodput_wire::reply::End;
use std::io;
use std::time::Duration;

/// What is known of when the bytes of a read came.
#[derive(Clone, Copy)]
struct Read {
    stamp: Stamp,
    /// They came after this instant.
    emptied: Nanos,
}

impl ReceiveThread {
    pub(super) fn digest(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        let arena = std::mem::take(&mut self.arena);
        for &((index, serial), arrival) in &arrivals {
            // A request that is sent again may already have taken the slot of its first attempt.
            if self.slots[index].as_ref().is_none_or(|slot| slot.serial != serial) {
                continue;
            }
            match arrival {
                Arrival::Bytes { start, len, stamp, emptied } => {
                    self.bytes(index, Read { stamp, emptied }, &arena[start..start + len]);
                }
                Arrival::Closed => self.end_of_stream(index, End::Eof),
                Arrival::Broken { code } => self.broken(index, &io::Error::from_raw_os_error(code)),
            }
        }
        self.arena = arena;
        self.used = 0;
        self.arrivals = arrivals;
        self.arrivals.clear();
    }

    fn bytes(&mut self, index: usize, mut read: Read, raw: &[u8]) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let connection = &mut slot.assignment.connection;
        if !connection.is_encrypted() {
            return self.answer(index, read, raw);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let decrypted = connection.decrypt(raw, &mut plain);
        if !connection.is_between_records() {
            // The stamp is that of a record whose end is still to come.
            read.stamp.early_ns = Stamp::NOT_EXACT;
        }
        if slot.assignment.stage == Stage::Opening {
            match &decrypted {
                Ok(_) => self.advance(index),
                Err(e) => self.connect_failed(index, ConnectFault::Tls, e.to_string()),
            }
        } else {
            if !plain.is_empty() {
                self.answer(index, read, &plain);
            }
            match &decrypted {
                Ok(false) => {}
                Ok(true) => self.end_of_stream(index, End::Eof),
                Err(_) => self.end_of_stream(index, End::Reset),
            }
        }
        self.plain = plain;
    }

    fn answer(&mut self, index: usize, read: Read, bytes: &[u8]) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        let running = &mut slot.assignment.running;
        let stamp = read.stamp.not_before(running.latest);
        running.latest = stamp.at;
        let progress = running.exchange.push(stamp, bytes);
        if progress.unbounded {
            let sent = running.timeline.instants.sent.unwrap_or_default();
            let quiet = self.quiet.until(slot.watched, &self.shared.clock).unwrap_or_default();
            running.exchange.not_before(read.emptied.max(sent).max(quiet));
        }
        // Once an answer has begun the request is never sent again, and long prompts would fill the memory.
        if slot.assignment.stage == Stage::Waiting {
            running.prepared.bytes = Vec::new();
        }
        if progress.saw_byte {
            running.deadlines.on_byte(stamp.at);
        }
        if progress.first_token {
            running.deadlines.on_token(stamp.at);
        }
        if let Some(work) = self.shared.receive_work {
            burn(work * u32::try_from(progress.events).unwrap_or(u32::MAX));
        }
        if progress.complete {
            self.finish(index, End::Complete, stamp.at, progress.keep_alive);
        }
    }

    fn broken(&mut self, index: usize, error: &io::Error) {
        match self.slots[index].as_ref().map(|slot| slot.assignment.stage) {
            Some(Stage::Opening) => {
                self.connect_failed(index, crate::release::io_fault(error), error.to_string());
            }
            _ => self.end_of_stream(index, End::Reset),
        }
    }

    pub(super) fn end_of_stream(&mut self, index: usize, end: End) {
        let now = self.shared.clock.now();
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
        if slot.assignment.stage == Stage::Opening {
            let message = "the connection was closed before it was usable".to_owned();
            return self.connect_failed(index, ConnectFault::Other, message);
        }
        match end {
            End::Reset => slot.assignment.running.exchange.reset(),
            _ => slot.assignment.running.exchange.eof(),
        }
        self.finish(index, end, now, false);
    }
}

/// Uses this much CPU time, for the proof that the receive thread's own work does not change what is measured.
fn burn(work: Duration) {
    let until = sys::thread_cpu_ns().saturating_add(u64::try_from(work.as_nanos()).unwrap_or(u64::MAX));
    while sys::thread_cpu_ns() < until {
        std::hint::spin_loop();
    }
}
