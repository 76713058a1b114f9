//! The real client over TLS: whom it trusts, that nothing is lost on the way, and how sessions may end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certs;
mod harness;
mod raw;

use certs::identity;
use goodput_core::outcome::{ConnectFault, Outcome};
use goodput_core::timeline::ChunkFlags;
use goodput_net::connection::TlsSettings;
use goodput_net::receive::Finished;
use goodput_net::target::Target;
use harness::{Point, run};
use raw::{EVENTS, answer, read_request};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use tempfile::NamedTempFile;

type Session = StreamOwned<ServerConnection, TcpStream>;

/// A TLS server that answers each request by `reply`, until that says the connection is done.
fn spawn(
    config: Arc<ServerConfig>,
    reply: impl Fn(&mut Session, &str) -> bool + Clone + Send + 'static,
) -> String {
    let port = raw::spawn(move |tcp, _| {
        let mut session = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), tcp);
        while let Some(request) = read_request(&mut session) {
            if !reply(&mut session, &request) {
                return;
            }
        }
    });
    format!("https://127.0.0.1:{port}")
}

fn trusting(root: &NamedTempFile) -> TlsSettings {
    TlsSettings { ca_file: Some(root.path().to_owned()), insecure: false }
}

fn say(session: &mut Session, bytes: &[u8]) {
    session.write_all(bytes).unwrap();
    session.flush().unwrap();
}

/// Streams `text` in events of one word, each its own HTTP chunk and its own record.
fn stream(session: &mut Session, text: &str) {
    say(session, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    let words = text.split_inclusive(' ').count();
    let events = text.split_inclusive(' ').map(|word| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}}}}]}}\n\n")
    });
    let usage = format!("\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{words}}}");
    let finish = "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]";
    let end = format!("data: {{{finish},{usage}}}\n\ndata: [DONE]\n\n");
    for event in events.chain([end]) {
        say(session, format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    say(session, b"0\r\n\r\n");
}

fn outcomes(records: &[Finished]) -> Vec<&Outcome> {
    records.iter().map(|r| &r.timeline.outcome).collect()
}

#[test]
fn streams_over_a_trusted_session_are_whole_and_stamped() {
    let (config, root) = identity("127.0.0.1", &[b"http/1.1"]);
    let url = spawn(config, |session, _| {
        stream(session, "one two three four");
        true
    });
    let (records, facts) = run(Point { tls: trusting(&root), ..Point::closed(url, 12, 3) });
    assert_eq!(records.len(), 12);
    for record in &records {
        let timeline = &record.timeline;
        assert_eq!(timeline.outcome, Outcome::Ok);
        assert_eq!((timeline.output.unwrap().count, timeline.token_chunks().count()), (4, 4));
        assert_eq!(record.texts[0].text, "one two three four");
        assert_eq!(timeline.instants.connect_start, None, "sessions were ready");
    }
    assert_eq!((facts.warm_connections, facts.release.reused), (3, 12));
    assert!(records.iter().any(|r| r.timeline.connection.uses_before > 0), "sessions are kept alive");
    if cfg!(target_os = "linux") {
        let chunks = || records.iter().flat_map(|r| &r.timeline.chunks);
        let stamped = chunks().filter(|c| c.flags.has(ChunkFlags::KERNEL_STAMP)).count();
        // The very first packets may come before the kernel has switched stamping on.
        assert!(stamped * 10 >= chunks().count() * 9, "{stamped} of {}", chunks().count());
    }
}

#[test]
fn a_large_answer_comes_through_unharmed() {
    const EVENTS_OF_A_LARGE_ANSWER: usize = 400;
    let word: String = ('a'..='z').cycle().take(16_001).collect();
    let text = vec![word; EVENTS_OF_A_LARGE_ANSWER].join(" ");
    let (config, root) = identity("127.0.0.1", &[]);
    let sent = text.clone();
    let url = spawn(config, move |session, _| {
        stream(session, &sent);
        true
    });
    let (records, _) = run(Point { tls: trusting(&root), ..Point::closed(url, 2, 1) });
    for record in &records {
        assert_eq!(record.timeline.outcome, Outcome::Ok);
        assert_eq!(record.timeline.token_chunks().count(), EVENTS_OF_A_LARGE_ANSWER);
        assert!(record.timeline.response_bytes > 6_000_000);
        assert!(record.texts[0].text == text, "every byte in its place");
    }
}

#[test]
fn a_large_request_goes_out_whole() {
    let (config, root) = identity("127.0.0.1", &[]);
    let url = spawn(config, |session, request| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let whole = body.matches('x').count() >= 5_000_000 && body.ends_with('}');
        say(session, answer(if whole { EVENTS } else { "data: {\"error\":\"cut\"}\n\n" }).as_bytes());
        true
    });
    let point = Point { padding: 5_000_000, tls: trusting(&root), ..Point::closed(url, 2, 1) };
    assert_eq!(outcomes(&run(point).0), [&Outcome::Ok; 2]);
}

#[test]
fn who_is_not_trusted_is_told_in_the_outcome() {
    let (config, _) = identity("127.0.0.1", &[]);
    let (other_config, other_root) = identity("example.org", &[]);
    let cases = [
        (config.clone(), TlsSettings::default(), "UnknownIssuer"),
        (config.clone(), trusting(&other_root), "UnknownIssuer"),
        (other_config.clone(), trusting(&other_root), "not valid for name"),
    ];
    for (config, tls, words) in cases {
        let url = spawn(config, |_, _| false);
        for connections in [0, 2] {
            let point = Point { tls: tls.clone(), connections, ..Point::closed(&url, 2, 2) };
            let (records, facts) = run(point);
            for record in &records {
                let Outcome::Connect { fault: ConnectFault::Tls, message } = &record.timeline.outcome else {
                    panic!("{words}: {:?}", record.timeline.outcome);
                };
                assert!(message.contains(words), "{message}");
                assert_eq!(record.timeline.instants.sent, None);
            }
            assert_eq!(records.len(), 2);
            assert_eq!(facts.opening_failure.is_some_and(|why| why.contains(words)), connections > 0);
        }
    }
    for config in [config, other_config] {
        let url = spawn(config, |session, _| {
            say(session, answer(EVENTS).as_bytes());
            true
        });
        let tls = TlsSettings { ca_file: None, insecure: true };
        assert_eq!(outcomes(&run(Point { tls, ..Point::closed(url, 2, 2) }).0), [&Outcome::Ok; 2]);
    }
}

