//! The real client over HTTP/2, in clear text and over TLS, against a small server on the `h2` crate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certs;
mod harness;

use bytes::Bytes;
use certs::identity;
use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::plan::{HttpVersion, Timeouts};
use goodput_core::time::Nanos;
use goodput_core::timeline::ChunkFlags;
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_net::connection::TlsSettings;
use goodput_net::receive::Finished;
use goodput_net::run::Record;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use harness::{Point, run, run_with};
use http::{Request, Response};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// Time between the tokens of an answer.
const PACE: Duration = Duration::from_millis(10);

/// What the server does with a stream.
#[derive(Clone, Copy)]
enum Manner {
    /// Four tokens, their usage, the end.
    Answer,
    /// One token, then RST_STREAM.
    Reset,
    /// One token, then silence.
    Stall,
    /// One token, then the whole connection is gone; every later connection answers.
    Vanish,
    /// An error while usage is asked for.
    RefuseUsage,
    /// A status and its reason.
    Busy,
}

#[derive(Clone)]
struct Server {
    manner: Manner,
    most_streams: Option<u32>,
    tls: Option<Arc<rustls::ServerConfig>>,
    seen: Arc<Seen>,
}

/// What the server saw.
#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<http::request::Parts>>,
    body_bytes: AtomicUsize,
    connections: AtomicUsize,
    streams: AtomicUsize,
    streams_peak: AtomicUsize,
}

impl Server {
    fn new(manner: Manner) -> Self {
        Self { manner, most_streams: None, tls: None, seen: Arc::default() }
    }

    /// Serves on an ephemeral port until the test ends.
    fn spawn(&self) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let server = self.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, server.accept(listener));
        });
        url
    }

    async fn accept(self, listener: std::net::TcpListener) {
        let listener = TcpListener::from_std(listener).unwrap();
        // The first connection only asks whether somebody listens.
        let (_probe, _) = listener.accept().await.unwrap();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let server = self.clone();
            spawn_local(async move {
                match server.tls.clone() {
                    None => server.serve(tcp).await,
                    Some(config) => {
                        let accepted = tokio_rustls::TlsAcceptor::from(config).accept(tcp).await;
                        if let Ok(stream) = accepted {
                            server.serve(stream).await;
                        }
                    }
                }
            });
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let number = self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let mut builder = h2::server::Builder::new();
        if let Some(most) = self.most_streams {
            builder.max_concurrent_streams(most);
        }
        let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
        let vanish = Rc::new(Notify::new());
        loop {
            tokio::select! {
                request = connection.accept() => {
                    let Some(Ok((request, respond))) = request else { return };
                    let server = self.clone();
                    let vanish = vanish.clone();
                    spawn_local(async move {
                        server.stream(request, respond, number, &vanish).await;
                    });
                }
                () = vanish.notified() => return,
            }
        }
    }

    async fn stream(
        self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        connection: usize,
        vanish: &Notify,
    ) -> Option<()> {
        let now = self.seen.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.seen.streams_peak.fetch_max(now, Ordering::Relaxed);
        let (head, body) = request.into_parts();
        self.seen.heads.lock().unwrap().push(head);
        let asks_usage = self.read(body).await?;
        let manner = match self.manner {
            Manner::Vanish if connection > 0 => Manner::Answer,
            Manner::RefuseUsage if !asks_usage => Manner::Answer,
            manner => manner,
        };
        match manner {
            Manner::Busy => refuse(&mut respond, 503, "{\"error\":{\"message\":\"no room\"}}"),
            Manner::RefuseUsage => {
                refuse(&mut respond, 400, "{\"error\":{\"message\":\"stream_options is not supported\"}}")
            }
            _ => {
                let response = Response::builder().header("content-type", "text/event-stream");
                let mut answer = respond.send_response(response.body(()).unwrap(), false).ok()?;
                let tokens = if matches!(manner, Manner::Answer) { 4 } else { 1 };
                for _ in 0..tokens {
                    sleep(PACE).await;
                    say(
                        &mut answer,
                        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n",
                    )?;
                }
                // The last token must be out before anything else happens to the stream.
                sleep(PACE).await;
                match manner {
                    Manner::Reset => answer.send_reset(Reason::INTERNAL_ERROR),
                    Manner::Stall => sleep(Duration::from_secs(30)).await,
                    Manner::Vanish => vanish.notify_one(),
                    _ => finish(&mut answer)?,
                }
            }
        }
        self.seen.streams.fetch_sub(1, Ordering::Relaxed);
        Some(())
    }

    /// Reads the body to its end. Whether it asks for usage is the result.
    async fn read(&self, mut body: RecvStream) -> Option<bool> {
        let mut asks_usage = false;
        while let Some(data) = body.data().await {
            let data = data.ok()?;
            asks_usage |= String::from_utf8_lossy(&data).contains("stream_options");
            self.seen.body_bytes.fetch_add(data.len(), Ordering::Relaxed);
            body.flow_control().release_capacity(data.len()).ok()?;
        }
        Some(asks_usage)
    }

    fn seen(&self, count: &AtomicUsize) -> usize {
        count.load(Ordering::Relaxed)
    }
}

