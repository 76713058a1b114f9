//! The first half of a turn: every readable socket is read and stamped, and nothing else is done.

use super::{ReceiveThread, Stage};
use crate::clock::{RunClock, WallTracker};
use crate::sys::StampedRead;
use goodput_core::time::Nanos;
use goodput_wire::Stamp;
use mio::event::Event;
use std::io;

/// Bytes taken in one read. A batching server fills it; a paced one never does.
const READ_MAX: usize = 64 << 10;

/// What one read came to.
#[derive(Clone, Copy)]
pub(super) enum Arrival {
    /// Bytes, in the arena.
    Bytes {
        start: usize,
        len: usize,
        stamp: Stamp,
        /// An instant before this read at which the socket held nothing: these bytes came after it.
        emptied: Nanos,
    },
    /// The peer has closed the connection.
    Closed,
    /// The socket failed with this error of the operating system.
    Broken {
        /// Its number.
        code: i32,
    },
}

/// Gives reads their stamps.
pub(super) struct Stamper {
    clock: RunClock,
    wall: WallTracker,
    /// The last reading of the clock in this turn.
    seen: Nanos,
    /// Reads that carried data.
    pub(super) reads: u64,
    /// Of those, with a kernel stamp.
    pub(super) stamped: u64,
    /// Stamps that a stepped clock had made useless; the time of the read was taken.
    pub(super) rejected: u64,
}

impl Stamper {
    pub(super) const fn new(clock: RunClock) -> Self {
        let wall = WallTracker::new(clock);
        Self { clock, wall, seen: Nanos::ZERO, reads: 0, stamped: 0, rejected: 0 }
    }

    /// The poll has returned, at `now`.
    pub(super) const fn turn_begins(&mut self, now: Nanos) {
        self.seen = now;
    }

    /// The stamp of a read that has just been made.
    ///
    /// The kernel stamps what it queued last. A read that does not empty the socket can have the stamp of bytes that it
    /// left there, because the kernel joins what it queues; then nothing in it has a stamp of its own.
    fn stamp(&mut self, read: StampedRead) -> Stamp {
        let now = self.clock.now();
        self.seen = now;
        let arrived = read.realtime_ns.and_then(|wall| self.wall.to_run(wall, now));
        self.reads += 1;
        self.stamped += u64::from(arrived.is_some());
        self.rejected += u64::from(read.realtime_ns.is_some() && arrived.is_none());
        let at = arrived.unwrap_or(now);
        Stamp {
            at,
            late_ns: u32::try_from(now.since(at).0).unwrap_or(u32::MAX),
            early_ns: if arrived.is_some() && read.bytes < READ_MAX { 0 } else { Stamp::NOT_EXACT },
            kernel: arrived.is_some(),
        }
    }
}

impl ReceiveThread {
    pub(super) fn read_slot(&mut self, event: &Event) {
        let index = event.token().0;
        let to_the_end = event.is_read_closed() || event.is_error();
        if !event.is_readable() && !to_the_end {
            return;
        }
        loop {
            if self.arena.len() - self.used < READ_MAX {
                self.digest();
            }
            let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else { return };
            if slot.assignment.stage == Stage::Opening && !slot.assignment.connection.is_encrypted() {
                return; // Nothing can arrive before the request is sent; `advance` reports a failed connect.
            }
            let occupant = (index, slot.serial);
            let before = self.stamper.seen;
            let room = &mut self.arena[self.used..self.used + READ_MAX];
            let read = match slot.assignment.connection.receive(room) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    let code = e.raw_os_error().unwrap_or_default();
                    return self.arrivals.push((occupant, Arrival::Broken { code }));
                }
            };
            if read.bytes == 0 {
                return self.arrivals.push((occupant, Arrival::Closed));
            }
            let stamp = self.stamper.stamp(read);
            let emptied = slot.emptied;
            self.arrivals
                .push((occupant, Arrival::Bytes { start: self.used, len: read.bytes, stamp, emptied }));
            self.used += read.bytes;
            // A short read means that the socket was empty, and that its readiness will be reported anew.
            if read.bytes < READ_MAX {
                slot.emptied = before;
                if !to_the_end {
                    return;
                }
            }
        }
    }
}
