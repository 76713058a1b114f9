//! Laws over generated answers: no split of the bytes changes what an answer comes to, and no bytes make the
//! reader panic.

use goodput_core::outcome::Outcome;
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::ChunkFlags;
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_wire::Stamp;
use goodput_wire::fuzz::exercise;
use goodput_wire::reply::{End, Reply, ReplyConfig, ReplyReader};
use proptest::prelude::*;

/// Lines and events that mean something, sound and broken ones, to be strung together.
const PIECES: &[&str] = &[
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"é\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,\"text\":\"c\"}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"token_ids\":[1,2]}],\"usage\":{\"completion_tokens\":2}}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":\"4\"}}\n\n",
    "data: {\"text\":\"ab\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":1}}\n\n",
    "data: {\"text\":\"abc\",\"output_ids\":[1,2],\"meta_info\":{\"completion_tokens\":2}}\n\n",
    "data: {\"text\":\"d\",\"meta_info\":{\"finish_reason\":{\"type\":\"length\"}}}\n\n",
    "data: {\"error\":{\"message\":\"no\"}}\n\n",
    "event: error\ndata: plain\n\n",
    "data: [DONE]\n\n",
    "data: [DONE]",
    ": ping\n\n",
    "data: : ping\n\n",
    "data: {\"odd\":1}\r\r",
    "data: {\"choices\":7}\n\n",
    "data: {broken\n\n",
    "data:",
    "\n",
    "\r",
    "\u{feff}",
    "{\"choices\":[{\"message\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}",
    "{\"error\":\"no\"}",
    "<html>",
    " ",
];

const HEADS: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 120\r\n\r\n",
    "HTTP/1.1 503 Busy\r\nretry-after: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
    "",
];

fn body() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat())
}

fn input(head: &str, body: &[u8], options: u8, size: u8) -> Vec<u8> {
    [&[options, size], head.as_bytes(), body].concat()
}

fn read(body: &[u8], size: usize) -> Reply {
    let mut reader = ReplyReader::new(ReplyConfig::new(Protocol::OpenaiChat));
    reader.head(Nanos(0), 200, Some("text/event-stream"));
    for piece in body.chunks(size) {
        reader.body(Stamp::of_read(Nanos(1)), piece);
    }
    reader.finish(End::Complete)
}

proptest! {
    #[test]
    fn a_split_changes_nothing(
        head in prop::sample::select(HEADS), body in body(), options: u8, size in 1u8..40
    ) {
        exercise(&input(head, body.as_bytes(), options, size));
    }

    #[test]
    fn http_chunks_change_nothing(body in body(), options: u8, size in 1u8..40, chunk in 1usize..50) {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut framed = Vec::new();
        for piece in body.as_bytes().chunks(chunk) {
            framed.extend_from_slice(format!("{:x};x\r\n", piece.len()).as_bytes());
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
        }
        framed.extend_from_slice(b"0\r\na: b\r\n\r\n");
        exercise(&input(head, &framed, options, size));
    }

    #[test]
    fn no_bytes_make_it_panic(
        head in prop::sample::select(HEADS), body in body(), options: u8, size: u8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
    ) {
        let mut bytes = input(head, body.as_bytes(), options, size);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        exercise(&bytes);
    }

    #[test]
    fn text_and_counts_survive_any_split(
        words in prop::collection::vec("\\PC{0,6}", 1..20), size in 1usize..30, crlf: bool
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut body = String::new();
        for word in &words {
            let json = serde_json::json!({"choices": [{"index": 0, "delta": {"content": word}}]});
            body.push_str(&format!("data: {json}{end}{end}"));
        }
        body.push_str(&format!("data: [DONE]{end}{end}"));
        let filled = words.iter().filter(|w| !w.is_empty()).count();
        let reply = read(body.as_bytes(), size);
        let tokens = |n: usize| TokenCount { count: u32::try_from(n).unwrap(), source: TokenSource::Chunks };
        prop_assert_eq!(&reply.text[0].text, &words.concat());
        prop_assert_eq!(reply.output, (filled > 0).then(|| tokens(filled)));
        prop_assert_eq!(reply.outcome == Outcome::Ok, filled > 0);
        prop_assert_eq!(reply.chunks.len(), words.len() + 1);
        let empty = reply.chunks.iter().filter(|c| c.flags.has(ChunkFlags::EMPTY_TEXT)).count();
        prop_assert_eq!(empty, words.len() - filled);
    }
}

/// Inputs on which the law was once broken.
#[test]
fn found_by_fuzzing() {
    // A blank line before the head, divided over two reads.
    exercise(b"\x07\x00\n\r\n\n\r\n\n?");
}
