//! What ends a run: count, duration, drain limit, error budget, the user.

use crate::world::{
    NO_LIMITS, ScriptServer, UNTIL_ALL_END, all_ms, answer, burst, capped, closed, measured, ms, open,
    refusal, serving, sim, warmup,
};
use goodput_core::outcome::{CancelCause, Outcome};
use goodput_core::plan::Stop;
use goodput_core::time::Nanos;
use goodput_drive::driver::{Action, Driver, DriverConfig, Event};
use goodput_drive::fixed_server::FixedServer;
use goodput_drive::phase::Stage;
use goodput_drive::virtual_time::{SimServer, Stuck, run};

fn stopping(mut config: DriverConfig, stop: Stop) -> DriverConfig {
    config.stop = stop;
    config
}

fn names(timelines: &[&goodput_core::timeline::Timeline]) -> Vec<String> {
    timelines
        .iter()
        .map(|t| match t.outcome {
            Outcome::Cancelled { cause } => format!("{cause:?}"),
            _ => t.outcome.name().to_owned(),
        })
        .collect()
}

#[test]
fn a_count_cuts_the_schedule() {
    let stop = Stop { requests: Some(2), ..UNTIL_ALL_END };
    let ran = sim(stopping(open(vec![], all_ms([0, 10, 20, 30]), ms(0)), stop), &mut serving(ms(5)));
    assert_eq!((ran.progress.released, ran.progress.planned_requests, ran.finished), (2, Some(2), ms(15)));
}

#[test]
fn a_duration_counts_from_the_measured_part_and_excludes_its_end() {
    let stop = Stop { duration: Some(ms(20)), ..UNTIL_ALL_END };
    let config = stopping(open(all_ms([0, 10]), all_ms([15, 34, 35, 36]), ms(15)), stop);
    let ran = sim(config, &mut serving(ms(5)));
    let scheduled: Vec<_> = ran.measured().iter().map(|t| t.instants.scheduled.unwrap()).collect();
    assert_eq!(scheduled, all_ms([15, 34]));
    assert_eq!(ran.progress.ends_at, Some(ms(35)));
}

#[test]
fn a_duration_ends_a_closed_loop_without_a_last_replacement() {
    let stop = Stop { duration: Some(ms(100)), ..UNTIL_ALL_END };
    let ran = sim(closed(2, stop), &mut serving(ms(50)));
    assert_eq!((ran.progress.released, ran.finished), (4, ms(100)), "the end at 100 ms is not replaced");
    let ran = sim(closed(2, stop), &mut serving(ms(49)));
    assert_eq!((ran.progress.released, ran.finished), (6, ms(147)), "the end at 98 ms is");
}

#[test]
fn the_earlier_of_count_and_duration_stops() {
    let both = |requests| Stop { requests: Some(requests), duration: Some(ms(100)), ..UNTIL_ALL_END };
    assert_eq!(sim(closed(1, both(3)), &mut serving(ms(30))).progress.released, 3);
    assert_eq!(sim(closed(1, both(9)), &mut serving(ms(30))).progress.released, 4);
}

#[test]
fn nothing_planned_is_over_at_once() {
    let ran = sim(open(vec![], vec![], ms(0)), &mut serving(ms(5)));
    assert_eq!((ran.timelines.len(), ran.finished), (0, ms(0)));
}

#[test]
fn the_drain_limit_cuts_what_runs_and_hears_what_ends_with_it() {
    let stop = Stop { duration: Some(ms(100)), drain: Some(ms(50)), ..UNTIL_ALL_END };
    let services = [150, 140, 120].map(|service| answer(ms(service)));
    let config = stopping(open(vec![], all_ms([0, 10, 90]), ms(0)), stop);
    let ran = sim(config, &mut ScriptServer::new(services.into()));
    // The last release is at 90 ms, so the drain ends at 140 ms, before all three.
    assert_eq!(names(&ran.measured()), ["RunEnd", "RunEnd", "RunEnd"]);
    assert_eq!((ran.finished, ran.progress.cut_by), (ms(140), Some(CancelCause::RunEnd)));

    let services = [140, 130, 51].map(|service| answer(ms(service)));
    let config = stopping(open(vec![], all_ms([0, 10, 90]), ms(0)), stop);
    let ran = sim(config, &mut ScriptServer::new(services.into()));
    assert_eq!(names(&ran.measured()), ["ok", "ok", "RunEnd"]);
    assert_eq!(ran.progress.failed, 0, "what the run cut off has not failed");
}

