//! Warm-up goes over into measuring without a gap in the load.

use crate::world::{
    ScriptServer, UNTIL_ALL_END, all_ms, answer, burst, capped, closed, ms, open, serving, sim,
};
use goodput_core::plan::{Stop, Warmup};
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_drive::driver::{Driver, Event};

fn released(timelines: &[&Timeline]) -> Vec<Nanos> {
    timelines.iter().map(|t| t.instants.released).collect()
}

#[test]
fn a_closed_loop_relabels_by_count() {
    let mut config = closed(2, Stop { requests: Some(4), ..UNTIL_ALL_END });
    config.warmup = Warmup::Requests(3);
    let ran = sim(config, &mut ScriptServer::new([30, 100, 50].map(|s| answer(ms(s))).into()));
    // One slot: 0 to 30 and 30 to 80 (warm-up), 80 to 110, 110 to 160. The other: 0 to 100 (warm-up), 100 to 200.
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 0, 30]));
    assert_eq!(released(&ran.measured()), all_ms([80, 100, 110, 160]));
    assert_eq!((ran.measured_from, ran.progress.warmup_ended), (Some(ms(80)), 3));
}

#[test]
fn a_closed_loop_relabels_by_time() {
    let stop = Stop { duration: Some(ms(100)), ..UNTIL_ALL_END };
    let mut config = closed(2, stop);
    config.warmup = Warmup::Duration(ms(100));
    let ran = sim(config, &mut serving(ms(40)));
    // At 80 ms the warm-up still has 20 ms; the first measured pair starts at 120 ms, and 100 ms count from there.
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 0, 40, 40, 80, 80]));
    assert_eq!(released(&ran.measured()), all_ms([120, 120, 160, 160, 200, 200]));
    assert_eq!((ran.measured_from, ran.progress.ends_at), (Some(ms(120)), Some(ms(220))));
}

#[test]
fn the_end_of_a_warmup_by_time_is_measured() {
    let mut config = closed(1, Stop { requests: Some(1), ..UNTIL_ALL_END });
    config.warmup = Warmup::Duration(ms(80));
    let ran = sim(config, &mut serving(ms(40)));
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 40]));
    assert_eq!(released(&ran.measured()), all_ms([80]));
}

#[test]
fn a_warmup_smaller_than_the_slots_shares_the_start() {
    let mut config = closed(4, Stop { requests: Some(4), ..UNTIL_ALL_END });
    config.warmup = Warmup::Requests(1);
    let ran = sim(config, &mut serving(ms(10)));
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0]));
    assert_eq!(released(&ran.measured()), all_ms([0, 0, 0, 10]));
}

#[test]
fn an_open_loop_goes_on_while_warmup_requests_run() {
    let ran = sim(open(all_ms([0, 10]), all_ms([20, 30]), ms(15)), &mut serving(ms(100)));
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 10]));
    assert_eq!(released(&ran.measured()), all_ms([20, 30]));
    assert_eq!((ran.peak(), ran.measured_from), (4, Some(ms(15))));
}

#[test]
fn capped_warmup_requests_keep_their_place_in_the_queue() {
    let ran = sim(capped(open(all_ms([0, 10]), all_ms([20, 30]), ms(15)), 1), &mut serving(ms(100)));
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 100]));
    assert_eq!(released(&ran.measured()), all_ms([200, 300]));
    assert_eq!(ran.measured()[0].instants.scheduled, Some(ms(20)));
}

#[test]
fn a_burst_waits_for_its_warmup_to_end() {
    let mut server = ScriptServer::new([50, 80, 50, 50, 50].map(|s| answer(ms(s))).into());
    let ran = sim(burst(2, 3), &mut server);
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 0]));
    assert_eq!(released(&ran.measured()), all_ms([80, 80, 80]));
    assert!(ran.measured().iter().all(|t| t.instants.scheduled == Some(ms(80))));
    assert_eq!((ran.measured_from, ran.finished), (Some(ms(80)), ms(130)));
}

#[test]
fn a_capped_burst_follows_its_warmup_slot_by_slot() {
    let ran = sim(capped(burst(3, 3), 2), &mut serving(ms(50)));
    assert_eq!(released(&ran.of(Phase::Warmup)), all_ms([0, 0, 50]));
    assert_eq!(released(&ran.measured()), all_ms([50, 100, 100]));
    // The burst arrives when the last warm-up request has been let go, not at time zero.
    assert!(ran.measured().iter().all(|t| t.instants.scheduled == Some(ms(50))));
    assert_eq!((ran.measured_from, ran.peak()), (Some(ms(50)), 2));
}

#[test]
fn a_capped_burst_uses_the_slots_its_warmup_leaves() {
    let ran = sim(capped(burst(2, 3), 4), &mut serving(ms(50)));
    assert_eq!(released(&ran.measured()), all_ms([0, 0, 50]));
    assert!(ran.measured().iter().all(|t| t.instants.scheduled == Some(ms(0))));
}

#[test]
fn the_start_of_a_held_burst_is_unknown_until_it_comes() {
    let mut driver = Driver::new(burst(1, 1));
    assert_eq!((driver.measured_from(), driver.next_wakeup()), (None, Some(Nanos::ZERO)));
    driver.on(Nanos::ZERO, Event::Tick, &mut vec![]);
    assert_eq!((driver.measured_from(), driver.next_wakeup()), (None, None));
    assert_eq!(driver.progress().phase, Phase::Warmup);
    driver.on(ms(9), Event::Ended { id: crate::world::warmup(0), failed: true }, &mut vec![]);
    assert_eq!(driver.measured_from(), Some(ms(9)));
    assert_eq!((driver.progress().phase, driver.progress().failed), (Phase::Measured, 0));
}
