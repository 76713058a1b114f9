//! From bytes to chunks: the second half of a receive thread's turn.

use crate::Task;
use crate::inputs::{self, Answer};
use goodput_core::time::Nanos;
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{End, MAX_EVENT_BYTES, ReplyConfig, ReplyReader};
use goodput_wire::sse::{SseDecoder, SseItem};
use std::hint::black_box;

/// Generated answers of one run.
const ANSWERS: usize = 40;
/// Times the recorded streams are read in one run: they are short.
const ROUNDS: usize = 10;
/// As the client reads at most.
const READ_MAX: usize = 64 << 10;

/// The decoder alone, a whole recorded stream in each push.
pub(crate) fn sse_recorded() -> Task {
    let answers = inputs::recorded();
    let events = decode_all(&answers);
    Task::new("event", events * ROUNDS, move || {
        for _ in 0..ROUNDS {
            decode_all(&answers);
        }
    })
}

/// The decoder alone, every event in a push of its own.
pub(crate) fn sse_one_event_a_read() -> Task {
    let answers = inputs::chat(ANSWERS);
    let events = decode_all(&answers);
    Task::new("event", events, move || {
        decode_all(&answers);
    })
}

/// Events in all answers.
fn decode_all(answers: &[Answer]) -> usize {
    answers.iter().map(|answer| black_box(decode(black_box(&answer.events)))).sum()
}

fn decode(pieces: &[Vec<u8>]) -> usize {
    let mut decoder = SseDecoder::new(MAX_EVENT_BYTES);
    let mut events = 0;
    for piece in pieces {
        let pushed = decoder.push(piece, |item| {
            events += usize::from(matches!(black_box(item), SseItem::Event { .. }));
        });
        pushed.expect("events are far below the limit");
    }
    events
}

/// Decoder, JSON and the record of each event, on all recorded streams.
pub(crate) fn reply_recorded() -> Task {
    let answers = inputs::recorded();
    let chunks = read_all(&answers);
    Task::new("event", chunks * ROUNDS, move || {
        for _ in 0..ROUNDS {
            read_all(&answers);
        }
    })
}

/// The same on generated chat answers, every event in a read of its own.
pub(crate) fn reply_chat() -> Task {
    reply(inputs::chat(ANSWERS))
}

/// The same on SGLang's native answers, whose events grow.
pub(crate) fn reply_sglang() -> Task {
    reply(inputs::sglang(ANSWERS))
}

fn reply(answers: Vec<Answer>) -> Task {
    let chunks = read_all(&answers);
    Task::new("event", chunks, move || {
        read_all(&answers);
    })
}

/// Chunks of all answers.
fn read_all(answers: &[Answer]) -> usize {
    answers.iter().map(|answer| black_box(read_body(black_box(answer)))).sum()
}

fn read_body(answer: &Answer) -> usize {
    let mut reader = ReplyReader::new(answer.config());
    reader.head(Nanos(1), 200, Some("text/event-stream"));
    for (at, event) in (2..).zip(&answer.events) {
        reader.body(Stamp::exact(Nanos(at)), event);
    }
    reader.finish(End::Complete).chunks.len()
}

/// A whole answer with its HTTP framing, one write of the server in a read.
pub(crate) fn exchange_one_event_a_read() -> Task {
    exchange(|answer| answer.writes())
}

/// The same bytes in reads as large as the client makes them.
pub(crate) fn exchange_64k_reads() -> Task {
    exchange(|answer| answer.writes().concat().chunks(READ_MAX).map(<[u8]>::to_vec).collect())
}

fn exchange(divide: impl Fn(&Answer) -> Vec<Vec<u8>>) -> Task {
    let answers: Vec<_> =
        inputs::chat(ANSWERS).iter().map(|answer| (answer.config(), divide(answer))).collect();
    let chunks = answers.iter().map(|(config, reads)| push_all(*config, reads)).sum();
    Task::new("event", chunks, move || {
        for (config, reads) in &answers {
            black_box(push_all(*config, black_box(reads)));
        }
    })
}

fn push_all(config: ReplyConfig, reads: &[Vec<u8>]) -> usize {
    let mut exchange = Exchange::new(config);
    for (at, bytes) in (1..).zip(reads) {
        exchange.push(Stamp::exact(Nanos(at)), bytes);
    }
    exchange.finish(End::Complete).chunks.len()
}
