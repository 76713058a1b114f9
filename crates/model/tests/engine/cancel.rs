//! Clients that go away.

use crate::driver::{config, request};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::Config;
use goodput_model::engine::Engine;
use goodput_model::event::{Event, EventKind};
use goodput_model::policy::Policy;
use goodput_model::request::{End, RequestId, Truth};

fn engine(max_num_seqs: u32) -> Engine {
    Engine::new(Config { max_num_seqs, ..config(Policy::Vllm) }, Seed(1)).expect("runs")
}

fn advance_to(engine: &mut Engine, until: Nanos) -> Vec<Event> {
    let mut events = Vec::new();
    while engine.next_event().is_some_and(|due| due <= until) {
        engine.advance(until, &mut events);
    }
    events
}

fn ended(events: &[Event], id: u64) -> &Truth {
    let find = |event: &&Event| matches!(&event.kind, EventKind::Finished(truth) if truth.id.0 == id);
    match &events.iter().find(find).expect("it ended").kind {
        EventKind::Finished(truth) => truth,
        _ => unreachable!("found by its kind"),
    }
}

#[test]
fn a_running_request_leaves_at_the_end_of_its_step_with_slot_and_blocks() {
    let mut engine = engine(1);
    engine.submit(Nanos::ZERO, &request(0, 1_600, 100));
    engine.submit(Nanos::ZERO, &request(1, 16, 5));
    advance_to(&mut engine, Nanos::from_millis(200));
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 1));
    let due = engine.next_event().expect("a step runs");
    engine.cancel(Nanos::from_millis(200), RequestId(0));
    let events = advance_to(&mut engine, due);
    let truth = ended(&events, 0);
    assert_eq!((truth.end, truth.finished), (End::Cancelled, due));
    assert!(truth.last_token().expect("some tokens") < due, "no token of the step in which it left");
    assert_eq!(engine.gauges().kv_used, 1, "the blocks of the next one only");
    assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 0));
    assert_eq!(engine.audit(), Ok(()));
}

#[test]
fn a_waiting_request_leaves_at_once() {
    let mut engine = engine(1);
    engine.submit(Nanos::ZERO, &request(0, 16, 100));
    engine.submit(Nanos::ZERO, &request(1, 16, 5));
    advance_to(&mut engine, Nanos::from_millis(50));
    engine.cancel(Nanos::from_millis(51), RequestId(1));
    let events = advance_to(&mut engine, Nanos::from_millis(51));
    let truth = ended(&events, 1);
    assert_eq!((truth.end, truth.finished), (End::Cancelled, Nanos::from_millis(51)));
    assert_eq!((truth.admitted, truth.first_token()), (None, None));
}

#[test]
fn an_engine_whose_clients_all_left_is_idle() {
    let mut engine = engine(4);
    engine.submit(Nanos::ZERO, &request(0, 16, 100));
    engine.cancel(Nanos::ZERO, RequestId(0));
    advance_to(&mut engine, Nanos::from_secs(1));
    assert_eq!(engine.next_event(), None);
    engine.submit(Nanos::from_secs(2), &request(0, 16, 1));
    let events = advance_to(&mut engine, Nanos::from_secs(3));
    assert_eq!(ended(&events, 0).end, End::Length, "and ready for more, even of the same name");
    assert_eq!((engine.counters().cancelled, engine.counters().finished), (1, 1));
}

#[test]
fn an_unknown_name_is_ignored() {
    let mut engine = engine(4);
    engine.cancel(Nanos::ZERO, RequestId(7));
    assert_eq!(engine.next_event(), None);
}
