//! The real client against the built-in exact server, over real sockets. Only facts that a busy machine cannot change
//! are checked: counts, bytes, outcomes, order, and lower bounds of times.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::{Protocol, Timeouts};
use goodput_core::time::Nanos;
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_server::{FixedConfig, Running, Service, spawn};
use harness::{Point, run};

fn with_fault(point: Point, fault: &str) -> Point {
    Point { headers: vec![("x-goodput-fault".into(), fault.into())], ..point }
}

fn server(tokens: u32) -> (Running, String) {
    let config = FixedConfig {
        ttft: Nanos::from_millis(10),
        itl: Nanos::from_millis(1),
        tokens,
        ..FixedConfig::default()
    };
    let running = spawn(Service::Fixed(config)).unwrap();
    let url = format!("http://{}", running.addr);
    (running, url)
}

#[test]
fn every_protocol_gives_whole_timelines() {
    let (server, url) = server(8);
    for protocol in Protocol::ALL {
        let (records, facts) = run(Point { protocol, ..Point::closed(&url, 12, 4) });
        assert_eq!(records.len(), 12);
        for record in &records {
            let t = &record.timeline;
            assert_eq!(t.outcome, Outcome::Ok, "{protocol:?}");
            assert_eq!(t.output, Some(TokenCount { count: 8, source: TokenSource::Server }));
            assert_eq!(t.token_chunks().map(|c| c.tokens).sum::<u32>(), 8);
            let first = t.token_chunks().next().unwrap().at;
            assert!(
                first.since(t.instants.sent.unwrap()) >= Nanos::from_millis(10),
                "never before it is due"
            );
            assert!(t.instants.scheduled.is_none(), "a closed loop has no schedule");
        }
        assert_eq!(facts.warm_connections, 4);
        assert_eq!(facts.release.opened, 0, "every request found a ready connection");
    }
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.arrived, truth.requests.finished), (36, 36));
    assert!(truth.requests.in_flight_peak <= 4);
}

#[test]
fn open_loop_releases_nothing_early_and_loses_nothing_under_a_cap() {
    let (server, url) = server(4);
    let arrivals_ms: Vec<u64> = (0..30).map(|i| i * 2).collect();
    let (records, facts) =
        run(Point { arrivals_ms: arrivals_ms.clone(), concurrency: Some(2), ..Point::closed(&url, 30, 2) });
    assert_eq!(records.len(), 30);
    for (record, ms) in records.iter().zip(arrivals_ms) {
        let i = &record.timeline.instants;
        assert_eq!(i.scheduled, Some(Nanos::from_millis(ms)));
        assert!(i.released >= Nanos::from_millis(ms) && i.sent >= Some(i.released));
    }
    assert_eq!(facts.progress.unwrap().never_released, 0);
    assert!(server.stop().unwrap().requests.in_flight_peak <= 2, "the cap holds");
}

#[test]
fn faults_land_in_their_outcomes() {
    let (_server, url) = server(6);
    let cases: [(&str, &str); 10] = [
        ("error_after=2", "stream_error"),
        ("status=503", "http_error"),
        ("reset_after=3", "reset"),
        ("close_after=2", "truncated"),
        ("json", "ok"),
        ("no_done", "ok"),
        ("early_role", "ok"),
        ("empty_finish", "ok"),
        ("crlf", "ok"),
        ("split_utf8", "ok"),
    ];
    for (fault, outcome) in cases {
        let (records, _) = run(with_fault(Point::closed(&url, 3, 3), fault));
        let got: Vec<&str> = records.iter().map(|r| r.timeline.outcome.name()).collect();
        assert_eq!(got, [outcome; 3], "{fault}");
    }
}

#[test]
fn a_cut_in_the_middle_of_the_framing_is_no_success() {
    let (_server, url) = server(6);
    let (records, _) = run(with_fault(Point::closed(&url, 2, 2), "cut_after=3"));
    for record in &records {
        assert!(!record.timeline.outcome.is_ok());
        assert_eq!(record.timeline.token_chunks().count(), 3, "what came is kept");
    }
}

