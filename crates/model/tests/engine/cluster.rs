//! Replicas behind a router.

use crate::driver::{config, request};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::cluster::{Cluster, Routed, Routing};
use goodput_model::config::Config;
use goodput_model::event::EventKind;
use goodput_model::policy::Policy;
use goodput_model::prefix::block_hashes;
use goodput_model::request::{Request, RequestId};

fn cluster(replicas: usize, routing: Routing) -> Cluster {
    Cluster::new(&config(Policy::Vllm), replicas, routing, Seed(1)).expect("runs")
}

fn drain(cluster: &mut Cluster) -> Vec<Routed> {
    let mut events = Vec::new();
    while let Some(due) = cluster.next_event() {
        cluster.advance(due, &mut events);
    }
    events
}

/// A request whose first 800 of 1,000 tokens are those of its family.
fn of_family(id: u64, family: u64) -> Request {
    let tokens = (0..1_000).map(|i| if i < 800 { family * 10_000 + i } else { (id + 100) * 10_000 + i });
    Request { prefix: block_hashes(tokens, 16).into(), ..request(id, 1_000, 5) }
}

#[test]
fn round_robin_takes_turns() {
    let mut cluster = cluster(3, Routing::RoundRobin);
    let placed: Vec<usize> = (0..7).map(|id| cluster.submit(Nanos::ZERO, &request(id, 16, 5))).collect();
    assert_eq!(placed, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn the_least_loaded_gets_the_next() {
    let mut cluster = cluster(3, Routing::LeastLoaded);
    let mut events = Vec::new();
    let lengths = [100, 1, 100, 100, 100];
    let placed: Vec<usize> = (0..)
        .zip(lengths)
        .map(|(id, output)| {
            let at = Nanos::from_millis(30 * id);
            cluster.advance(at, &mut events);
            cluster.submit(at, &request(id, 16, output))
        })
        .collect();
    assert_eq!(placed, [0, 1, 1, 2, 0], "the second had ended when the third came");
}

#[test]
fn prefixes_find_their_replica_unless_it_is_swamped() {
    let mut prefixes = cluster(2, Routing::PrefixAware);
    let mut at = Nanos::ZERO;
    let mut place = |cluster: &mut Cluster, id, family| {
        let replica = cluster.submit(at, &of_family(id, family));
        drain(cluster);
        at += Nanos::from_secs(10);
        replica
    };
    let first = place(&mut prefixes, 0, 1);
    assert_eq!(first, 0, "nothing is known, and both are idle");
    assert!((1..5).all(|id| place(&mut prefixes, id, 1) == first));
    assert_eq!(prefixes.counters().prefix_hit_tokens, 4 * 800);
    // A burst of the same family: the other replica takes over when the first has 32 more.
    let burst: Vec<usize> = (10..80).map(|id| prefixes.submit(at, &of_family(id, 1))).collect();
    assert!(burst[..33].iter().all(|replica| *replica == first));
    assert!(burst[33..].contains(&1));
}

#[test]
fn sums_are_the_replicas_sums() {
    let mut cluster = cluster(3, Routing::RoundRobin);
    let mut events = Vec::new();
    for id in 0..30 {
        let at = Nanos::from_millis(7 * id);
        cluster.advance(at, &mut events);
        cluster.submit(at, &request(id, 100, 20));
    }
    events.extend(drain(&mut cluster));
    assert!(events.is_sorted_by_key(|routed| routed.event.at));
    let counters = cluster.counters();
    let of_each: u64 = cluster.engines().iter().map(|engine| engine.counters().generated_tokens).sum();
    assert_eq!((counters.generated_tokens, of_each), (600, 600));
    assert_eq!((counters.submitted, counters.finished), (30, 30));
    let finished = |replica: usize| {
        events
            .iter()
            .filter(|routed| routed.replica == replica && matches!(routed.event.kind, EventKind::Finished(_)))
            .count()
    };
    assert_eq!([finished(0), finished(1), finished(2)], [10, 10, 10]);
    assert_eq!(cluster.gauges().kv_total, 3 * 4_096);
}

#[test]
fn one_replica_is_an_engine() {
    let mut alone = goodput_model::engine::Engine::new(config(Policy::Vllm), Seed(1)).expect("runs");
    let mut cluster = cluster(1, Routing::LeastLoaded);
    for id in 0..10 {
        let request = request(id, 100, 20);
        alone.submit(Nanos::ZERO, &request);
        cluster.submit(Nanos::ZERO, &request);
    }
    let mut events = Vec::new();
    while let Some(due) = alone.next_event() {
        alone.advance(due, &mut events);
    }
    let of_cluster: Vec<_> = drain(&mut cluster).into_iter().map(|routed| routed.event).collect();
    assert_eq!(of_cluster, events);
}

#[test]
fn a_cancellation_finds_its_replica() {
    let mut cluster = cluster(2, Routing::RoundRobin);
    for id in 0..4 {
        cluster.submit(Nanos::ZERO, &request(id, 16, 50));
    }
    cluster.cancel(Nanos::ZERO, RequestId(3));
    drain(&mut cluster);
    assert_eq!((cluster.counters().cancelled, cluster.counters().finished), (1, 3));
}

#[test]
fn replicas_have_noise_of_their_own() {
    let noisy = Config { noise_cv: 0.2, ..config(Policy::Vllm) };
    let mut cluster = Cluster::new(&noisy, 2, Routing::RoundRobin, Seed(1)).expect("runs");
    for id in 0..2 {
        cluster.submit(Nanos::ZERO, &request(id, 16, 50));
    }
    drain(&mut cluster);
    let busy: Vec<u64> = cluster.engines().iter().map(|engine| engine.counters().busy_ns).collect();
    assert_ne!(busy[0], busy[1]);
}
