//! Slots that are filled again at once.

use crate::world::{ScriptServer, UNTIL_ALL_END, answer, case, closed, ms, serving, sim};
use goodput_core::plan::Stop;
use goodput_core::time::Nanos;
use goodput_drive::fixed_server::FixedServer;
use std::collections::BTreeSet;

fn count(requests: u64) -> Stop {
    Stop { requests: Some(requests), ..UNTIL_ALL_END }
}

#[test]
fn a_slot_is_never_idle() {
    let ran = sim(closed(3, count(9)), &mut serving(ms(70)));
    let released: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.released).collect();
    assert_eq!(released, [0, 0, 0, 70, 70, 70, 140, 140, 140].map(ms));
    assert!(ran.timelines.iter().all(|t| t.instants.scheduled.is_none()));
    assert_eq!((ran.finished, ran.peak(), ran.measured_from), (ms(210), 3, Some(ms(0))));
}

#[test]
fn every_replacement_starts_at_an_end() {
    let services = [13, 29, 7, 101, 3, 3, 58].map(|service| answer(ms(service)));
    let ran = sim(closed(4, count(200)), &mut ScriptServer::new(services.into()));
    let ends: BTreeSet<Nanos> = ran.timelines.iter().map(|t| t.instants.closed.unwrap()).collect();
    let mut released: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.released).collect();
    assert!(released.is_sorted(), "indices go out in order");
    assert!(released.drain(4..).all(|at| ends.contains(&at)));
    assert_eq!(released, [Nanos::ZERO; 4]);
    assert_eq!((ran.peak(), ran.progress.ended), (4, 200));
}

/// Case 67: 256 slots against a server that holds each answer for 2 s.
#[test]
fn all_slots_are_in_flight_together() {
    let run = case("67-connection-pool-cap/run.json");
    let expected = case("67-connection-pool-cap/expected.json");
    let slots = u32::try_from(run["concurrency"].as_u64().unwrap()).unwrap();
    let ran = sim(closed(slots, count(run["requests"].as_u64().unwrap())), &mut serving(ms(2_000)));
    assert_eq!(ran.peak(), expected["peak"].as_i64().unwrap());
    let ttft = ms(expected["mean_ttft_ms"].as_u64().unwrap());
    assert!(ran.timelines.iter().all(|t| t.first_event().unwrap() - t.instants.sent.unwrap() == ttft));
    assert_eq!(ran.finished, ms(2_000));
}

#[test]
fn a_slow_server_is_seen_from_sending() {
    let ran = sim(closed(256, count(256)), &mut FixedServer::new(ms(2_000), ms(0), 1, Some(100)));
    let total: u64 =
        ran.timelines.iter().map(|t| (t.first_event().unwrap() - t.instants.sent.unwrap()).0).sum();
    let expected = case("67-connection-pool-cap/expected.json");
    assert_eq!(total as f64 / 256e6, expected["capped_mean_ttft_ms"].as_f64().unwrap());
}

#[test]
fn fewer_requests_than_slots_leave_slots_empty() {
    let ran = sim(closed(8, count(3)), &mut serving(ms(5)));
    assert_eq!((ran.peak(), ran.progress.released, ran.finished), (3, 3, ms(5)));
    assert_eq!(ran.progress.planned_requests, Some(3));
}
