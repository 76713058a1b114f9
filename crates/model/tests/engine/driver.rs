//! A loop that runs an engine over a list of arrivals, as a virtual-time driver would.

use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::{Config, Order};
use goodput_model::cost::StepCost;
use goodput_model::engine::Engine;
use goodput_model::event::{Event, EventKind};
use goodput_model::policy::Policy;
use goodput_model::request::{Request, RequestId, Truth};
use std::collections::BTreeMap;

/// A small engine of easy figures: a step takes 20 ms, and a prefill of 32,768 tokens 1.48 s more.
pub(crate) fn config(policy: Policy) -> Config {
    Config {
        policy,
        cost: StepCost { base: 20e6, prefill_token: 45_166.015_625, ..StepCost::default() },
        noise_cv: 0.0,
        kv_blocks: 4_096,
        block_size: 16,
        prefix_caching: true,
        max_num_seqs: 256,
        max_num_batched_tokens: 65_536,
        max_model_len: 40_960,
        chunked_prefill: true,
        order: Order::Fcfs,
        max_queued: None,
        max_queued_tokens: None,
        speculation: None,
        stream_interval: 1,
    }
}

pub(crate) fn request(id: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request { id: RequestId(id), prompt_tokens, output_tokens, priority: 0, prefix: [].into() }
}

/// All events of a run over arrivals in order of time; the engine is audited when it is over.
pub(crate) fn run(config: Config, seed: u64, arrivals: &[(Nanos, Request)]) -> Vec<Event> {
    let mut engine = Engine::new(config, Seed(seed)).expect("a configuration that runs");
    let mut events = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    loop {
        let due = engine.next_event();
        match arrivals.peek() {
            Some((at, request)) if due.is_none_or(|due| *at < due) => {
                engine.submit(*at, request);
                arrivals.next();
            }
            // What arrives together is submitted together.
            Some((at, request)) if due == Some(*at) && engine.gauges().running == 0 => {
                engine.submit(*at, request);
                arrivals.next();
            }
            _ => match due {
                Some(due) => engine.advance(due, &mut events),
                None => break,
            },
        }
    }
    assert_eq!(engine.audit(), Ok(()));
    events
}

/// The truths of a run, by request.
pub(crate) fn truths(events: &[Event]) -> BTreeMap<u64, Truth> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Finished(truth) => Some((truth.id.0, (**truth).clone())),
            _ => None,
        })
        .collect()
}

/// Gaps between the chunks of one stream.
pub(crate) fn gaps(events: &[Event], id: u64) -> Vec<Nanos> {
    let chunks: Vec<Nanos> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Tokens { id: RequestId(of), .. } if of == id))
        .map(|event| event.at)
        .collect();
    chunks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// TPOT of one request in milliseconds.
pub(crate) fn tpot_ms(truth: &Truth) -> f64 {
    let (first, last) = (truth.first_token().expect("a token"), truth.last_token().expect("a token"));
    (last - first).as_millis_f64() / f64::from(truth.generated() - 1)
}

/// How many events are of a kind.
pub(crate) fn count(events: &[Event], is: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| is(&event.kind)).count()
}