fn say(answer: &mut SendStream<Bytes>, text: &'static str) -> Option<()> {
    answer.send_data(Bytes::from_static(text.as_bytes()), false).ok()
}

fn finish(answer: &mut SendStream<Bytes>) -> Option<()> {
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\
        \"usage\":{\"prompt_tokens\":1,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n";
    answer.send_data(Bytes::from_static(end.as_bytes()), true).ok()
}

fn refuse(respond: &mut SendResponse<Bytes>, status: u16, body: &'static str) {
    let response = Response::builder().status(status).header("retry-after", "7").body(()).unwrap();
    let mut answer = respond.send_response(response, false).unwrap();
    answer.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
}

fn point(url: &str, requests: u64, slots: u32) -> Point {
    Point { http: HttpVersion::Http2, ..Point::closed(url, requests, slots) }
}

fn assert_whole(record: &Finished) {
    let timeline = &record.timeline;
    assert_eq!(timeline.outcome, Outcome::Ok, "{:?}", timeline.notes);
    assert_eq!(timeline.output, Some(TokenCount { count: 4, source: TokenSource::Server }));
    assert_eq!((timeline.token_chunks().count(), record.texts[0].text.as_str()), (4, "xxxx"));
    let sent = timeline.instants.sent.unwrap();
    for (chunk, number) in timeline.token_chunks().zip(1..) {
        let due = Nanos(PACE.as_nanos() as u64 * number);
        assert!(chunk.at.since(sent) >= due, "no token before it is due");
    }
    assert!(
        timeline.chunks.iter().all(|c| !c.flags.has(ChunkFlags::KERNEL_STAMP)),
        "the kernel's stamps belong to no stream"
    );
}

fn outcomes(records: &[Finished]) -> Vec<&Outcome> {
    records.iter().map(|r| &r.timeline.outcome).collect()
}

#[test]
fn twenty_streams_at_once_share_one_connection() {
    let server = Server::new(Manner::Answer);
    let headers = vec![("authorization".to_owned(), "Bearer k".to_owned())];
    let (records, facts) = run(Point { headers, ..point(&server.spawn(), 40, 20) });
    assert_eq!(records.len(), 40);
    records.iter().for_each(assert_whole);
    assert_eq!(server.seen(&server.seen.connections), 1);
    assert_eq!(server.seen(&server.seen.streams_peak), 20);
    assert!(facts.receive.reads >= 160 && facts.receive.stamped_reads == 0);
    let opened = |r: &&Finished| r.timeline.instants.connect_start.is_some();
    assert_eq!(records.iter().filter(opened).count(), 1, "one request opened it for all");
    let mut uses: Vec<u32> = records.iter().map(|r| r.timeline.connection.uses_before).collect();
    uses.sort_unstable();
    assert_eq!(uses, (0..40).collect::<Vec<u32>>());
    let heads = server.seen.heads.lock().unwrap();
    let mut ids: Vec<&str> = heads.iter().map(|h| h.headers["x-request-id"].to_str().unwrap()).collect();
    ids.sort_unstable();
    let mut expected: Vec<String> = (0..40).map(|n| format!("r{n}")).collect();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    for head in heads.iter() {
        assert_eq!((head.method.as_str(), head.uri.path()), ("POST", "/v1/chat/completions"));
        assert_eq!(head.headers["authorization"], "Bearer k");
        assert_eq!(head.headers["content-type"], "application/json");
    }
}

#[test]
fn over_tls_the_server_must_choose_http2() {
    let (config, root) = identity("127.0.0.1", &[b"h2", b"http/1.1"]);
    let server = Server { tls: Some(config), ..Server::new(Manner::Answer) };
    let tls = TlsSettings { ca_file: Some(root.path().to_owned()), insecure: false };
    let (records, _) = run(Point { tls: tls.clone(), ..point(&server.spawn(), 20, 20) });
    assert_eq!(records.len(), 20);
    records.iter().for_each(assert_whole);

    let untrusting = run(point(&server.spawn(), 2, 2)).0;
    // A server that knows no ALPN, and one that refuses what we offer.
    for protocols in [&[][..], &[&b"http/1.1"[..]][..]] {
        let (config, root) = identity("127.0.0.1", protocols);
        let server = Server { tls: Some(config), ..Server::new(Manner::Answer) };
        let tls = TlsSettings { ca_file: Some(root.path().to_owned()), insecure: false };
        let (records, _) = run(Point { tls, ..point(&server.spawn(), 2, 2) });
        for record in records.iter().chain(&untrusting) {
            let outcome = &record.timeline.outcome;
            assert!(matches!(outcome, Outcome::Connect { fault: ConnectFault::Tls, .. }), "{outcome:?}");
            assert_eq!(record.timeline.instants.sent, None);
        }
    }
}

