//! How fast the simulated engine is: tokens a second of one core, decode-bound at a batch of 256.
//!
//! `cargo bench -p goodput-model`. It prints a table and judges nothing. The target is 5 million tokens a second.

use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Order, Speculation};
use goodput_model::cost::StepCost;
use goodput_model::engine::Engine;
use goodput_model::event::Event;
use goodput_model::policy::Policy;
use goodput_model::prefix::block_hashes;
use goodput_model::request::{Request, RequestId};
use std::time::Instant;

fn config(policy: Policy) -> Config {
    Config {
        policy,
        cost: StepCost {
            base: 6e6,
            prefill_token: 32e3,
            prefill_pair: 1.0,
            decode_token: 32e3,
            kv_token: 49.0,
            ..StepCost::default()
        },
        noise_cv: 0.0,
        kv_blocks: 40_000,
        block_size: 16,
        prefix_caching: true,
        max_num_seqs: 256,
        max_num_batched_tokens: 8_192,
        max_model_len: 8_192,
        chunked_prefill: true,
        order: Order::Fcfs,
        max_queued: None,
        max_queued_tokens: None,
        speculation: None,
        stream_interval: 1,
    }
}

/// Runs `requests` that come faster than they are served, and returns tokens and seconds.
fn measure(config: Config, requests: u64, (prompt, output): (u32, u32)) -> (u64, f64) {
    let block_size = config.block_size;
    let named = |id: u64| {
        let tokens = (0..u64::from(prompt)).map(|i| if i < 256 { i } else { (id << 32) + i });
        let prefix = block_hashes(tokens, block_size).into();
        Request { id: RequestId(id), prompt_tokens: prompt, output_tokens: output, priority: 0, prefix }
    };
    let all: Vec<Request> = (0..requests).map(named).collect();
    let mut engine = Engine::new(config, Seed(1)).expect("the configuration of this benchmark runs");
    let mut events: Vec<Event> = Vec::new();
    let begun = Instant::now();
    for request in &all {
        engine.submit(Nanos::ZERO, request);
    }
    while let Some(due) = engine.next_event() {
        engine.advance(due, &mut events);
        events.clear();
    }
    (engine.counters().generated_tokens, begun.elapsed().as_secs_f64())
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    println!("{:<44} {:>12} {:>10} {:>14}", "load", "tokens", "seconds", "tokens/s");
    let chat = (1_800, 220);
    let rows: [(&str, Config, u64, (u32, u32)); 6] = [
        ("vLLM, decode only, 16 + 8,000 tokens", config(Policy::Vllm), 1_000, (16, 8_000)),
        ("vLLM, chat, 1,800 + 220 tokens", config(Policy::Vllm), 20_000, chat),
        ("SGLang, chat, pages of 16", config(Policy::sglang()), 20_000, chat),
        (
            "SGLang, chat, pages of 1",
            Config { block_size: 1, kv_blocks: 640_000, ..config(Policy::sglang()) },
            20_000,
            chat,
        ),
        (
            "vLLM, chat, a quarter of the KV cache",
            Config { kv_blocks: 10_000, ..config(Policy::Vllm) },
            20_000,
            chat,
        ),
        (
            "vLLM, chat, 3 drafts accepted with 0.7",
            Config { speculation: Some(Speculation { tokens: 3, acceptance: 0.7 }), ..config(Policy::Vllm) },
            20_000,
            chat,
        ),
    ];
    for (name, config, requests, shape) in rows {
        let (tokens, seconds) = measure(config, requests, shape);
        println!("{name:<44} {tokens:>12} {seconds:>10.3} {:>14.0}", tokens as f64 / seconds);
    }
}