#[test]
fn limits_are_kept_and_named() {
    let (_server, url) = server(6);
    let limit = Some(Nanos::from_millis(80));
    let none = Timeouts::default();
    let cases = [
        ("hang", Timeouts { total: limit, ..none }, TimeoutPhase::Total, 0),
        ("hang", Timeouts { first_token: limit, ..none }, TimeoutPhase::FirstToken, 0),
        ("hang_after=2", Timeouts { idle: limit, ..none }, TimeoutPhase::Idle, 2),
    ];
    for (fault, timeouts, phase, tokens) in cases {
        let (records, _) = run(Point { timeouts, ..with_fault(Point::closed(&url, 2, 2), fault) });
        for record in &records {
            let t = &record.timeline;
            assert_eq!(t.outcome, Outcome::Timeout { phase }, "{fault}");
            assert_eq!(t.token_chunks().count(), tokens);
            assert!(t.instants.closed.unwrap().since(t.instants.released) >= Nanos::from_millis(80));
        }
    }
}

#[test]
fn short_answers_are_seen_when_the_end_was_to_be_ignored() {
    let (_server, url) = server(6);
    let point = Point { max_tokens: Some(9), ignore_eos: true, ..Point::closed(&url, 1, 1) };
    let (records, _) = run(with_fault(point, "close_after=4"));
    assert!(!records[0].timeline.outcome.is_ok());
}

#[test]
fn a_server_that_refuses_the_usage_option_is_asked_without_it() {
    let (_server, url) = server(5);
    let (records, facts) = run(with_fault(Point::closed(&url, 6, 2), "no_stream_options"));
    assert!(facts.usage_refused);
    for record in &records {
        let t = &record.timeline;
        assert_eq!(t.outcome, Outcome::Ok);
        assert_eq!(t.output.map(|o| o.count), Some(5));
        assert_ne!(t.output.map(|o| o.source), Some(TokenSource::Server));
    }
    assert!(records.iter().any(|r| r.timeline.notes.iter().any(|n| n.contains("refuses to report usage"))));
}

#[test]
fn whole_answers_have_an_end_but_no_first_token() {
    let (_server, url) = server(5);
    let (records, _) = run(Point { stream: false, ..Point::closed(&url, 2, 1) });
    for record in &records {
        assert_eq!(record.timeline.outcome, Outcome::Ok);
        assert!(record.timeline.is_whole());
        assert_eq!(record.timeline.output.map(|o| o.count), Some(5));
    }
}

#[test]
fn two_hundred_and_fifty_six_at_once_are_in_flight_at_once() {
    let config =
        FixedConfig { ttft: Nanos::from_millis(300), itl: Nanos::ZERO, tokens: 2, ..FixedConfig::default() };
    let server = spawn(Service::Fixed(config)).unwrap();
    let (records, facts) = run(Point::closed(format!("http://{}", server.addr), 256, 256));
    assert!(records.iter().all(|r| r.timeline.outcome.is_ok()));
    assert_eq!(facts.warm_connections, 256);
    assert_eq!(server.stop().unwrap().requests.in_flight_peak, 256, "no hidden pool limit");
}

#[test]
fn on_linux_arrivals_are_stamped_by_the_kernel() {
    let (_server, url) = server(8);
    let (_, facts) = run(Point::closed(&url, 4, 1));
    assert!(facts.receive.reads > 0);
    if cfg!(target_os = "linux") {
        // The very first packets may come before the kernel has switched stamping on.
        assert!(facts.receive.stamped_reads * 10 >= facts.receive.reads * 9);
    }
}

#[test]
fn nobody_listening_is_an_outcome_and_not_a_crash() {
    let (server, url) = server(2);
    let point = Point { connections: 0, ..Point::closed(&url, 3, 1) };
    let target = goodput_net::target::Target::resolve(&url, &point.tls, false).unwrap();
    drop(target);
    server.stop().unwrap();
    // The target was resolved while the server lived; resolving it again now must say what is wrong.
    let error = goodput_net::target::Target::resolve(&url, &point.tls, false).unwrap_err().to_string();
    assert!(error.contains("nothing answers"), "{error}");
}
