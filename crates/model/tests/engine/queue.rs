//! Waiting: slots, order, and limits of the queue.

use crate::driver::{config, request, run, truths};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Order};
use goodput_model::engine::Engine;
use goodput_model::event::EventKind;
use goodput_model::policy::Policy;
use goodput_model::request::{Reject, Request};

#[test]
fn slots_are_given_in_order_of_arrival() {
    let two = Config { max_num_seqs: 2, ..config(Policy::Vllm) };
    let arrivals: Vec<_> = (0..6).map(|id| (Nanos::from_millis(id), request(id, 16, 10))).collect();
    let truths = truths(&run(two, 1, &arrivals));
    let admitted: Vec<_> = (0..6).map(|id| truths[&id].admitted).collect();
    assert!(admitted.is_sorted());
    // Two at a time, ten steps each; the first step is the first request's alone.
    assert!(truths[&5].admitted.expect("admitted") > truths[&2].finished);
}

#[test]
fn the_urgent_overtake_those_who_wait() {
    for (policy, urgent) in [(Policy::Vllm, -1), (Policy::sglang(), 1)] {
        let one = Config { max_num_seqs: 1, order: Order::Priority, ..config(policy) };
        let arrivals: Vec<_> = (0..4)
            .map(|id| {
                let priority = if id == 3 { urgent } else { 0 };
                (Nanos::from_millis(id), Request { priority, ..request(id, 16, 10) })
            })
            .collect();
        let truths = truths(&run(one, 1, &arrivals));
        assert!(truths[&3].admitted < truths[&1].admitted, "{policy:?}");
        assert!(truths[&0].admitted < truths[&3].admitted, "nobody is thrown out for it");
    }
}

fn reasons(config: Config, requests: &[Request]) -> Vec<Option<Reject>> {
    let mut engine = Engine::new(config, Seed(1)).expect("runs");
    let mut events = Vec::new();
    for request in requests {
        engine.submit(Nanos::ZERO, request);
        engine.advance(Nanos::ZERO, &mut events);
    }
    let answers = events.iter().filter_map(|event| match event.kind {
        EventKind::Queued { .. } => Some(None),
        EventKind::Rejected { reason, .. } => Some(Some(reason)),
        _ => None,
    });
    answers.collect()
}

#[test]
fn a_full_queue_rejects_as_its_engine_counts() {
    let requests: Vec<_> = (0..5).map(|id| request(id, 16, 10)).collect();
    let limited = |policy| Config { max_num_seqs: 1, max_queued: Some(2), ..config(policy) };
    let full = Some(Reject::QueueFull { limit: 2 });
    // The first of them runs; vLLM counts it, SGLang does not.
    assert_eq!(reasons(limited(Policy::Vllm), &requests), [None, None, full, full, full]);
    assert_eq!(reasons(limited(Policy::sglang()), &requests), [None, None, None, full, full]);
}

#[test]
fn a_queue_of_tokens_rejects_once_its_limit_is_reached() {
    let requests: Vec<_> = (0..4).map(|id| request(id, 100, 10)).collect();
    let limited = Config { max_queued_tokens: Some(200), ..config(Policy::Vllm) };
    let full = Some(Reject::QueueTokens { limit: 200 });
    assert_eq!(reasons(limited, &requests), [None, None, full, full]);
}

#[test]
fn what_cannot_fit_is_rejected_at_once() {
    let rejected = |request: Request| reasons(config(Policy::Vllm), &[request])[0];
    let too_long = Reject::TooLong { tokens: 40_961, max_model_len: 40_960 };
    assert_eq!(rejected(request(0, 40_000, 961)), Some(too_long));
    assert_eq!(rejected(request(0, 40_000, 960)), None);
    assert_eq!(rejected(request(0, 0, 5)), Some(Reject::Empty));
    assert_eq!(rejected(request(0, 5, 0)), Some(Reject::Empty));
}

#[test]
fn those_who_arrive_together_share_their_first_step() {
    let arrivals: Vec<_> = (0..3).map(|id| (Nanos::from_millis(7), request(id, 16, 2))).collect();
    let truths = truths(&run(config(Policy::Vllm), 1, &arrivals));
    assert!(truths.values().all(|truth| truth.admitted == Some(Nanos::from_millis(7))));
}
