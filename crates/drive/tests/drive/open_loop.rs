//! Arrivals on an absolute schedule, with and without a cap.

use crate::world::{all_ms, burst, capped, case, measured, ms, open, serving, sim};
use goodput_core::time::Nanos;
use goodput_drive::driver::{Action, Driver, Event};
use goodput_drive::fixed_server::FixedServer;

#[test]
fn every_arrival_is_released_at_its_nanosecond() {
    let schedule: Vec<Nanos> = (0..500).map(|i: u64| Nanos(i * i * 7_919 + i)).collect();
    let ran = sim(open(vec![], schedule.clone(), Nanos::ZERO), &mut serving(ms(40)));
    let released: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.released).collect();
    assert_eq!(released, schedule);
    assert!(ran.timelines.iter().all(|t| t.instants.scheduled == Some(t.instants.released)));
    assert_eq!(ran.finished, schedule[499] + ms(40));
    assert_eq!((ran.progress.offered, ran.progress.ended, ran.progress.never_released), (500, 500, 0));
}

#[test]
fn a_late_call_releases_all_overdue_arrivals_in_order() {
    let mut driver = Driver::new(open(vec![], all_ms([10, 20, 20, 30, 90]), Nanos::ZERO));
    let mut actions = vec![];
    driver.on(Nanos::ZERO, Event::Tick, &mut actions);
    assert_eq!((actions.len(), driver.next_wakeup()), (0, Some(ms(10))));
    driver.on(ms(35), Event::Tick, &mut actions);
    let expected = [10, 20, 20, 30].map(ms).into_iter().zip(0..);
    let expected: Vec<Action> =
        expected.map(|(at, i)| Action::Release { id: measured(i), scheduled: Some(at) }).collect();
    assert_eq!(actions, expected);
    assert_eq!(driver.next_wakeup(), Some(ms(90)));
}

#[test]
fn a_burst_goes_out_in_one_call() {
    let mut driver = Driver::new(burst(0, 1024));
    let mut actions = vec![];
    driver.on(Nanos::ZERO, Event::Tick, &mut actions);
    assert_eq!(actions.len(), 1024);
    assert_eq!(driver.progress().in_flight, 1024);
}

/// Case 35: one slot, 300 ms of service, an arrival every 200 ms.
#[test]
fn a_cap_makes_requests_wait_on_record() {
    let records = case("35-coordinated-omission/records.json");
    let row =
        |r: &serde_json::Value| ["scheduled_ms", "start_ms", "end_ms"].map(|key| r[key].as_u64().unwrap());
    let expected: Vec<[u64; 3]> = records["requests"].as_array().unwrap().iter().map(row).collect();
    let schedule = expected.iter().map(|[scheduled, ..]| ms(*scheduled)).collect();
    let ran = sim(capped(open(vec![], schedule, Nanos::ZERO), 1), &mut serving(ms(300)));
    let found: Vec<[u64; 3]> = ran
        .measured()
        .iter()
        .map(|t| [t.instants.scheduled.unwrap(), t.instants.sent.unwrap(), t.instants.closed.unwrap()])
        .map(|row| row.map(|at| at.0 / 1_000_000))
        .collect();
    assert_eq!(found, expected);

    let totals = case("35-coordinated-omission/expected.json");
    let mean = |of: fn(&[u64; 3]) -> u64| found.iter().map(of).sum::<u64>() as f64 / found.len() as f64;
    assert_eq!(mean(|[_, start, end]| end - start), totals["service_mean"].as_f64().unwrap());
    assert_eq!(mean(|[scheduled, _, end]| end - scheduled), totals["sched_mean"].as_f64().unwrap());
    assert_eq!(mean(|[scheduled, start, _]| start - scheduled), totals["delay_mean"].as_f64().unwrap());
    assert_eq!(found[3][1] - found[3][0], totals["delay_max"].as_u64().unwrap());
    assert_eq!(ran.peak(), 1);
}

/// Case 67, the wrong way: 256 at once through a cap of 100.
#[test]
fn a_cap_under_the_burst_shows_in_latencies_from_schedule() {
    let ran = sim(capped(burst(0, 256), 100), &mut serving(ms(2_000)));
    let from_schedule: Vec<u64> = ran
        .measured()
        .iter()
        .map(|t| (t.first_event().unwrap() - t.instants.scheduled.unwrap()).0 / 1_000_000)
        .collect();
    let mean = from_schedule.iter().sum::<u64>() as f64 / 256.0;
    let expected = case("67-connection-pool-cap/expected.json");
    assert_eq!(mean, expected["capped_mean_ttft_ms"].as_f64().unwrap());
    assert_eq!(from_schedule.iter().max(), Some(&6_000));
    assert_eq!((ran.peak(), ran.finished), (100, ms(6_000)));
}

#[test]
fn progress_tells_waiting_from_running() {
    let mut driver = Driver::new(capped(open(vec![], all_ms([0, 1, 2, 3, 50]), Nanos::ZERO), 2));
    driver.on(ms(0), Event::Tick, &mut vec![]);
    driver.on(ms(5), Event::Tick, &mut vec![]);
    let p = driver.progress();
    assert_eq!((p.offered, p.released, p.in_flight, p.waiting), (4, 2, 2, 2));
    assert_eq!((p.planned_requests, p.never_released, p.ends_at), (Some(5), 0, None));
}

#[test]
fn a_stream_has_every_token_where_the_server_put_it() {
    let mut server = FixedServer::new(ms(50), ms(10), 64, None);
    let ran = sim(open(vec![], all_ms([0, 7]), Nanos::ZERO), &mut server);
    for (timeline, start) in ran.measured().iter().zip([0, 7]) {
        let tokens: Vec<Nanos> = timeline.token_chunks().map(|c| c.at).collect();
        assert_eq!(tokens, (0..64).map(|k| ms(start + 50 + 10 * k)).collect::<Vec<_>>());
        assert_eq!(timeline.instants.done, Some(ms(start + 680)));
        assert_eq!(timeline.instants.closed, Some(ms(start + 680)));
        assert_eq!(timeline.output.unwrap().count, 64);
        assert_eq!((timeline.status, timeline.outcome.is_ok()), (Some(200), true));
    }
}

#[test]
fn a_server_with_slots_queues_in_order() {
    let mut server = FixedServer::new(ms(100), ms(0), 1, Some(2));
    let ran = sim(burst(0, 5), &mut server);
    let ends: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.closed.unwrap()).collect();
    assert_eq!(ends, all_ms([100, 100, 200, 200, 300]));
    let queued: Vec<Nanos> = ran.measured().iter().map(|t| t.server.queue.unwrap()).collect();
    assert_eq!(queued, all_ms([0, 0, 100, 100, 200]));
}

#[test]
fn an_answer_without_tokens_is_no_success() {
    let ran = sim(burst(0, 1), &mut FixedServer::new(ms(30), ms(0), 0, None));
    let timeline = &ran.timelines[0];
    assert_eq!((timeline.outcome.name(), timeline.output), ("no_tokens", None));
    assert_eq!(timeline.instants.closed, Some(ms(30)));
    assert_eq!(ran.progress.failed, 1);
}
