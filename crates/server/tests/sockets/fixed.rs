//! The fixed server over real sockets: routes, framing, order and lower bounds of time.

use crate::client::{Client, body, completions};
use goodput_core::time::Nanos;
use goodput_server::{FixedConfig, Service, Setup, parse_rules, spawn};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn config() -> FixedConfig {
    FixedConfig {
        ttft: Nanos::from_millis(4),
        itl: Nanos::from_millis(2),
        tokens: 5,
        ..FixedConfig::default()
    }
}

fn untimed(tokens: u32) -> FixedConfig {
    FixedConfig { ttft: Nanos::ZERO, itl: Nanos::ZERO, tokens, ..FixedConfig::default() }
}

const STREAM: &str =
    r#"{"model":"m","prompt":"hello","stream":true,"stream_options":{"include_usage":true}}"#;

#[test]
fn a_stream_is_never_early_and_complete() {
    let server = spawn(Service::Fixed(config())).unwrap();
    let mut client = Client::connect(server.addr);
    let begun = Instant::now();
    client.send(&completions(STREAM, ""));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let mut arrivals = Vec::new();
    let mut text = Vec::new();
    while let Some(chunk) = client.chunk() {
        arrivals.push(begun.elapsed());
        text.extend(chunk);
    }
    assert_eq!(arrivals.len(), 5, "one HTTP chunk per token");
    for (i, at) in arrivals.iter().enumerate() {
        assert!(*at >= Duration::from_millis(4 + 2 * i as u64), "token {i} came at {at:?}");
    }
    let events = crate::client::events(&text);
    assert_eq!(events.len(), 7, "five tokens, usage and [DONE]");
    assert_eq!(events[6], "[DONE]");
    let usage: Value = serde_json::from_str(&events[5]).unwrap();
    assert_eq!(usage["usage"], json!({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}));

    let truth = server.stop().unwrap();
    assert_eq!((truth.tokens, truth.chunks, truth.requests.finished), (5, 5, 1));
    assert!((truth.ttft_due_ms.max - 4.0).abs() < 1e-9, "{:?}", truth.ttft_due_ms);
    assert!((truth.itl_due_ms.mean - 2.0).abs() < 1e-9 && truth.itl_due_ms.n == 4);
    assert!(truth.ttft_ms.min >= 4.0 && truth.lateness_us.min >= 0.0);
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = spawn(Service::Fixed(untimed(3))).unwrap();
    let mut client = Client::connect(server.addr);
    let chat = completions(r#"{"messages":[],"stream":true}"#, "").replace("completions", "chat/completions");
    let native = completions(r#"{"text":"x","stream":true}"#, "").replace("v1/completions", "generate");
    // All at once: pipelined requests are answered in order.
    client.send(&[chat, native, completions(STREAM, "")].concat());
    let texts: Vec<String> = (0..3)
        .map(|_| {
            client.head();
            let mut text = Vec::new();
            while let Some(chunk) = client.chunk() {
                text.extend(chunk);
            }
            String::from_utf8(text).unwrap()
        })
        .collect();
    assert!(texts[0].contains(r#""role":"assistant""#));
    assert!(texts[1].contains(r#""text":"abc""#));
    assert!(texts[2].contains(r#""object":"text_completion""#));
    let truth = server.stop().unwrap();
    assert_eq!((truth.connections.accepted, truth.requests.finished), (1, 3));
}

#[test]
fn own_routes_answer_json() {
    let server = spawn(Service::Fixed(config())).unwrap();
    let mut client = Client::connect(server.addr);
    for (request, status, key) in [
        ("GET /v1/models HTTP/1.1\r\n\r\n", 200, "/data/0/id"),
        ("GET /version HTTP/1.1\r\n\r\n", 200, "/version"),
        ("GET /truth HTTP/1.1\r\n\r\n", 200, "/ttft_ms/p99"),
        ("GET /truth/arrivals HTTP/1.1\r\n\r\n", 200, "/unix_ns"),
        ("POST /truth/reset HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 200, ""),
        ("GET /nowhere HTTP/1.1\r\n\r\n", 404, "/error/message"),
        ("POST /tokenize HTTP/1.1\r\ncontent-length: 15\r\n\r\n{\"prompt\":\"hi\"}", 200, "/tokens/1"),
    ] {
        client.send(request);
        let (head, body) = client.whole();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert!(value.pointer(key).is_some(), "{request}: {value}");
    }
    client.send("GET /health HTTP/1.1\r\n\r\n");
    assert_eq!(client.whole().1, b"");
    client.send("nonsense\r\n\r\n");
    assert!(client.whole().0.starts_with("HTTP/1.1 400 "));
    assert_eq!(client.rest().unwrap(), b"", "and the connection ends");
}

#[test]
fn request_bodies_come_in_every_form() {
    let server = spawn(Service::Fixed(untimed(1))).unwrap();
    let mut client = Client::connect(server.addr);

    client.send("POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 100 Continue"));
    client.send("{}");
    assert!(client.whole().0.starts_with("HTTP/1.1 200 "));

    client.send(
        "POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    );
    assert!(client.whole().0.starts_with("HTTP/1.1 200 "));

    let large = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(8 << 20));
    client.send(&completions(&large, ""));
    let answer: Value = serde_json::from_slice(&client.whole().1).unwrap();
    assert_eq!(answer["usage"]["prompt_tokens"], 8 << 20);
}

#[test]
fn an_untimed_answer_larger_than_the_socket_arrives_whole() {
    let server = spawn(Service::Fixed(untimed(60_000))).unwrap();
    let mut client = Client::connect(server.addr);
    client.send(&completions(STREAM, ""));
    client.head();
    let mut text = Vec::new();
    while let Some(chunk) = client.chunk() {
        text.extend(chunk);
    }
    assert_eq!(crate::client::events(&text).len(), 60_002);
    let truth = server.stop().unwrap();
    assert_eq!((truth.chunks, truth.itl_ms.n, truth.requests.finished), (60_000, 59_999, 1));
}

#[test]
fn faults_reach_the_wire() {
    let server = spawn(Service::Fixed(config())).unwrap();
    let answer = |fault: &str| {
        let mut client = Client::connect(server.addr);
        client.send(&completions(STREAM, fault));
        client.rest()
    };
    let text = |fault: &str| String::from_utf8(answer(&format!("{fault},close_after=5")).unwrap()).unwrap();

    assert!(text("crlf").contains("}\r\n\r\n\r\n"), "a blank line of CR LF inside the chunk");
    assert!(text("comments").contains(": ping\n\ndata: {"));
    assert!(text("event_lines").contains("event: message\ndata: {"));
    assert!(text("no_space").contains("data:{"));
    assert!(answer("close_after=2").unwrap().ends_with(b"\r\n0\r\n\r\n"));
    let cut = answer("cut_after=2").unwrap();
    assert!(!cut.ends_with(b"0\r\n\r\n") && cut.ends_with(b"}\n\n\r\n"));
    let (part, error) = answer("reset_after=2").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(String::from_utf8(part).unwrap().matches("data: ").count(), 2, "what was sent still arrives");
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.arrived, truth.requests.finished), (7, 7));
}

#[test]
fn refusals_keep_the_connection() {
    let config = FixedConfig { faults: parse_rules("status=503").unwrap(), ..config() };
    let server = spawn(Service::Fixed(config)).unwrap();
    let mut client = Client::connect(server.addr);
    for fault in ["", "status=429"] {
        client.send(&completions(STREAM, fault));
        let (head, _) = client.whole();
        assert!(head.contains(if fault.is_empty() { " 503 " } else { " 429 " }), "{head}");
        assert!(head.contains("retry-after: 1\r\n"));
    }
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.finished, truth.tokens, truth.ttft_ms.n), (2, 0, 0));
}

#[test]
fn a_silent_answer_ends_with_its_client() {
    let server = spawn(Service::Fixed(config())).unwrap();
    for fault in ["hang", "hang_after=1"] {
        let mut client = Client::connect(server.addr);
        client.send(&completions(STREAM, fault));
        if fault == "hang_after=1" {
            client.head();
            client.chunk();
        }
    }
    // Their clients are gone; the server notices in its own time.
    let truth = crate::client::eventually(|| server.truth().unwrap(), |t| t.requests.disconnected == 2);
    assert_eq!((truth.requests.arrived, truth.requests.in_flight), (2, 0));
}

/// One slot, held by a silent answer until its client leaves; then the waiting requests are served one by one.
#[test]
fn slots_make_a_queue() {
    let config = FixedConfig { slots: NonZeroUsize::new(1), ..config() };
    let server = spawn(Service::Fixed(config)).unwrap();
    let send = |fault: &str, arrived: u64| {
        let mut client = Client::connect(server.addr);
        client.send(&completions(r#"{"stream":true}"#, fault));
        crate::client::eventually(|| server.truth().unwrap(), |t| t.requests.arrived == arrived);
        client
    };
    let hung = send("hang", 1);
    let mut waiting = [send("", 2), send("", 3)];
    let begun = Instant::now();
    drop(hung);
    for (client, earlier) in waiting.iter_mut().zip([0, 12]) {
        client.head();
        client.chunk();
        // The first waits for its own 4 ms, the second also for the whole answer before it: 4 + 4 x 2 ms.
        assert!(begun.elapsed() >= Duration::from_millis(earlier + 4), "{:?}", begun.elapsed());
        while client.chunk().is_some() {}
    }
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.finished, truth.requests.disconnected), (2, 1));
    assert_eq!(truth.requests.waiting_peak, 2);
    assert!(truth.ttft_due_ms.max >= 16.0, "the wait is part of it: {:?}", truth.ttft_due_ms);
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_truth_file_joins_to_the_client() {
    let file = Shared::default();
    let setup = Setup { service: Service::Fixed(config()), truth_file: Some(Box::new(file.clone())) };
    let server = spawn(setup).unwrap();
    let unix =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let before = unix();
    let mut client = Client::connect(server.addr);
    client.send(&body("x-request-id: r-1\r\n", "/v1/completions", STREAM));
    client.head();
    while client.chunk().is_some() {}
    let after = unix();
    server.stop().unwrap();
    let line: Value = serde_json::from_slice(&file.0.lock().unwrap()).unwrap();
    assert_eq!(
        (&line["request_id"], &line["fate"], &line["tokens"]),
        (&json!("r-1"), &json!("finished"), &json!(5))
    );
    let stamps: Vec<u64> =
        ["arrived_unix_ns", "first_unix_ns", "last_unix_ns"].map(|k| line[k].as_u64().unwrap()).into();
    assert!(
        before <= stamps[0] && stamps[0] + 4_000_000 <= stamps[1] && stamps[2] <= after,
        "{before} {stamps:?} {after}"
    );
    assert_eq!(line["due_ns"], json!([4_000_000, 6_000_000, 8_000_000, 10_000_000, 12_000_000]));
    for (due, written) in
        line["due_ns"].as_array().unwrap().iter().zip(line["written_ns"].as_array().unwrap())
    {
        assert!(due.as_u64() <= written.as_u64());
    }
}

#[test]
fn a_thousand_streams_at_once() {
    let server = spawn(Service::Fixed(FixedConfig { ttft: Nanos::from_millis(100), ..config() })).unwrap();
    let mut clients: Vec<Client> = (0..1_000).map(|_| Client::connect(server.addr)).collect();
    for client in &mut clients {
        client.send(&completions(r#"{"stream":true}"#, ""));
    }
    for client in &mut clients {
        client.head();
        assert_eq!(std::iter::from_fn(|| client.chunk()).count(), 5);
    }
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.finished, truth.chunks, truth.connections.peak), (1_000, 5_000, 1_000));
}
