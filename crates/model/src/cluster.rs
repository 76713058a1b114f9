//! Replicas behind a router: several engines that share nothing but the requests they are given.
//!
//! The router decides at the instant of arrival, from what the engines know then, and never moves a request later.
//! Events of one instant come in the order of replicas. Sums are sums: no figure of a cluster is an average of its
//! replicas'.

use crate::config::{Config, ConfigError};
use crate::engine::Engine;
use crate::event::{Counters, Event, EventKind, Gauges};
use crate::number_map::NumberMap;
use crate::request::{Request, RequestId};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use serde::{Deserialize, Serialize};

/// How a router chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// In turn.
    #[default]
    RoundRobin,
    /// The fewest requests, running and waiting; of equals the first.
    LeastLoaded,
    /// The longest cached prefix, if it covers at least half of the prompt and its replica is not too far above the
    /// least loaded one; else the least loaded. In the manner of SGLang's cache-aware router, but with exact knowledge
    /// of the caches.
    PrefixAware,
}

impl Routing {
    /// A replica with more requests than this above the least loaded one ...
    const UNBALANCED_BY: u32 = 32;
    /// ... and this many times its number gets no request for its cache alone.
    const UNBALANCED_TIMES: f64 = 1.5;
}

/// An event and the replica it happened in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Number of the replica, from 0.
    pub replica: usize,
    /// What happened.
    pub event: Event,
}

/// Engines of one configuration behind a router.
#[derive(Debug)]
pub struct Cluster {
    engines: Vec<Engine>,
    routing: Routing,
    next: usize,
    /// Where each request in the cluster is.
    placed: NumberMap<RequestId, usize>,
    heard: Vec<Event>,
}

impl Cluster {
    /// `replicas` idle engines, at least one. Each has randomness of its own, drawn from the seed and its number; the
    /// first has that of a single engine.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration could not run.
    pub fn new(config: &Config, replicas: usize, routing: Routing, seed: Seed) -> Result<Self, ConfigError> {
        let engine = |replica: usize| Engine::new(config.clone(), replica_seed(seed, replica));
        let engines = (0..replicas.max(1)).map(engine).collect::<Result<_, _>>()?;
        Ok(Self { engines, routing, next: 0, placed: NumberMap::default(), heard: Vec::new() })
    }

    /// The engines, by number.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// A request arrives and goes to the replica that is returned.
    ///
    /// # Panics
    /// If a request of this name is in that replica already.
    pub fn submit(&mut self, now: Nanos, request: &Request) -> usize {
        let replica = self.route(request);
        self.engines[replica].submit(now, request);
        self.placed.insert(request.id, replica);
        replica
    }

    /// The client gave a request up.
    pub fn cancel(&mut self, now: Nanos, id: RequestId) {
        if let Some(replica) = self.placed.get(&id) {
            self.engines[*replica].cancel(now, id);
        }
    }

    /// When a replica will next do or say something.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.engines.iter().filter_map(Engine::next_event).min()
    }

    /// Does all that is due until `now`, and appends what happened, by time and then by replica.
    ///
    /// # Panics
    /// If an engine breaks one of its own laws: an error in this crate.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Routed>) {
        let first = out.len();
        for (replica, engine) in self.engines.iter_mut().enumerate() {
            engine.advance(now, &mut self.heard);
            for event in self.heard.drain(..) {
                match &event.kind {
                    EventKind::Finished(truth) => self.placed.remove(&truth.id),
                    EventKind::Rejected { id, .. } => self.placed.remove(id),
                    _ => None,
                };
                out.push(Routed { replica, event });
            }
        }
        if self.engines.len() > 1 {
            out[first..].sort_by_key(|routed| routed.event.at);
        }
    }

    /// Empties the prefix cache of every replica, as `/reset_prefix_cache` and `/flush_cache` do.
    pub fn forget_prefixes(&mut self) {
        self.engines.iter_mut().for_each(Engine::forget_prefixes);
    }

    /// Sums over the replicas.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for engine in &self.engines {
            sum.add(engine.counters());
        }
        sum
    }

    /// Sums over the replicas.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.engines.iter().map(Engine::gauges).fold(Gauges::default(), |sum, one| Gauges {
            running: sum.running + one.running,
            waiting: sum.waiting + one.waiting,
            unprefilled_tokens: sum.unprefilled_tokens + one.unprefilled_tokens,
            kv_used: sum.kv_used + one.kv_used,
            kv_total: sum.kv_total + one.kv_total,
        })
    }

    fn route(&mut self, request: &Request) -> usize {
        match self.routing {
            Routing::RoundRobin => {
                let replica = self.next;
                self.next = (replica + 1) % self.engines.len();
                replica
            }
            Routing::LeastLoaded => self.least_loaded(),
            Routing::PrefixAware => self.best_cached(request),
        }
    }

    fn load(&self, replica: usize) -> u32 {
        let gauges = self.engines[replica].gauges();
        gauges.running + gauges.waiting
    }

    fn least_loaded(&self) -> usize {
        (0..self.engines.len()).min_by_key(|replica| self.load(*replica)).unwrap_or(0)
    }

    fn best_cached(&self, request: &Request) -> usize {
        let least = self.least_loaded();
        let cached = |replica: usize| self.engines[replica].cached_tokens(request);
        // Of equals the last wins `max_by_key`, so the key ends with the replica's number turned round.
        let best = (0..self.engines.len()).max_by_key(|replica| (cached(*replica), usize::MAX - replica));
        let best = best.unwrap_or(least);
        let (load, floor) = (self.load(best), self.load(least));
        let unbalanced = load > floor + Routing::UNBALANCED_BY
            && f64::from(load) > f64::from(floor) * Routing::UNBALANCED_TIMES;
        if cached(best) >= request.prompt_tokens.div_ceil(2) && !unbalanced { best } else { least }
    }
}

/// A seed for each replica; the first has the given one.
fn replica_seed(seed: Seed, replica: usize) -> Seed {
    if replica == 0 { seed } else { Seed(seed.stream("replica").at(replica as u64).bits()) }
}
