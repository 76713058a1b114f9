//! Too little KV cache: preemption and what it costs.

use crate::driver::{config, count, request, run, truths};
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Order};
use goodput_model::event::{Event, EventKind};
use goodput_model::policy::Policy;
use goodput_model::request::{Request, RequestId};

/// Room for 64 blocks of 16: the prompts of eight requests, and not their answers.
fn tight(policy: Policy) -> Config {
    Config { kv_blocks: 64, max_model_len: 512, prefix_caching: false, ..config(policy) }
}

fn eight() -> Vec<(Nanos, Request)> {
    (0..8).map(|id| (Nanos::from_millis(id), request(id, 100, 200))).collect()
}

fn preemptions(events: &[Event]) -> usize {
    count(events, |kind| matches!(kind, EventKind::Preempted { .. }))
}

#[test]
fn pressure_preempts_and_everybody_still_gets_all_tokens() {
    for policy in [Policy::Vllm, Policy::sglang()] {
        let events = run(tight(policy), 1, &eight());
        let truths = truths(&events);
        assert!(preemptions(&events) > 0, "{policy:?}");
        assert_eq!(truths.len(), 8);
        assert!(truths.values().all(|truth| truth.generated() == 200));
        let counted: u32 = truths.values().map(|truth| truth.preemptions).sum();
        assert_eq!(counted as usize, preemptions(&events));
    }
}

#[test]
fn room_enough_preempts_nobody() {
    for policy in [Policy::Vllm, Policy::sglang()] {
        assert_eq!(preemptions(&run(config(policy), 1, &eight())), 0);
    }
}

#[test]
fn recomputing_costs_prefill() {
    let prefilled = |config: Config| -> u32 {
        let events = run(config, 1, &eight());
        let steps = events.iter().filter_map(|event| match &event.kind {
            EventKind::Step(stats) => Some(stats.prefill_tokens),
            _ => None,
        });
        steps.sum()
    };
    assert_eq!(prefilled(config(Policy::Vllm)), 800);
    let lost = prefilled(tight(Policy::Vllm)) - 800;
    assert!(lost > 800, "prompts and the tokens generated so far are computed again: {lost}");
}

#[test]
fn vllm_takes_from_the_last_and_the_first_never_waits() {
    let events = run(tight(Policy::Vllm), 1, &eight());
    let truths = truths(&events);
    assert_eq!(truths[&0].preemptions, 0);
    assert!(truths[&7].preemptions > 0);
    assert!(truths[&0].finished < truths[&7].finished);
}

#[test]
fn the_urgent_keep_their_blocks_under_priority() {
    let mut config = tight(Policy::Vllm);
    config.order = Order::Priority;
    // The last to come is the most urgent, and the first the least.
    let arrivals: Vec<_> = eight()
        .into_iter()
        .map(|(at, request)| {
            (at, Request { priority: 10 - i32::try_from(request.id.0).expect("small"), ..request })
        })
        .collect();
    let truths = truths(&run(config, 1, &arrivals));
    assert_eq!(truths[&7].preemptions, 0);
    assert!(truths[&0].preemptions > 0);
    assert!(truths[&7].finished < truths[&0].finished);
}

#[test]
fn usage_reaches_the_ceiling_and_never_beyond() {
    let events = run(tight(Policy::Vllm), 1, &eight());
    let used: Vec<(u32, u32)> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Step(stats) => Some((stats.kv_used, stats.kv_total)),
            _ => None,
        })
        .collect();
    assert!(used.iter().all(|(used, total)| used <= total && *total == 64));
    assert!(used.iter().any(|(used, _)| *used >= 60), "pressure there was");
}

#[test]
fn sglang_keeps_room_for_answers_and_so_preempts_less() {
    let vllm = preemptions(&run(tight(Policy::Vllm), 1, &eight()));
    let sglang = preemptions(&run(tight(Policy::sglang()), 1, &eight()));
    assert!(sglang < vllm, "{sglang} of SGLang, {vllm} of vLLM");
}

#[test]
fn a_preempted_request_says_so_between_its_admissions() {
    let events = run(tight(Policy::Vllm), 1, &eight());
    let of_last: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Admitted { id: RequestId(7), .. } => Some("admitted"),
            EventKind::Preempted { id: RequestId(7) } => Some("preempted"),
            EventKind::Prefilled { id: RequestId(7) } => Some("prefilled"),
            EventKind::Finished(truth) if truth.id == RequestId(7) => Some("finished"),
            _ => None,
        })
        .collect();
    assert_eq!(of_last.first(), Some(&"admitted"));
    assert_eq!(of_last.last(), Some(&"finished"));
    assert_eq!(of_last.iter().filter(|what| **what == "prefilled").count(), 1, "the first time only");
    let admitted = of_last.iter().filter(|what| **what == "admitted").count();
    let preempted = of_last.iter().filter(|what| **what == "preempted").count();
    assert_eq!(admitted, preempted + 1);
}
