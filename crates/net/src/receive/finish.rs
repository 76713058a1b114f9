//! The end of a request: its record goes to the caller, its connection back to the release thread, or the request is
//! sent once more.

use super::{Assignment, Finished, ReceiveThread, Running, Stage};
use crate::connection::{Connection, OpenError};
use crate::release::ToRelease;
use goodput_core::time::Nanos;
use goodput_core::timeline::ConnectionUse;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::End;
use std::sync::atomic::Ordering;

impl ReceiveThread {
    pub(super) fn finish(&mut self, index: usize, end: End, at: Nanos, keep_alive: bool) {
        let Some(slot) = self.remove(index) else { return };
        let Assignment { mut connection, mut running, .. } = slot.assignment;
        connection.idle_since = at;
        if deserves_fresh_connection(&running, &end) {
            running.timeline.connection.stale_retries += 1;
            return self.resend(running, connection.target);
        }
        let Running { mut timeline, prepared, exchange, deadlines, latest, .. } = *running;
        let ended_by_us = matches!(end, End::Cancelled(_) | End::Timeout(_));
        let mut reply = exchange.finish(end);
        if reply.refused_usage && prepared.asks_usage && !ended_by_us {
            self.shared.feed.stop_asking_usage();
            timeline.notes.push("the server refuses to report usage; sent again without asking".to_owned());
            let prepared = self.shared.feed.build(prepared.id);
            let exchange = Exchange::new(prepared.reply);
            let again = Running { timeline, prepared, exchange, deadlines, written: 0, latest };
            return self.resend(Box::new(again), connection.target);
        }
        let id = prepared.id;
        let texts = std::mem::take(&mut reply.text);
        reply.apply_to(&mut timeline);
        timeline.instants.closed = Some(at.max(latest));
        let failed = !timeline.outcome.is_ok() && !timeline.outcome.is_censored();
        let connection = keep_alive.then_some(connection);
        self.tell(ToRelease::Ended { id, failed, connection });
        self.deliver(Finished { timeline, texts });
    }

    /// Sends the request once more on a connection of its own. The start times stay.
    fn resend(&mut self, mut running: Box<Running>, target: usize) {
        let id = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        let now = self.shared.clock.now();
        running.written = 0;
        running.exchange = Exchange::new(running.prepared.reply);
        running.timeline.instants.connect_start = None;
        running.timeline.instants.connected = None;
        let stale_retries = running.timeline.connection.stale_retries;
        running.timeline.connection = ConnectionUse { id, stale_retries, ..ConnectionUse::default() };
        match Connection::begin(id, target, &self.shared.targets[target]) {
            Ok(mut connection) => {
                connection.uses = 1;
                running.latest = now.max(running.latest);
                self.adopt(Assignment { connection, running, stage: Stage::Opening });
            }
            Err(error) => {
                let id = running.prepared.id;
                let finished = never_connected(*running, &error, now);
                self.tell(ToRelease::Ended { id, failed: true, connection: None });
                self.deliver(finished);
            }
        }
    }

    pub(super) fn deliver(&mut self, finished: Finished) {
        self.stats.sink_stalls += u64::from(self.finished.send(finished));
    }

    /// Keeps a message for the end of this turn.
    pub(super) fn tell(&mut self, message: ToRelease) {
        self.ended.push(message);
    }

    /// Tells the release thread everything at once: woken for every single one it would take the core from this thread
    /// each time. It outlives its receivers; if it has panicked the run is over anyway.
    pub(super) fn tell_all(&mut self) {
        self.release.send_all(&mut self.ended);
    }
}

/// The record of a request whose connection could not even be begun.
pub(crate) fn never_connected(running: Running, error: &OpenError, now: Nanos) -> Finished {
    let Running { mut timeline, exchange, .. } = running;
    let (fault, message) = crate::release::open_fault(error);
    exchange.finish(End::Connect { fault, message }).apply_to(&mut timeline);
    timeline.instants.closed = Some(now);
    Finished { timeline, texts: Vec::new() }
}

/// A connection that had been idle and died before any byte of the answer was already dead when it was taken: the
/// server never saw the request. It is sent once more, and the first start time is kept. The same holds for a
/// connection that was opened ahead and never used: servers close these, too.
fn deserves_fresh_connection(running: &Running, end: &End) -> bool {
    matches!(end, End::Eof | End::Reset)
        && running.timeline.connection.idle > Nanos::ZERO
        && running.timeline.connection.stale_retries == 0
        && !running.exchange.has_response_bytes()
}
