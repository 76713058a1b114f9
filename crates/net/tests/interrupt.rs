//! Runs that are ended from outside: by the user, by a record that cannot be written, by a server that goes away, by
//! a fault of the client itself. Every request still has one outcome, and nothing hangs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod raw;

use goodput_core::outcome::{CancelCause, ConnectFault, Outcome};
use goodput_core::plan::HttpVersion;
use goodput_core::time::Nanos;
use goodput_drive::driver::RequestId;
use goodput_net::feed::{Prepared, RequestSource};
use goodput_net::receive::Finished;
use goodput_net::run::{Record, RunError};
use goodput_server::{FixedConfig, Running, Service, StopHandle, serve, spawn};
use harness::{HandMade, Point, run, run_from, run_with};
use raw::{EVENTS, answer, read_request};
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Barrier};

fn server(ttft_ms: u64, tokens: u32) -> (Running, String) {
    let (ttft, itl) = (Nanos::from_millis(ttft_ms), Nanos::from_millis(1));
    let server = spawn(Service::Fixed(FixedConfig { ttft, itl, tokens, ..FixedConfig::default() })).unwrap();
    let url = format!("http://{}", server.addr);
    (server, url)
}

fn outcomes(records: &[Finished]) -> Vec<&Outcome> {
    records.iter().map(|r| &r.timeline.outcome).collect()
}

/// A server that begins the answers to all requests but the last of `count`, and only then answers that one.
fn last_one_first(count: usize) -> String {
    let begun = Arc::new(Barrier::new(count));
    let last = format!("x-request-id: r{}\r\n", count - 1);
    let port = raw::spawn(move |mut stream, _| {
        while let Some(request) = read_request(&mut stream) {
            if request.contains(&last) {
                begun.wait();
                stream.write_all(answer(EVENTS).as_bytes()).unwrap();
            } else {
                let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                stream.write_all(format!("{head}{token}").as_bytes()).unwrap();
                begun.wait();
            }
        }
    });
    format!("http://127.0.0.1:{port}")
}

#[test]
fn an_interrupt_cancels_what_runs_and_keeps_what_came() {
    // The second interrupt ends the run without waiting; the records are there all the same.
    for interrupts in [1, 2] {
        let (records, facts) = run_with(Point::closed(last_one_first(4), 4, 4), move |handle, record| {
            if matches!(record, Record::Finished(f) if f.timeline.outcome.is_ok()) {
                (0..interrupts).for_each(|_| handle.interrupt());
            }
            Ok(())
        });
        let cancelled = Outcome::Cancelled { cause: CancelCause::Interrupt };
        assert_eq!(outcomes(&records), [&cancelled, &cancelled, &cancelled, &Outcome::Ok]);
        for record in &records {
            assert_eq!(record.timeline.token_chunks().count(), 1);
            assert_eq!(record.texts[0].text, "A");
        }
        let progress = facts.unwrap().progress.unwrap();
        assert_eq!((progress.released, progress.failed, progress.in_flight > 0), (4, 0, interrupts > 1));
        assert_eq!(progress.cut_by, Some(CancelCause::Interrupt));
    }
}

#[test]
fn an_interrupt_ends_offering() {
    let (_server, url) = server(5, 2);
    let (records, facts) = run_with(Point::closed(url, 1_000_000, 4), |handle, record| {
        if matches!(record, Record::Finished(f) if f.timeline.index == 20) {
            assert!(handle.progress().released > 20);
            handle.interrupt();
        }
        Ok(())
    });
    let progress = facts.unwrap().progress.unwrap();
    assert_eq!(records.len() as u64, progress.released, "every released request has its record");
    assert_eq!((progress.ended, progress.in_flight), (progress.released, 0));
    assert!(records.iter().all(|r| r.timeline.outcome.is_ok() || r.timeline.outcome.is_censored()));
    assert!((21..100_000).contains(&records.len()));
}

