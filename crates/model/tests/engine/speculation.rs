//! Speculation: several tokens a step, and how many.

use crate::driver::{config, gaps, request, run, tpot_ms, truths};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Speculation};
use goodput_model::engine::Engine;
use goodput_model::event::EventKind;
use goodput_model::policy::Policy;
use goodput_model::request::RequestId;

fn speculating(tokens: u32, acceptance: f64) -> Config {
    Config { speculation: Some(Speculation { tokens, acceptance }), ..config(Policy::Vllm) }
}

#[test]
fn the_mean_of_a_step_is_the_closed_form() {
    for (tokens, acceptance) in [(1, 0.6), (3, 0.7), (5, 0.85)] {
        let mut engine = Engine::new(speculating(tokens, acceptance), Seed(4)).expect("runs");
        let mut events = Vec::new();
        for id in 0..32 {
            engine.submit(Nanos::ZERO, &request(id, 16, 1_900));
        }
        while let Some(due) = engine.next_event() {
            engine.advance(due, &mut events);
        }
        let counters = engine.counters();
        let mean = 1.0 + counters.accepted_tokens as f64 / counters.drafts as f64;
        let expected = Speculation { tokens, acceptance }.mean_tokens();
        // At least 10,000 steps of a spread below 2: five standard errors are below 0.1.
        assert!(counters.drafts > 10_000);
        assert!((mean - expected).abs() < 0.1, "k {tokens}, a {acceptance}: {mean}, expected {expected}");
        assert_eq!(counters.accepted_at.iter().sum::<u64>(), counters.accepted_tokens);
        assert!(
            counters.accepted_at.is_sorted_by(|a, b| a >= b),
            "a draft is accepted only after those before it"
        );
    }
}

#[test]
fn sure_drafts_give_full_chunks_and_tpot_falls_by_as_much() {
    let plain = run(config(Policy::Vllm), 1, &[(Nanos::ZERO, request(0, 16, 401))]);
    let sure = run(speculating(3, 1.0), 1, &[(Nanos::ZERO, request(0, 16, 401))]);
    assert_eq!(tpot_ms(&truths(&plain)[&0]), 20.0);
    assert_eq!(tpot_ms(&truths(&sure)[&0]), 5.0);
    assert!(gaps(&sure, 0).iter().all(|gap| *gap == Nanos::from_millis(20)), "chunk gaps do not fall");
}

#[test]
fn hopeless_drafts_change_no_token() {
    let plain = run(config(Policy::Vllm), 1, &[(Nanos::ZERO, request(0, 16, 100))]);
    let hopeless = run(speculating(3, 0.0), 1, &[(Nanos::ZERO, request(0, 16, 100))]);
    assert_eq!(truths(&plain)[&0].tokens, truths(&hopeless)[&0].tokens);
}

#[test]
fn an_answer_never_exceeds_what_was_asked() {
    for output in 1..12 {
        let truths = truths(&run(speculating(4, 0.9), 9, &[(Nanos::ZERO, request(0, 16, output))]));
        assert_eq!(truths[&0].generated(), output);
    }
}

#[test]
fn luck_does_not_depend_on_company() {
    let alone = run(speculating(3, 0.7), 2, &[(Nanos::ZERO, request(0, 16, 200))]);
    let crowd: Vec<_> = (0..5).map(|id| (Nanos::ZERO, request(id, 16, 200))).collect();
    let sizes = |events| truths(events)[&0].tokens.iter().map(|stamp| stamp.tokens).collect::<Vec<_>>();
    assert_eq!(sizes(&alone), sizes(&run(speculating(3, 0.7), 2, &crowd)));
}

#[test]
fn a_stream_interval_gathers_tokens_but_first_and_last() {
    let gathered = Config { stream_interval: 10, ..config(Policy::Vllm) };
    let events = run(gathered, 1, &[(Nanos::ZERO, request(0, 16, 25))]);
    let chunks: Vec<u32> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Tokens { id: RequestId(0), tokens } => Some(tokens),
            _ => None,
        })
        .collect();
    assert_eq!(chunks, [1, 10, 10, 4]);
    assert_eq!(truths(&events)[&0].tokens.len(), 25, "the truth knows every step");
}
