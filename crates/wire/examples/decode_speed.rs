//! Prints what decoding costs: nanoseconds per stream event, HTTP framing, JSON and bookkeeping included.
//!
//! Run with `cargo run --release -p goodput-wire --example decode_speed`. Figures, not a test: they vary with the
//! machine.

use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_wire::Stamp;
use goodput_wire::exchange::Exchange;
use goodput_wire::reply::{End, ReplyConfig};
use std::hint::black_box;
use std::time::Instant;

/// Events per answer, and answers per timing.
const EVENTS: usize = 512;
const ROUNDS: usize = 400;
/// Timings, of which the fastest counts: everything that is not ours only adds.
const TIMINGS: usize = 7;

const CHAT: &str = r#"{"id":"chatcmpl-8da8a53f7e316c02","object":"chat.completion.chunk","created":1796011201,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#;
const CHAT_USAGE: &str = r#"{"id":"chatcmpl-8da8a53f7e316c02","object":"chat.completion.chunk","created":1796011201,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":32,"total_tokens":33,"completion_tokens":1,"completion_tokens_details":null}}"#;
const COMPLETIONS: &str = r#"{"id":"cmpl-885b11d6d1a1e2ba","object":"text_completion","created":1796011187,"model":"tiny","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#;

/// One answer as the reads that bring it: the head, then `per_read` events a read, each event one HTTP chunk.
fn reads(json: &str, per_read: usize) -> Vec<Vec<u8>> {
    let event = format!("data: {json}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut reads = vec![head.as_bytes().to_vec()];
    reads.extend((0..EVENTS / per_read).map(|_| chunk.repeat(per_read).into_bytes()));
    reads.push(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n".to_vec());
    reads
}

fn ns_per_event(reads: &[Vec<u8>], config: ReplyConfig) -> f64 {
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        let mut exchange = Exchange::new(config);
        for (n, read) in reads.iter().enumerate() {
            let stamp = Stamp::exact(Nanos(n as u64));
            black_box(exchange.push(stamp, black_box(read)));
        }
        black_box(exchange.finish(End::Complete));
    }
    begin.elapsed().as_nanos() as f64 / (EVENTS * ROUNDS) as f64
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn main() {
    let chat = ReplyConfig::new(Protocol::OpenaiChat);
    let completions = ReplyConfig::new(Protocol::OpenaiCompletions);
    println!("{:<34} {:>6} {:>16} {:>16}", "event", "bytes", "1 a read, ns", "64 a read, ns");
    for (name, json, config) in [
        ("chat", CHAT, chat),
        ("chat, text not kept", CHAT, ReplyConfig { keep_text: false, ..chat }),
        ("chat, usage in every event", CHAT_USAGE, chat),
        ("completions", COMPLETIONS, completions),
    ] {
        let [one, many] = [1, 64].map(|per_read| {
            let reads = reads(json, per_read);
            (0..TIMINGS).map(|_| ns_per_event(&reads, config)).fold(f64::INFINITY, f64::min)
        });
        println!("{name:<34} {:>6} {one:>16.0} {many:>16.0}", json.len());
    }
}
