//! One law for any bytes at all: an answer reads the same however its bytes are divided over reads, and nothing
//! panics.
//!
//! [`exercise`] is the whole body of a fuzz target; the property tests call it too.

use crate::Stamp;
use crate::exchange::Exchange;
use crate::reply::{End, Reply, ReplyConfig};
use goodput_core::outcome::Outcome;
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;

/// Reads `data` as an answer, whole and in pieces, and checks that it comes to the same.
///
/// The first byte picks protocol, mode and how the connection ends, the second the size of the pieces; the rest
/// are the bytes off the wire.
///
/// # Panics
/// If the two readings differ: then there is a bug.
pub fn exercise(data: &[u8]) {
    let [options, size, bytes @ ..] = data else { return };
    let bit = |n: u8| options >> n & 1 == 1;
    let protocol = Protocol::ALL[usize::from(options & 3) % Protocol::ALL.len()];
    let config = ReplyConfig {
        stream: bit(2),
        choices: 1 + u32::from(bit(3)),
        ignore_eos: bit(4),
        max_tokens: bit(4).then_some(4),
        keep_text: bit(5),
        max_event_bytes: if bit(6) { 256 } else { 1 << 16 },
        ..ReplyConfig::new(protocol)
    };
    let whole = read(config, bytes, usize::MAX, bit(7));
    let split = read(config, bytes, usize::from(*size).max(1), bit(7));
    assert_eq!(whole, split, "an answer must not depend on how its bytes were divided over reads");
}

fn read(config: ReplyConfig, bytes: &[u8], size: usize, reset: bool) -> Reply {
    let mut exchange = Exchange::new(config);
    // One instant, so one read, however many pushes it takes: none of them has a last event of its own.
    let stamp = Stamp { early_ns: Stamp::NOT_EXACT, ..Stamp::exact(Nanos(1)) };
    for piece in bytes.chunks(size) {
        exchange.push(stamp, piece);
    }
    if reset {
        exchange.reset();
    } else {
        exchange.eof();
    }
    let mut reply = exchange.finish(End::Complete);
    if matches!(reply.outcome, Outcome::Protocol { .. } | Outcome::StreamError { .. }) {
        // How far a broken answer was read before it was given up does depend on the reads.
        reply.response_bytes = 0;
    }
    reply
}