#[test]
fn what_the_run_cuts_off_is_cancelled_at_the_server() {
    let stop = Stop { drain: Some(ms(50)), ..UNTIL_ALL_END };
    let mut server = FixedServer::new(ms(80), ms(0), 1, Some(1));
    let ran = sim(stopping(burst(0, 3), stop), &mut server);
    assert_eq!((names(&ran.measured()), server.next_event()), (vec!["RunEnd".to_owned(); 3], None));
}

#[test]
fn waiting_arrivals_outlive_the_duration_but_not_the_drain() {
    let config = |drain| {
        let stop = Stop { duration: Some(ms(100)), drain, ..UNTIL_ALL_END };
        stopping(capped(open(vec![], all_ms([0, 20, 40, 60]), ms(0)), 1), stop)
    };
    let ran = sim(config(None), &mut serving(ms(80)));
    let released: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.released).collect();
    assert_eq!(released, all_ms([0, 80, 160, 240]));
    assert_eq!((ran.progress.never_released, ran.progress.cut_by), (0, None));

    let ran = sim(config(Some(ms(100))), &mut serving(ms(80)));
    assert_eq!(names(&ran.measured()), ["ok", "ok", "RunEnd"]);
    let p = ran.progress;
    assert_eq!((ran.finished, p.offered, p.released, p.never_released, p.waiting), (ms(200), 4, 3, 1, 0));
}

#[test]
fn without_a_duration_the_drain_counts_from_the_last_release() {
    let stop = Stop { requests: Some(4), drain: Some(ms(50)), ..UNTIL_ALL_END };
    let ran = sim(stopping(capped(burst(0, 4), 1), stop), &mut serving(ms(80)));
    assert_eq!(names(&ran.measured()), ["ok", "ok", "ok", "RunEnd"]);
    assert_eq!(ran.finished, ms(290));
}

#[test]
fn more_failures_than_the_budget_end_the_run() {
    let stop = Stop { error_budget: Some(2), ..UNTIL_ALL_END };
    let scripts = vec![answer(ms(500)), refusal(ms(1))];
    let config = stopping(open(vec![], all_ms([0, 10, 20, 30, 40, 50, 60, 70]), ms(0)), stop);
    let ran = sim(config, &mut ScriptServer::new(scripts));
    let expected = ["ErrorBudget", "http_error", "ErrorBudget", "http_error", "ErrorBudget", "http_error"];
    assert_eq!(names(&ran.measured()), expected);
    assert_eq!((ran.finished, ran.progress.failed, ran.progress.offered), (ms(51), 3, 6));
    assert_eq!(ran.progress.cut_by, Some(CancelCause::ErrorBudget));
}

#[test]
fn warmup_failures_are_not_on_the_budget() {
    let stop = Stop { error_budget: Some(0), ..UNTIL_ALL_END };
    let scripts = vec![refusal(ms(1)), refusal(ms(1)), answer(ms(1))];
    let ran = sim(stopping(open(all_ms([0, 2]), all_ms([4]), ms(4)), stop), &mut ScriptServer::new(scripts));
    assert_eq!((names(&ran.measured()), ran.progress.cut_by), (vec!["ok".to_owned()], None));
}

#[test]
fn an_interrupt_cancels_and_waits_for_the_ends() {
    let mut driver = Driver::new(open(vec![], all_ms([0, 1, 50]), ms(0)));
    let mut actions = vec![];
    driver.on(ms(1), Event::Tick, &mut actions);
    actions.clear();
    driver.on(ms(2), Event::Interrupt, &mut actions);
    assert_eq!(actions, [Action::CancelAll { cause: CancelCause::Interrupt }]);
    assert_eq!((driver.next_wakeup(), driver.progress().stage), (None, Stage::Cancelling));
    actions.clear();
    driver.on(ms(3), Event::Ended { id: measured(0), failed: false }, &mut actions);
    driver.on(ms(60), Event::Tick, &mut actions);
    assert_eq!(actions, [], "the arrival at 50 ms is not offered any more");
    driver.on(ms(61), Event::Ended { id: measured(1), failed: false }, &mut actions);
    assert_eq!(actions, [Action::Finished]);
    driver.on(ms(62), Event::Tick, &mut actions);
    driver.on(ms(63), Event::Interrupt, &mut actions);
    assert_eq!(actions, [Action::Finished], "it finishes once");
    let p = driver.progress();
    assert_eq!((p.offered, p.never_released, p.planned_requests), (2, 0, Some(3)));
}

