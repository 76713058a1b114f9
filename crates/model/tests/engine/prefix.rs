//! Shared prefixes: hits, what they save, and what evicts them.

use crate::driver::{config, request, run, truths};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::Config;
use goodput_model::engine::Engine;
use goodput_model::policy::Policy;
use goodput_model::prefix::block_hashes;
use goodput_model::request::Request;

/// A prompt of `shared` common tokens and others of its own.
fn prompt(id: u64, shared: u64, tokens: u32) -> Request {
    let own = (shared..u64::from(tokens)).map(|i| 1_000_000 * (id + 1) + i);
    Request { prefix: block_hashes((0..shared).chain(own), 16).into(), ..request(id, tokens, 4) }
}

fn ttft(id: u64, truths: &std::collections::BTreeMap<u64, goodput_model::request::Truth>) -> Nanos {
    truths[&id].first_token().expect("a token") - truths[&id].arrived
}

#[test]
fn a_shared_prefix_is_computed_once() {
    let arrivals = [(Nanos::ZERO, prompt(0, 1_600, 2_000)), (Nanos::from_secs(10), prompt(1, 1_600, 2_000))];
    for policy in [Policy::Vllm, Policy::sglang()] {
        let truths = truths(&run(config(policy), 1, &arrivals));
        assert_eq!((truths[&0].cached_tokens, truths[&1].cached_tokens), (0, 1_600));
        // 1,600 tokens of 45.166015625 us less.
        assert_eq!(ttft(0, &truths) - ttft(1, &truths), Nanos(72_265_625));
    }
}

#[test]
fn the_last_token_is_computed_even_if_all_is_known() {
    let arrivals = [(Nanos::ZERO, prompt(0, 160, 160)), (Nanos::from_secs(10), prompt(0, 160, 160))];
    let truths = truths(&run(config(Policy::Vllm), 1, &arrivals));
    assert_eq!(truths[&0].cached_tokens, 144, "nine of ten blocks: the last must speak");
}

#[test]
fn without_caching_nothing_is_found() {
    let arrivals = [(Nanos::ZERO, prompt(0, 1_600, 2_000)), (Nanos::from_secs(10), prompt(1, 1_600, 2_000))];
    let off = Config { prefix_caching: false, ..config(Policy::Vllm) };
    let truths = truths(&run(off, 1, &arrivals));
    assert_eq!((truths[&1].cached_tokens, ttft(0, &truths)), (0, ttft(1, &truths)));
}

#[test]
fn others_evict_what_nobody_holds() {
    let small = Config { kv_blocks: 160, max_model_len: 2_560, ..config(Policy::Vllm) };
    let arrivals = [
        (Nanos::ZERO, prompt(0, 1_600, 2_000)),
        (Nanos::from_secs(10), prompt(1, 0, 2_400)),
        (Nanos::from_secs(20), prompt(2, 1_600, 2_000)),
    ];
    let truths = truths(&run(small, 1, &arrivals));
    assert!(truths[&2].cached_tokens < 1_600, "{}", truths[&2].cached_tokens);
}

#[test]
fn counters_add_up_and_a_reset_forgets() {
    let mut engine = Engine::new(config(Policy::Vllm), Seed(1)).expect("runs");
    let mut events = Vec::new();
    for (id, at) in [(0, 0), (1, 10), (2, 20)] {
        if id == 2 {
            engine.forget_prefixes();
        }
        let request = prompt(id, 1_600, 2_000);
        engine.submit(Nanos::from_secs(at), &request);
        assert_eq!(engine.cached_tokens(&request), [0, 1_600, 0][usize::try_from(id).expect("small")]);
        while let Some(due) = engine.next_event() {
            engine.advance(due, &mut events);
        }
    }
    let counters = engine.counters();
    assert_eq!((counters.prefix_queried_tokens, counters.prefix_hit_tokens), (6_000, 1_600));
    assert_eq!(counters.prefill_tokens, 6_000 - 1_600);
    assert_eq!(engine.audit(), Ok(()));
}

#[test]
fn a_known_answer_is_found_by_the_next_turn() {
    let history: Vec<u64> = (0..400).collect();
    let first =
        Request { prefix: block_hashes(history[..320].iter().copied(), 16).into(), ..request(0, 160, 160) };
    let second = Request { prefix: block_hashes(history.iter().copied(), 16).into(), ..request(1, 400, 4) };
    let truths =
        truths(&run(config(Policy::Vllm), 1, &[(Nanos::ZERO, first), (Nanos::from_secs(60), second)]));
    // Of 160 + 160 tokens the last was never computed, so its block was never full.
    assert_eq!(truths[&1].cached_tokens, 304);
}
