//! Whatever clients do: the engine's own laws, the laws of what it says, and reproducibility.

use crate::driver::{config, request};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Order, Speculation};
use goodput_model::engine::Engine;
use goodput_model::event::{Event, EventKind};
use goodput_model::policy::{Policy, Sglang};
use goodput_model::prefix::block_hashes;
use goodput_model::request::{End, Request, RequestId};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a client does next.
#[derive(Debug, Clone)]
enum Deed {
    Submit { prompt: u32, output: u32, priority: i32, content: u64 },
    Cancel { nth: usize },
    Wait { ms: u64 },
    Forget,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0_u32..300, 0_u32..60, -2_i32..3, 0_u64..4)
            .prop_map(|(prompt, output, priority, content)| Deed::Submit { prompt, output, priority, content }),
        2 => (0_usize..50).prop_map(|nth| Deed::Cancel { nth }),
        6 => (0_u64..400).prop_map(|ms| Deed::Wait { ms }),
        1 => Just(Deed::Forget),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let policy = prop_oneof![
        Just(Policy::Vllm),
        any::<bool>().prop_map(|mixed_chunk| {
            Policy::Sglang(Sglang { mixed_chunk, max_prefill_tokens: 400, conservativeness: 0.3 })
        }),
    ];
    let knobs = (any::<bool>(), any::<bool>(), any::<bool>(), 1_u32..9, 1_u32..5, 0_u32..4);
    (policy, knobs, 0.0_f64..1.0).prop_map(|(policy, knobs, acceptance)| {
        let (chunked_prefill, prefix_caching, by_priority, max_num_seqs, stream_interval, drafts) = knobs;
        Config {
            kv_blocks: 50,
            block_size: 8,
            max_model_len: 360,
            max_num_batched_tokens: if chunked_prefill { 64 } else { 400 },
            max_num_seqs,
            chunked_prefill,
            prefix_caching,
            stream_interval,
            noise_cv: 0.1,
            order: if by_priority { Order::Priority } else { Order::Fcfs },
            max_queued: Some(12),
            max_queued_tokens: Some(2_000),
            speculation: (drafts > 0).then_some(Speculation { tokens: drafts, acceptance }),
            ..config(policy)
        }
    })
}

/// Does the deeds, then runs until the engine is idle. The engine checks its laws after every step, and everything is
/// recounted after every deed.
fn run(config: Config, deeds: &[Deed]) -> (Engine, Vec<Event>) {
    let mut engine = Engine::new(config, Seed(3)).expect("runs");
    let (mut now, mut events, mut next_id) = (Nanos::ZERO, Vec::new(), 0);
    let block_size = engine.config().block_size;
    for deed in deeds {
        match deed {
            Deed::Submit { prompt, output, priority, content } => {
                let tokens =
                    (0..u64::from(prompt + output)).map(|i| if i < 100 { i } else { i * (content + 1) });
                let prefix = block_hashes(tokens, block_size).into();
                let request = Request { priority: *priority, prefix, ..request(next_id, *prompt, *output) };
                engine.submit(now, &request);
                next_id += 1;
            }
            Deed::Cancel { nth } => engine.cancel(now, RequestId(*nth as u64)),
            Deed::Wait { ms } => {
                now += Nanos::from_millis(*ms);
                engine.advance(now, &mut events);
            }
            Deed::Forget => engine.forget_prefixes(),
        }
        assert_eq!(engine.audit(), Ok(()));
    }
    while let Some(due) = engine.next_event() {
        engine.advance(due, &mut events);
    }
    assert_eq!(engine.audit(), Ok(()));
    (engine, events)
}

/// What a client of one request saw.
#[derive(Debug, Default)]
struct Seen {
    queued: u32,
    rejected: u32,
    admitted: u32,
    preempted: u32,
    prefilled: u32,
    tokens: u32,
    finished: u32,
}

/// Of whom an event speaks.
fn subject(kind: &EventKind) -> Option<RequestId> {
    match kind {
        EventKind::Queued { id }
        | EventKind::Rejected { id, .. }
        | EventKind::Admitted { id, .. }
        | EventKind::Preempted { id }
        | EventKind::Prefilled { id }
        | EventKind::Tokens { id, .. } => Some(*id),
        EventKind::Finished(truth) => Some(truth.id),
        EventKind::Step(_) => None,
    }
}

