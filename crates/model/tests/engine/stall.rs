//! The stall: a long prompt arrives while somebody reads.
//!
//! A step of 20 ms that also computes a prompt of 32,768 tokens takes 20 ms + 32,768 x 45.166015625 us = 1,500 ms: the
//! decoding request gets its token at the end of that one step. So its largest gap is the 1,500 ms, all others are
//! 20 ms, and over 500 tokens TPOT = (498 x 20 + 1,500) / 499 = 22.965932 ms.

use crate::driver::{config, gaps, request, run, tpot_ms, truths};
use goodput_core::time::Nanos;
use goodput_model::config::Config;
use goodput_model::policy::{Policy, Sglang};

const LONG: u32 = 32_768;

fn arrivals() -> [(Nanos, goodput_model::request::Request); 2] {
    // In the middle of a step, when the first request has about half its tokens.
    [(Nanos::ZERO, request(0, 16, 500)), (Nanos::from_millis(5_007), request(1, LONG, 8))]
}

/// The reader's largest gap, its other gaps' largest, and its TPOT.
fn reader(config: Config) -> (Nanos, Nanos, f64) {
    let events = run(config, 1, &arrivals());
    let mut gaps = gaps(&events, 0);
    assert_eq!(gaps.len(), 499);
    gaps.sort();
    let truth = &truths(&events)[&0];
    assert_eq!(truth.generated(), 500);
    (gaps[498], gaps[497], tpot_ms(truth))
}

#[test]
fn a_whole_prefill_stalls_the_reader_exactly_as_defined() {
    let whole = Config { chunked_prefill: false, ..config(Policy::Vllm) };
    let (worst, next, tpot) = reader(whole);
    assert_eq!(worst, Nanos::from_millis(1_500));
    assert_eq!(next, Nanos::from_millis(20));
    assert_eq!(format!("{tpot:.6}"), "22.965932");
    assert!((tpot - (498.0 * 20.0 + 1_500.0) / 499.0).abs() < 1e-9);
}

#[test]
fn chunked_prefill_bounds_the_stall_by_its_budget() {
    let chunked = Config { max_num_batched_tokens: 2_048, ..config(Policy::Vllm) };
    let (worst, _, tpot) = reader(chunked);
    // A step of 2,047 prompt tokens and the reader's one.
    let bound = 20e6 + 2_047.0 * 45_166.015_625;
    assert!((worst.0 as f64 - bound).abs() <= 1.0, "{worst}");
    assert!(worst < Nanos::from_millis(113), "an order of magnitude under 1,500 ms");
    // The prompt costs 17 steps instead of one, and the reader decodes in each: 16 base times come on top.
    assert!((22.9..23.1).contains(&tpot), "{tpot}");
}

#[test]
fn chunks_delay_the_long_prompt_by_their_base_times() {
    let ttft = |config: Config| {
        let truth = &truths(&run(config, 1, &arrivals()))[&1];
        truth.first_token().expect("a token") - truth.arrived
    };
    let whole = ttft(Config { chunked_prefill: false, ..config(Policy::Vllm) });
    let chunked = ttft(Config { max_num_batched_tokens: 2_048, ..config(Policy::Vllm) });
    // 32,768 = 16 x 2,047 + 16 tokens: 17 steps of 20 ms instead of one.
    assert_eq!(chunked - whole, Nanos::from_millis(16 * 20));
}

#[test]
fn a_separate_prefill_batch_leaves_the_reader_out() {
    let (worst, ..) = reader(Config { chunked_prefill: false, ..config(Policy::sglang()) });
    assert_eq!(worst, Nanos::from_millis(1_520), "the batch of 1,500 ms, then a decode step");
    let chunked = Config { max_num_batched_tokens: 2_048, ..config(Policy::sglang()) };
    let (worst, ..) = reader(chunked);
    assert_eq!(worst, Nanos::from_millis(16 * 20 + 1_480 + 20), "prefill goes first, chunk after chunk");
}

#[test]
fn a_mixed_chunk_lets_the_reader_ride_along() {
    let knobs = Sglang { mixed_chunk: true, max_prefill_tokens: 16_384, conservativeness: 1.0 };
    let (worst, ..) = reader(Config { max_num_batched_tokens: 2_048, ..config(Policy::Sglang(knobs)) });
    let bound = 20e6 + 2_047.0 * 45_166.015_625;
    assert!((worst.0 as f64 - bound).abs() <= 1.0, "{worst}");
}

#[test]
fn first_tokens_come_with_the_end_of_prefill() {
    let events = run(config(Policy::Vllm), 1, &[(Nanos::from_millis(3), request(0, LONG, 1))]);
    let truth = &truths(&events)[&0];
    assert_eq!(truth.admitted, Some(Nanos::from_millis(3)));
    assert_eq!(truth.prefilled, Some(Nanos::from_millis(1_503)));
    assert_eq!((truth.first_token(), truth.finished), (truth.prefilled, Nanos::from_millis(1_503)));
}