#[test]
fn a_second_interrupt_does_not_wait() {
    let mut driver = Driver::new(closed(2, UNTIL_ALL_END));
    let mut actions = vec![];
    driver.on(ms(0), Event::Tick, &mut actions);
    driver.on(ms(5), Event::Interrupt, &mut actions);
    driver.on(ms(6), Event::Interrupt, &mut actions);
    assert_eq!(actions[2..], [Action::CancelAll { cause: CancelCause::Interrupt }, Action::Finished]);
    driver.on(ms(7), Event::Ended { id: measured(1), failed: false }, &mut actions);
    assert_eq!((actions.len(), driver.progress().in_flight), (4, 1));
}

#[test]
fn an_interrupt_before_the_start_sends_nothing() {
    let mut driver = Driver::new(closed(2, UNTIL_ALL_END));
    let mut actions = vec![];
    driver.on(ms(0), Event::Interrupt, &mut actions);
    assert_eq!(actions, [Action::Finished]);
}

#[test]
fn a_fatal_error_ends_the_run_as_its_own_end() {
    let mut driver = Driver::new(closed(1, UNTIL_ALL_END));
    let mut actions = vec![];
    driver.on(ms(0), Event::Tick, &mut actions);
    driver.on(ms(1), Event::Fatal, &mut actions);
    driver.on(ms(2), Event::Ended { id: measured(0), failed: false }, &mut actions);
    assert_eq!(actions[1..], [Action::CancelAll { cause: CancelCause::RunEnd }, Action::Finished]);
}

#[test]
fn a_drain_limit_that_passed_unseen_is_due_at_once() {
    let stop = Stop { requests: Some(2), drain: Some(ms(10)), ..UNTIL_ALL_END };
    let mut driver = Driver::new(closed(2, stop));
    let mut actions = vec![];
    driver.on(ms(0), Event::Tick, &mut actions);
    driver.on(ms(12), Event::Ended { id: measured(0), failed: false }, &mut actions);
    assert_eq!((actions.len(), driver.next_wakeup()), (2, Some(ms(10))));
    driver.on(ms(12), Event::Tick, &mut actions);
    assert_eq!(actions[2..], [Action::CancelAll { cause: CancelCause::RunEnd }]);
}

#[test]
fn a_late_loop_does_not_lengthen_the_drain() {
    let stop = Stop { duration: Some(ms(100)), drain: Some(ms(50)), ..UNTIL_ALL_END };
    let mut driver = Driver::new(closed(1, stop));
    driver.on(ms(0), Event::Tick, &mut vec![]);
    driver.on(ms(130), Event::Tick, &mut vec![]);
    assert_eq!(driver.progress().stage, Stage::Draining { since: ms(100) });
    assert_eq!(driver.next_wakeup(), Some(ms(150)));
}

#[test]
fn only_the_first_cause_cancels() {
    let mut driver = Driver::new(closed(3, Stop { error_budget: Some(0), ..UNTIL_ALL_END }));
    let mut actions = vec![];
    driver.on(ms(0), Event::Tick, &mut actions);
    driver.on(ms(1), Event::Ended { id: measured(0), failed: true }, &mut actions);
    // What was under way when the others were told to end may still fail by itself.
    driver.on(ms(1), Event::Ended { id: measured(1), failed: true }, &mut actions);
    driver.on(ms(2), Event::Interrupt, &mut actions);
    driver.on(ms(3), Event::Ended { id: measured(2), failed: false }, &mut actions);
    assert_eq!(actions[3..], [Action::CancelAll { cause: CancelCause::ErrorBudget }, Action::Finished]);
    assert_eq!(driver.progress().cut_by, Some(CancelCause::ErrorBudget));
}

#[test]
fn a_request_that_never_ends_is_reported() {
    let mut driver = Driver::new(closed(2, Stop { requests: Some(3), ..UNTIL_ALL_END }));
    let mut server = ScriptServer::new(vec![answer(ms(7)), vec![], vec![]]);
    let stuck = run(&mut driver, &mut server, &NO_LIMITS, drop);
    assert_eq!(stuck, Err(Stuck { at: ms(7), in_flight: 2 }));
}

#[test]
#[should_panic(expected = "ends once")]
fn an_unknown_end_is_an_error_of_the_loop() {
    Driver::new(closed(1, UNTIL_ALL_END)).on(
        ms(0),
        Event::Ended { id: warmup(0), failed: false },
        &mut vec![],
    );
}

#[test]
#[should_panic(expected = "time never goes back")]
fn time_that_goes_back_is_an_error_of_the_loop() {
    let mut driver = Driver::new(closed(1, UNTIL_ALL_END));
    driver.on(ms(5), Event::Tick, &mut vec![]);
    driver.on(ms(4), Event::Tick, &mut vec![]);
}

#[test]
#[should_panic(expected = "at least one slot")]
fn no_slots_are_an_error_of_the_plan() {
    drop(Driver::new(closed(0, UNTIL_ALL_END)));
}