fn seen(events: &[Event]) -> BTreeMap<u64, Seen> {
    let mut all: BTreeMap<u64, Seen> = BTreeMap::new();
    for event in events {
        let Some(id) = subject(&event.kind) else { continue };
        let seen = all.entry(id.0).or_default();
        assert_eq!((seen.finished, seen.rejected), (0, 0), "nothing is said after the end");
        match &event.kind {
            EventKind::Queued { .. } => seen.queued += 1,
            EventKind::Rejected { .. } => seen.rejected += 1,
            EventKind::Admitted { .. } => seen.admitted += 1,
            EventKind::Preempted { .. } => seen.preempted += 1,
            EventKind::Prefilled { .. } => seen.prefilled += 1,
            EventKind::Tokens { tokens, .. } => seen.tokens += tokens,
            EventKind::Finished(truth) => {
                seen.finished += 1;
                assert_eq!(truth.finished, event.at);
                assert_eq!(truth.preemptions, seen.preempted);
                match truth.end {
                    End::Length => assert_eq!(
                        (truth.generated(), seen.tokens),
                        (truth.output_tokens, truth.output_tokens)
                    ),
                    End::Cancelled => assert!(seen.tokens <= truth.generated()),
                }
                let instants = [Some(truth.queued), truth.admitted, truth.prefilled, Some(truth.finished)];
                assert!(instants.iter().flatten().is_sorted());
            }
            EventKind::Step(_) => {}
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn laws_hold_whatever_clients_do(config in any_config(), deeds in proptest::collection::vec(deed(), 1..60)) {
        let (engine, events) = run(config, &deeds);
        prop_assert!(events.is_sorted_by_key(|event| event.at), "time never goes back");
        let submitted = deeds.iter().filter(|deed| matches!(deed, Deed::Submit { .. })).count();
        let seen = seen(&events);
        prop_assert_eq!(seen.len(), submitted);
        for (id, seen) in &seen {
            prop_assert_eq!(seen.rejected + seen.finished, 1, "request {} ends once", id);
            prop_assert_eq!(seen.queued + seen.rejected, 1);
            prop_assert!(seen.prefilled <= 1 && seen.admitted <= seen.preempted + 1);
        }
        let (counters, gauges) = (engine.counters(), engine.gauges());
        prop_assert_eq!((gauges.running, gauges.waiting, gauges.kv_used), (0, 0, 0));
        prop_assert_eq!(counters.submitted, counters.rejected + counters.finished + counters.cancelled);
        prop_assert!(counters.prefix_hit_tokens <= counters.prefix_queried_tokens);
    }

    #[test]
    fn the_same_calls_give_the_same_bytes(config in any_config(), deeds in proptest::collection::vec(deed(), 1..40)) {
        let bytes = |events: &[Event]| format!("{events:?}").into_bytes();
        let (_, first) = run(config.clone(), &deeds);
        let (_, again) = run(config, &deeds);
        prop_assert_eq!(bytes(&first), bytes(&again));
    }

    #[test]
    fn a_late_caller_gets_the_same_events(outputs in proptest::collection::vec(1_u32..50, 1..20)) {
        let arrive = |engine: &mut Engine| {
            for (id, output) in (0..).zip(&outputs) {
                engine.submit(Nanos::from_millis(1), &request(id, 40, *output));
            }
        };
        let mut prompt = Engine::new(config(Policy::Vllm), Seed(3)).expect("runs");
        let mut late = Engine::new(config(Policy::Vllm), Seed(3)).expect("runs");
        let (mut one_by_one, mut at_once) = (Vec::new(), Vec::new());
        arrive(&mut prompt);
        while let Some(due) = prompt.next_event() {
            prompt.advance(due, &mut one_by_one);
        }
        arrive(&mut late);
        late.advance(Nanos::from_secs(1_000), &mut at_once);
        prop_assert_eq!(one_by_one, at_once);
    }
}

#[test]
fn another_seed_is_another_run() {
    let noisy = Config { noise_cv: 0.1, ..config(Policy::Vllm) };
    let times = |seed| {
        let mut engine = Engine::new(noisy.clone(), Seed(seed)).expect("runs");
        let mut events = Vec::new();
        engine.submit(Nanos::ZERO, &request(0, 16, 50));
        engine.advance(Nanos::from_secs(100), &mut events);
        events
    };
    assert_ne!(times(1), times(2));
    assert_eq!(times(1), times(1));
}
