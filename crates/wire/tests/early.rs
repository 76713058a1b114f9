//! By how much an event may have come earlier than recorded: exact cases, and the law over simulated arrivals.

use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::Chunk;
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{End, ReplyConfig, ReplyReader};
use proptest::prelude::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
const UNKNOWN: u32 = Chunk::EARLY_UNKNOWN;

/// The payload as one chunk of HTTP/1.1.
fn framed(payload: &str) -> String {
    format!("{:x}\r\n{payload}\r\n", payload.len())
}

/// Feeds reads, each with its stamp and what the owner of the socket knows in case he is asked, and returns by how much
/// each event may have been earlier.
fn early(reads: &[(Stamp, u64, String)]) -> Vec<u32> {
    let mut exchange = Exchange::new(ReplyConfig::new(Protocol::OpenaiChat));
    exchange.push(Stamp::exact(Nanos(1)), HEAD.as_bytes());
    for (stamp, not_before, bytes) in reads {
        if exchange.push(*stamp, bytes.as_bytes()).unbounded {
            exchange.not_before(Nanos(*not_before));
        }
    }
    exchange.finish(End::Eof).chunks.iter().map(|chunk| chunk.early_ns).collect()
}

fn at(at: u64) -> Stamp {
    Stamp::exact(Nanos(at))
}

#[test]
fn the_last_event_of_a_read_is_exact_and_the_others_are_bounded() {
    let one = framed(EVENT);
    assert_eq!(early(&[(at(100), 40, one.clone()), (at(200), 150, one.clone())]), [0, 0]);
    assert_eq!(early(&[(at(100), 40, one.repeat(3)), (at(200), 150, one.repeat(2))]), [60, 60, 0, 50, 0]);
    // Two events in one chunk of HTTP, and a comment that counts as one.
    assert_eq!(early(&[(at(100), 40, framed(&EVENT.repeat(2)))]), [60, 0]);
    assert_eq!(early(&[(at(100), 40, framed(&format!("{EVENT}: ping\n")))]), [60, 0]);
}

#[test]
fn what_came_after_an_event_has_the_stamp() {
    let one = framed(EVENT);
    for (tail, exact) in [
        ("", true),
        ("0\r\n\r\n", false),
        ("5", false),
        ("3e\r\n", false),
        ("3e\r\ndata: {", false),
        ("1\r\n\n\r\n", true),
        ("4\r\nid:\n\r\n", false),
    ] {
        let expected = if exact { 0 } else { 60 };
        assert_eq!(early(&[(at(100), 40, format!("{one}{tail}"))]), [expected], "{tail:?}");
    }
    // The closing line end of its chunk is part of the event, wherever the read ends.
    for cut in 0..=2 {
        assert_eq!(early(&[(at(100), 40, one[..one.len() - cut].to_owned())]), [0]);
    }
    // The event that the end of its own bytes completes later has the stamp of those.
    let (first, rest) = one.split_at(20);
    assert_eq!(early(&[(at(100), 40, format!("{one}{first}")), (at(200), 150, rest.to_owned())]), [60, 0]);
}

#[test]
fn without_an_exact_stamp_every_event_needs_a_bound() {
    let one = framed(EVENT);
    let read = Stamp::of_read(Nanos(100));
    assert_eq!(early(&[(read, 40, one.clone())]), [60]);
    // A stamp of bytes that the read left behind.
    let cut = Stamp { early_ns: Stamp::NOT_EXACT, ..at(100) };
    assert_eq!(early(&[(cut, 40, one.repeat(2))]), [60, 60]);
    // A stamp that was moved to keep the order of the record.
    assert_eq!(early(&[(Stamp { early_ns: 7, ..at(100) }, 40, one.repeat(2))]), [60, 7]);
    // Beyond 4.3 s nothing is said.
    let late = Stamp::of_read(Nanos::from_secs(9));
    assert_eq!(early(&[(late, 40, one)]), [UNKNOWN]);
}

#[test]
fn a_time_that_would_go_back_is_moved_and_the_bound_with_it() {
    let one = framed(EVENT);
    assert_eq!(early(&[(at(100), 40, one.clone()), (at(90), 80, one.repeat(2))]), [0, 20, 10]);
}

#[test]
fn all_choices_of_one_event_came_together() {
    let two = r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}"#;
    let one = framed(&format!("data: {two}\n\n"));
    assert_eq!(early(&[(at(100), 40, one.clone())]), [0, 0]);
    assert_eq!(early(&[(at(100), 40, one.repeat(2))]), [60, 60, 0, 0]);
}