#[test]
fn a_record_that_cannot_be_written_ends_the_run() {
    for http in [HttpVersion::Http1, HttpVersion::Http2] {
        // The exact server speaks no HTTP/2: there each record is a failure, which must be written just as well.
        let (_server, url) = server(1, 2);
        let mut seen = 0;
        let (records, facts) =
            run_with(Point { http, ..Point::closed(url, 1_000_000, 8) }, move |_, record| match record {
                Record::Finished(_) if seen == 5 => Err("disk full".to_owned()),
                Record::Finished(_) => {
                    seen += 1;
                    Ok(())
                }
                Record::Tick => Ok(()),
            });
        assert!(matches!(&facts, Err(RunError::Sink(why)) if why == "disk full"));
        assert!(facts.unwrap_err().to_string().contains("cannot be written: disk full"));
        assert_eq!(records.len(), 5, "nothing is given to a sink that has failed");
    }
}

#[test]
fn a_server_that_disappears_leaves_no_request_without_an_outcome() {
    let (running, url) = server(5, 3);
    let mut running = Some(running);
    let (records, facts) = run_with(Point::closed(url, 60, 6), move |_, record| {
        if matches!(record, Record::Finished(f) if f.timeline.index >= 12)
            && let Some(server) = running.take()
        {
            server.stop().unwrap();
        }
        Ok(())
    });
    assert_eq!(records.len(), 60);
    assert_eq!(facts.unwrap().progress.unwrap().ended, 60);
    let answered = records.iter().filter(|r| r.timeline.outcome.is_ok()).count();
    assert!(answered >= 6, "{answered} were answered while the server lived");
    let refused = |o: &&Outcome| matches!(o, Outcome::Connect { fault: ConnectFault::Refused, .. });
    let cut = |o: &&Outcome| matches!(o, Outcome::Reset | Outcome::Truncated { .. });
    let outcomes = outcomes(&records);
    assert!(outcomes.iter().all(|o| o.is_ok() || refused(o) || cut(o)), "{outcomes:?}");
    assert!(refused(outcomes.last().unwrap()), "{outcomes:?}");
}

/// Whether building this request panics, asking for usage or not.
type Fault = fn(RequestId, bool) -> bool;

/// A source that panics over some requests.
struct Faulty {
    requests: HandMade,
    panics: Fault,
}

impl RequestSource for Faulty {
    fn build(&self, id: RequestId, ask_usage: bool) -> Prepared {
        assert!(!(self.panics)(id, ask_usage), "this panic is part of the test");
        self.requests.build(id, ask_usage)
    }
}

#[test]
fn a_client_thread_that_panics_ends_the_run() {
    // The receive thread builds requests that must do without usage; the feeder and the release thread all others.
    let cases: [(&str, Fault); 2] =
        [("receive", |_, ask_usage| !ask_usage), ("release", |id, _| id.index == 3)];
    for (thread, panics) in cases {
        let (_server, url) = server(1, 2);
        let headers = vec![("x-goodput-fault".to_owned(), "no_stream_options".to_owned())];
        let point = Point { headers, ..Point::closed(url, 10, 1) };
        let source = move |requests| Arc::new(Faulty { requests, panics }) as Arc<dyn RequestSource>;
        let (_, facts) = run_from(point, source, |_, _| Ok(()));
        assert!(matches!(&facts, Err(RunError::Thread(name)) if *name == thread), "{thread}: {facts:?}");
    }
}

#[test]
fn an_ipv6_address_is_a_server_like_any_other() {
    // A machine without IPv6 has nothing to test here.
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = StopHandle::default();
    let flag = stop.clone();
    let config = FixedConfig { tokens: 3, ..FixedConfig::default() };
    let server = std::thread::spawn(move || serve(listener, Service::Fixed(config), &flag));
    let (records, _) = run(Point::closed(url, 4, 2));
    assert_eq!(outcomes(&records), [&Outcome::Ok; 4]);
    stop.stop();
    assert_eq!(server.join().unwrap().unwrap().requests.finished, 4);
}

#[test]
fn three_hundred_slots_are_three_hundred_connections() {
    let (server, url) = server(200, 3);
    let (records, facts) = run(Point::closed(url, 900, 300));
    assert_eq!(records.len(), 900);
    assert!(records.iter().all(|r| r.timeline.outcome.is_ok()));
    assert_eq!((facts.warm_connections, facts.release.reused, facts.release.opened), (300, 900, 0));
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.finished, truth.requests.in_flight_peak), (900, 300));
    assert!(records.iter().map(|r| u64::from(r.timeline.connection.uses_before)).sum::<u64>() >= 600);
}
