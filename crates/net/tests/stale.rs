//! When a request may be sent again, and when not: connections that die at chosen moments.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod raw;

use goodput_core::outcome::Outcome;
use goodput_core::plan::Timeouts;
use goodput_core::time::Nanos;
use goodput_core::tokens::TokenSource;
use harness::{Point, run};
use raw::{EVENTS, answer, read_request};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a server holds a request before it drops the connection: a lower bound that shows in the record.
const HELD: Duration = Duration::from_millis(60);

/// A server whose connection number `k` answers `plan[k]` requests, then takes one more, says `last_words` to it and
/// closes. Connections beyond the plan answer for ever. Returns the URL and the number of requests seen.
fn mortal(plan: &'static [usize], last_words: &'static str) -> (String, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let port = raw::spawn(move |mut stream, number| {
        let mut left = plan.get(number).copied().unwrap_or(usize::MAX);
        while read_request(&mut stream).is_some() {
            counter.fetch_add(1, Ordering::Relaxed);
            if left == 0 {
                std::thread::sleep(HELD);
                drop(stream.write_all(last_words.as_bytes()));
                return;
            }
            left -= 1;
            stream.write_all(answer(EVENTS).as_bytes()).unwrap();
        }
    });
    (format!("http://127.0.0.1:{port}"), seen)
}

#[test]
fn a_reused_connection_that_dies_unanswered_is_tried_once_more() {
    let (url, seen) = mortal(&[1], "");
    let (records, facts) = run(Point::closed(url, 3, 1));
    let timelines: Vec<_> = records.iter().map(|r| &r.timeline).collect();
    assert!(timelines.iter().all(|t| t.outcome == Outcome::Ok));
    assert_eq!(timelines.iter().map(|t| t.connection.stale_retries).collect::<Vec<_>>(), [0, 1, 0]);
    let first = timelines[1].token_chunks().next().unwrap().at;
    assert!(
        first.since(timelines[1].instants.sent.unwrap()) >= Nanos(HELD.as_nanos() as u64),
        "the time of the first attempt is kept"
    );
    assert_ne!(timelines[1].connection.id, timelines[0].connection.id);
    assert_eq!(timelines[1].connection.uses_before, 0, "the answer came over a new connection");
    assert_eq!(timelines[2].connection.id, timelines[1].connection.id);
    assert_eq!(timelines[2].connection.uses_before, 1);
    assert_eq!(facts.release.opened, 0, "every request left on a connection that looked alive");
    assert_eq!(seen.load(Ordering::Relaxed), 4);
}

#[test]
fn a_request_is_not_sent_a_third_time() {
    let (url, seen) = mortal(&[1, 0], "");
    let (records, _) = run(Point::closed(url, 2, 1));
    let last = &records[1].timeline;
    assert_eq!((&last.outcome, last.connection.stale_retries), (&Outcome::Reset, 1));
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[test]
fn a_new_connection_that_dies_unanswered_is_a_failure() {
    let (url, seen) = mortal(&[0], "");
    let (records, _) = run(Point { connections: 0, ..Point::closed(url, 1, 1) });
    let timeline = &records[0].timeline;
    assert_eq!((&timeline.outcome, timeline.connection.stale_retries), (&Outcome::Reset, 0));
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn after_one_byte_of_an_answer_a_request_is_never_sent_again() {
    let cut = EVENTS.split_once("data: [DONE]").unwrap().0.split_once("data: {\"choices\":[],").unwrap().0;
    let cut = cut.replace("\"stop\"", "null");
    let truncated = Outcome::Truncated { inside_body: false };
    for (last_words, outcome, tokens) in [
        ("H".to_owned(), Outcome::Reset, 0),
        ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), truncated.clone(), 0),
        (format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{cut}"), truncated, 1),
    ] {
        let (url, seen) = mortal(&[1], last_words.clone().leak());
        let (records, _) = run(Point::closed(url, 2, 1));
        let last = &records[1].timeline;
        assert_eq!((&last.outcome, last.connection.stale_retries), (&outcome, 0), "{last_words:?}");
        assert_eq!(last.token_chunks().count(), tokens, "what came is kept");
        assert_eq!(seen.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_refused_usage_option_survives_the_close_of_its_connection() {
    let refusal = "{\"error\":{\"message\":\"stream_options is not supported\"}}";
    let port = raw::spawn(move |mut stream, _| {
        while let Some(request) = read_request(&mut stream) {
            if !request.contains("stream_options") {
                stream.write_all(answer(EVENTS).as_bytes()).unwrap();
                continue;
            }
            let head = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\n";
            let length = refusal.len();
            return stream
                .write_all(format!("{head}content-length: {length}\r\n\r\n{refusal}").as_bytes())
                .unwrap();
        }
    });
    let timeouts = Timeouts { total: Some(Nanos::from_secs(10)), ..Timeouts::default() };
    let url = format!("http://127.0.0.1:{port}");
    let (records, facts) = run(Point { timeouts, ..Point::closed(url, 20, 10) });
    assert!(facts.usage_refused);
    for record in &records {
        assert_eq!(record.timeline.outcome, Outcome::Ok, "{:?}", record.timeline.notes);
        assert_eq!(record.timeline.output.unwrap().source, TokenSource::Server);
        assert_eq!(record.timeline.connection.stale_retries, 0);
    }
}