#[test]
fn a_file_without_certificates_says_so() {
    let (config, _) = identity("127.0.0.1", &[]);
    let url = spawn(config, |_, _| false);
    let mut empty = NamedTempFile::new().unwrap();
    let error = |file: &NamedTempFile| Target::resolve(&url, &trusting(file), false).unwrap_err().to_string();
    assert!(error(&empty).contains("holds no certificate"));
    empty.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(error(&empty).contains("cannot be used"), "{}", error(&empty));
    let gone = TlsSettings { ca_file: Some("/nowhere/ca.pem".into()), insecure: false };
    let error = Target::resolve(&url, &gone, false).unwrap_err().to_string();
    assert!(error.contains("/nowhere/ca.pem"), "{error}");
}

/// Begins an answer and stops after its first token.
fn begin(session: &mut Session) {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
    say(session, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    say(session, format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
}

#[test]
fn a_session_that_ends_in_mid_stream_is_no_success() {
    // With a proper goodbye, without one, and with bytes after it, which nobody may read any more.
    let endings: [fn(&mut Session); 3] = [
        |session| {
            session.conn.send_close_notify();
            session.flush().unwrap();
        },
        |_| {},
        |session| {
            session.conn.send_close_notify();
            let mut last = Vec::new();
            while session.conn.wants_write() {
                session.conn.write_tls(&mut last).unwrap();
            }
            last.resize(last.len() + 30_000, 7);
            session.sock.write_all(&last).unwrap();
        },
    ];
    for (number, ending) in endings.into_iter().enumerate() {
        let (config, root) = identity("127.0.0.1", &[]);
        let url = spawn(config, move |session, _| {
            begin(session);
            ending(session);
            false
        });
        let (records, _) = run(Point { tls: trusting(&root), ..Point::closed(url, 3, 1) });
        assert_eq!(outcomes(&records), [&Outcome::Truncated { inside_body: true }; 3], "ending {number}");
        assert!(records.iter().all(|r| r.timeline.token_chunks().count() == 1), "what came is kept");
    }
}

#[test]
fn a_session_that_dies_between_requests_is_opened_again() {
    let (config, root) = identity("127.0.0.1", &[]);
    let url = spawn(config, |session, _| {
        say(session, answer(EVENTS).as_bytes());
        false
    });
    let (records, _) = run(Point { tls: trusting(&root), ..Point::closed(url, 3, 1) });
    assert_eq!(outcomes(&records), [&Outcome::Ok; 3]);
    // Each session answers one request and is gone: every later request starts on a dead one.
    let retries: Vec<u32> = records.iter().map(|r| r.timeline.connection.stale_retries).collect();
    assert_eq!(retries, [0, 1, 1]);
}

#[test]
fn a_session_that_dies_before_its_first_use_is_opened_again() {
    let (config, root) = identity("127.0.0.1", &[]);
    let port = raw::spawn(move |tcp, number| {
        let mut session = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), tcp);
        session.conn.complete_io(&mut session.sock).unwrap();
        if number > 0 {
            read_request(&mut session).unwrap();
            say(&mut session, answer(EVENTS).as_bytes());
        }
    });
    let url = format!("https://127.0.0.1:{port}");
    let (records, facts) =
        run(Point { tls: trusting(&root), arrivals_ms: vec![200], ..Point::closed(url, 1, 1) });
    assert_eq!((facts.warm_connections, facts.release.reused), (1, 1));
    assert_eq!(outcomes(&records), [&Outcome::Ok]);
    assert_eq!(records[0].timeline.connection.stale_retries, 1);
}

#[test]
fn a_server_that_has_gone_refuses_also_over_tls() {
    let (config, root) = identity("127.0.0.1", &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    // It takes the probe and one session, and nobody is there for the second request.
    std::thread::spawn(move || {
        let (_probe, _) = listener.accept().unwrap();
        let (tcp, _) = listener.accept().unwrap();
        drop(listener);
        let mut session = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
        read_request(&mut session).unwrap();
        let last = answer(EVENTS).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        say(&mut session, last.as_bytes());
    });
    let (records, _) = run(Point { tls: trusting(&root), ..Point::closed(url, 2, 1) });
    assert_eq!(records[0].timeline.outcome, Outcome::Ok);
    let outcome = &records[1].timeline.outcome;
    assert!(matches!(outcome, Outcome::Connect { fault: ConnectFault::Refused, .. }), "{outcome:?}");
}

#[test]
fn a_server_without_tls_is_a_tls_fault() {
    let port = raw::spawn(|mut tcp, _| {
        let mut hello = [0; 64];
        drop(std::io::Read::read(&mut tcp, &mut hello));
        drop(tcp.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"));
    });
    let (records, _) =
        run(Point { connections: 0, ..Point::closed(format!("https://127.0.0.1:{port}"), 1, 1) });
    let outcome = &records[0].timeline.outcome;
    assert!(matches!(outcome, Outcome::Connect { fault: ConnectFault::Tls, .. }), "{outcome:?}");
}