#[test]
fn waiting_for_a_stream_comes_before_sending() {
    let server = Server { most_streams: Some(3), ..Server::new(Manner::Answer) };
    let (records, _) = run(point(&server.spawn(), 9, 9));
    records.iter().for_each(assert_whole);
    assert!(server.seen(&server.seen.streams_peak) <= 3);
    let note = "waited for a stream: the server allows 3 at once";
    let waited = |r: &&Finished| r.timeline.notes.iter().any(|n| n == note);
    assert!((1..=6).contains(&records.iter().filter(waited).count()));
    // An answer takes five paces, and every request can go out only after the third one before it is over.
    let sent: Vec<Nanos> = records.iter().map(|r| r.timeline.instants.sent.unwrap()).collect();
    assert!(sent.is_sorted(), "first come, first served");
    for pair in sent.windows(4) {
        assert!(pair[3].since(pair[0]) >= Nanos(PACE.as_nanos() as u64 * 5));
    }
}

#[test]
fn a_body_larger_than_the_windows_arrives_whole() {
    let server = Server::new(Manner::Answer);
    let (records, _) = run(Point { padding: 1_000_000, ..point(&server.spawn(), 2, 2) });
    records.iter().for_each(assert_whole);
    let sent: u64 = records.iter().map(|r| r.timeline.request_bytes).sum();
    assert_eq!(server.seen(&server.seen.body_bytes) as u64, sent);
}

#[test]
fn failures_have_their_outcomes() {
    let none = Timeouts::default();
    let limit = Some(Nanos::from_millis(500));
    let cases = [
        (Manner::Reset, none, Outcome::Reset),
        (Manner::Stall, Timeouts { total: limit, ..none }, Outcome::Timeout { phase: TimeoutPhase::Total }),
        (Manner::Stall, Timeouts { idle: limit, ..none }, Outcome::Timeout { phase: TimeoutPhase::Idle }),
    ];
    for (manner, timeouts, outcome) in cases {
        let server = Server::new(manner);
        let (records, _) = run(Point { timeouts, ..point(&server.spawn(), 4, 4) });
        assert_eq!(outcomes(&records), [&outcome; 4]);
        for record in &records {
            let timeline = &record.timeline;
            assert_eq!(timeline.token_chunks().count(), 1, "what came is kept");
            let over = timeline.instants.closed.unwrap().since(timeline.instants.released);
            assert!(!matches!(outcome, Outcome::Timeout { .. }) || over >= Nanos::from_millis(500));
        }
        assert_eq!(server.seen(&server.seen.connections), 1, "a failed stream does not cost the connection");
    }
    let (records, _) = run(point(&Server::new(Manner::Busy).spawn(), 2, 1));
    assert_eq!(outcomes(&records), [&Outcome::HttpError { status: 503, message: "no room".into() }; 2]);
    assert!(records[0].timeline.notes.iter().any(|n| n.contains("retry after 7")));
}

#[test]
fn a_broken_connection_is_opened_again() {
    let server = Server::new(Manner::Vanish);
    let (records, _) = run(point(&server.spawn(), 4, 1));
    assert_eq!(records[0].timeline.outcome, Outcome::Reset);
    assert_eq!(records[0].timeline.token_chunks().count(), 1);
    records[1..].iter().for_each(assert_whole);
    assert_eq!(server.seen(&server.seen.connections), 2);
    assert!(records[1].timeline.instants.connect_start.is_some());
    assert_ne!(records[1].timeline.connection.id, records[0].timeline.connection.id);
    assert_eq!(records[3].timeline.connection.uses_before, 2);
}

#[test]
fn a_server_that_refuses_the_usage_option_is_asked_without_it() {
    let server = Server::new(Manner::RefuseUsage);
    let (records, facts) = run(point(&server.spawn(), 6, 2));
    assert!(facts.usage_refused);
    records.iter().for_each(assert_whole);
    assert!(records[0].timeline.notes.iter().any(|n| n.contains("refuses to report usage")));
}

#[test]
fn an_interrupt_cancels_every_stream() {
    // The second interrupt ends the run without waiting; the records are there all the same.
    for interrupts in [1, 2] {
        let server = Server::new(Manner::Stall);
        let mut ticks = 0;
        let (records, facts) = run_with(point(&server.spawn(), 50, 5), move |handle, record| {
            let tick = matches!(record, Record::Tick);
            ticks += u32::from(tick);
            if tick && ticks == 8 {
                (0..interrupts).for_each(|_| handle.interrupt());
            }
            Ok(())
        });
        let cancelled = Outcome::Cancelled { cause: CancelCause::Interrupt };
        assert_eq!(outcomes(&records), [&cancelled; 5]);
        assert_eq!(facts.unwrap().progress.unwrap().cut_by, Some(CancelCause::Interrupt));
    }
}

#[test]
fn what_http2_forbids_is_an_outcome() {
    let server = Server::new(Manner::Answer);
    let headers = vec![("connection".to_owned(), "close".to_owned())];
    let (records, _) = run(Point { headers, ..point(&server.spawn(), 1, 1) });
    let outcome = &records[0].timeline.outcome;
    assert!(matches!(outcome, Outcome::Protocol { message } if message.starts_with("HTTP/2")), "{outcome:?}");
}