#[test]
fn nobody_asked_is_unknown() {
    let config = ReplyConfig::new(Protocol::OpenaiChat);
    let mut exchange = Exchange::new(config);
    exchange.push(at(1), HEAD.as_bytes());
    assert!(exchange.push(at(100), framed(EVENT).repeat(2).as_bytes()).unbounded);
    assert!(!exchange.push(at(200), framed(EVENT).as_bytes()).unbounded);
    let early = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.early_ns).collect::<Vec<_>>();
    assert_eq!(early(&exchange.finish(End::Eof).chunks), [UNKNOWN, 0, 0]);
    // The body alone, as HTTP/2 has it, without an end of reads.
    let mut reader = ReplyReader::new(config);
    reader.head(Nanos(1), 200, Some("text/event-stream"));
    reader.body(at(100), EVENT.as_bytes());
    assert_eq!(early(&reader.finish(End::Complete).chunks), [UNKNOWN]);
}

#[test]
fn the_arrival_of_a_whole_body_is_that_of_its_last_byte() {
    let body = r#"{"choices":[{"message":{"content":"all"},"finish_reason":"stop"}]}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    for (stamp, expected) in [(at(100), 0), (Stamp::of_read(Nanos(100)), UNKNOWN)] {
        let mut exchange = Exchange::new(ReplyConfig::new(Protocol::OpenaiChat));
        exchange.push(at(1), head.as_bytes());
        exchange.push(stamp, body.as_bytes());
        let chunks = exchange.finish(End::Complete).chunks;
        assert_eq!((chunks.len(), chunks[0].early_ns), (1, expected));
    }
}

/// Segments of a stream as they arrive: how many bytes each has, and how long after the one before it comes.
fn segments() -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((1usize..160, 0u64..5_000), 1..60)
}

proptest! {
    /// A server's bytes arrive in segments; a client reads, now and then, all that is there. Whatever it saw, each event
    /// really came within `[at - early, at]`.
    #[test]
    fn an_event_came_within_its_bound(
        segments in segments(),
        pauses in prop::collection::vec(0u64..20_000, 1..20),
        batch in 1usize..4,
        stamped: bool,
        whole: bool,
    ) {
        let batch = framed(&EVENT.repeat(batch));
        let stream = batch.repeat(8);
        let per_chunk = batch.matches("data:").count();
        // The arrival of every byte.
        let mut arrivals: Vec<u64> = Vec::new();
        let mut now = 10;
        for (bytes, gap) in segments.iter().cycle() {
            now += gap;
            arrivals.extend(std::iter::repeat_n(now, *bytes));
            if arrivals.len() >= stream.len() {
                break;
            }
        }
        arrivals.truncate(stream.len());
        // An event has come with its blank line, or with the line end that closes its chunk: both are right.
        let truth: Vec<(u64, u64)> = stream
            .match_indices("}\n\n")
            .map(|(place, found)| {
                let end = place + found.len();
                let closed = end + if stream[end..].starts_with("\r\n") { 2 } else { 0 };
                (arrivals[end - 1], arrivals[closed - 1])
            })
            .collect();
        let mut exchange = Exchange::new(ReplyConfig::new(Protocol::OpenaiChat));
        exchange.push(Stamp::exact(Nanos(1)), HEAD.as_bytes());
        let (mut taken, mut emptied, mut read_at) = (0, 0, 10);
        let mut pause = pauses.iter().cycle();
        while taken < stream.len() {
            read_at += pause.next().unwrap() + 1;
            let there = arrivals.partition_point(|arrival| *arrival <= read_at);
            // A read that leaves something behind may have its stamp.
            let room = if whole { usize::MAX } else { 400 };
            let upto = there.min(taken.saturating_add(room));
            if upto == taken {
                emptied = read_at;
                continue;
            }
            let newest = arrivals[there - 1];
            let exact = Stamp { late_ns: (read_at - newest) as u32, ..Stamp::exact(Nanos(newest)) };
            let stamp = match (stamped, upto == there) {
                (false, _) => Stamp::of_read(Nanos(read_at)),
                (true, true) => exact,
                (true, false) => Stamp { early_ns: Stamp::NOT_EXACT, ..exact },
            };
            if exchange.push(stamp, &stream.as_bytes()[taken..upto]).unbounded {
                exchange.not_before(Nanos(emptied));
            }
            if upto == there {
                emptied = read_at;
            }
            taken = upto;
        }
        let chunks = exchange.finish(End::Eof).chunks;
        prop_assert_eq!(chunks.len(), 8 * per_chunk);
        for (chunk, (came, closed)) in chunks.iter().zip(truth) {
            prop_assert!(chunk.early_ns != UNKNOWN);
            prop_assert!(chunk.at.0 - u64::from(chunk.early_ns) <= closed, "{:?} {}", chunk, closed);
            prop_assert!(came <= chunk.at.0, "{:?} {}", chunk, came);
        }
    }
}
