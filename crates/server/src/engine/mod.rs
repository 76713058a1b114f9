//! The simulated engine as a service: requests in, chunks out, at the engine's own instants.
//!
//! [`Simulated`] knows the engines, who waits for what on which connection, and the metrics page. It is driven by the
//! event loop, which hands it the time and carries its [`News`] to the connections; it reads no clock and knows no
//! socket, so a test can drive it with any times.
//!
//! It shares the loop of the exact server instead of having a server of its own: the loop writes each chunk by itself at
//! its due time, knows how late it was, and costs a few microseconds a token.

mod answer;
mod page;
mod prompt;
mod routes;
#[cfg(test)]
mod tests;
mod wall;

use crate::answer::Answer;
use crate::ask::Ask;
use crate::fault::{FaultRule, Faults};
use crate::http::Request;
use crate::meta::Seen;
use crate::order::{self, Occasion};
use crate::shape::{Dialect, Labels, Shape, Voice};
use crate::stream::Stream;
use crate::truth::EngineAccount;
use crate::truth_file::EngineInstants;
use answer::Kind;
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::cluster::{Cluster, Routed, Routing};
use goodput_model::config::{Config, ConfigError};
use goodput_model::event::EventKind;
use goodput_model::policy::EngineName;
use goodput_model::request::{End, Reject, Request as EngineRequest, RequestId, Truth};
use goodput_observe::page::{Asked, Buckets};
use page::Told;
use std::collections::HashMap;
use wall::Wall;

pub(crate) use answer::EngineAnswer;
pub use wall::{Speed, SpeedError};

/// What `goodput sim serve` serves.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// One engine; its policy decides about routes, bytes and metrics page too.
    pub config: Config,
    /// How many of them.
    pub replicas: usize,
    /// How they share the requests.
    pub routing: Routing,
    /// Root of the engine's draws and of those of faults.
    pub seed: Seed,
    /// The model's name on `/v1/models`, on the metrics page, and in answers to requests that name none.
    pub model: String,
    /// Tokens of a chat answer whose request gives no limit.
    pub tokens: u32,
    /// How fast the engine's clock runs.
    pub speed: Speed,
    /// What goes wrong, in order; a request's own header is applied after them.
    pub faults: Vec<FaultRule>,
    /// SGLang frames carry only the new text instead of all so far.
    pub incremental: bool,
    /// Edges of histograms on the metrics page, where they are not the engine's defaults.
    pub buckets: Buckets,
}

/// The service.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) config: EngineConfig,
    dialect: Dialect,
    wall: Wall,
    told: Told,
    /// Requests in the engine by its names, and who waits for them.
    flights: HashMap<RequestId, Flight>,
    next: u64,
    /// Unix time of the server's zero.
    anchor: Nanos,
    heard: Vec<Routed>,
    /// What the page has not been told yet.
    untold: Vec<Routed>,
    news: Vec<News>,
}

/// A request in the engine.
#[derive(Debug, Clone, Copy)]
struct Flight {
    waiter: Waiter,
    /// When it came to the server.
    arrived: Nanos,
    seen: Seen,
}

/// A connection that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) place: usize,
    /// Tells the connection from a later one at the same place.
    pub(crate) number: u64,
}

/// What an answer hears of the engine.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) waiter: Waiter,
    pub(crate) id: RequestId,
    pub(crate) at: Nanos,
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Tokens; the last ones come with the request's whole way through the engine.
    Tokens { tokens: u32, seen: Seen, end: Option<EngineInstants> },
    /// It was turned away.
    Refused(Reject),
}

impl Simulated {
    /// Idle engines. `anchor` is the Unix time of the server's zero.
    pub(crate) fn new(config: EngineConfig, anchor: Nanos) -> Result<Self, ConfigError> {
        let cluster = Cluster::new(&config.config, config.replicas, config.routing, config.seed)?;
        let labels = (config.model.as_str(), config.buckets.clone());
        Ok(Self {
            dialect: match config.config.policy.engine() {
                EngineName::Vllm => Dialect::Vllm,
                EngineName::Sglang => Dialect::Sglang,
            },
            told: Told::new(&config.config, &cluster, labels, anchor),
            wall: Wall::new(cluster, config.speed),
            flights: HashMap::new(),
            next: 0,
            anchor,
            heard: Vec::new(),
            untold: Vec::new(),
            news: Vec::new(),
            config,
        })
    }

    /// The answer to a request; what becomes of it comes as news.
    pub(crate) fn answer(
        &mut self,
        shape: Shape,
        request: &Request,
        occasion: Occasion,
        waiter: Waiter,
    ) -> Answer {
        match order::read(request, &self.config.faults, self.config.seed, occasion) {
            Ok((ask, faults)) => self.generate((shape, request, &ask, &faults), occasion, waiter),
            Err(answer) => *answer,
        }
    }

    fn generate(
        &mut self,
        (shape, request, ask, faults): (Shape, &Request, &Ask, &Faults),
        occasion: Occasion,
        waiter: Waiter,
    ) -> Answer {
        let at = occasion.start;
        let id = RequestId(self.next);
        self.next += 1;
        let prompt_tokens = u32::try_from(ask.prompt_tokens()).unwrap_or(u32::MAX);
        let (output_tokens, at_limit) = self.length(shape, ask, prompt_tokens);
        let labels = Labels {
            n: occasion.n,
            created: occasion.created,
            model: ask.model.clone().unwrap_or_else(|| self.config.model.clone()),
            dialect: self.dialect,
        };
        let mut voice = Voice::new(shape, &labels, ask, faults, at_limit);
        if ask.return_token_ids() {
            voice.prompt_ids = prompt::ids(&request.body);
        }
        let kind = Kind { shape, dialect: self.dialect, is_stream: ask.stream() && !faults.json };
        self.advance(at);
        let asked = Asked {
            prompt_tokens: ask.prompt_tokens(),
            max_tokens: Some(u64::from(output_tokens)),
            streaming: ask.stream(),
            choice: None,
        };
        self.tell_page();
        self.told.arrived(at, id.0, asked);
        let seen = Seen { received: self.unix(at), ..Seen::default() };
        self.flights.insert(id, Flight { waiter, arrived: at, seen });
        let engine_request = EngineRequest {
            id,
            prompt_tokens,
            output_tokens,
            priority: ask.priority.unwrap_or_default(),
            prefix: prompt::prefix(&request.body, self.config.config.block_size).into(),
        };
        self.wall.submit(at, &engine_request, &mut self.heard);
        self.digest();
        let stream = Stream::new(voice, output_tokens, faults, request);
        Answer::Engine(Box::new(EngineAnswer::new(id, kind, stream, request, at)))
    }

    /// How many tokens the answer has, and whether a limit ends it. Without one in the request it is that of the
    /// protocol: 16 for completions, 128 for SGLang's own.
    fn length(&self, shape: Shape, ask: &Ask, prompt: u32) -> (u32, bool) {
        if let Some(limit) = ask.limit() {
            return (limit, true);
        }
        let room = self.config.config.max_model_len.saturating_sub(prompt).max(1);
        let (tokens, at_limit) = match shape {
            Shape::Chat => (self.config.tokens, false),
            Shape::Completions => (16, true),
            Shape::Generate { .. } => (128, true),
        };
        (tokens.min(room), at_limit || room <= tokens)
    }

    /// When the engine next has something to say.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.wall.due()
    }

    /// Lets the engine go on until `now`.
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.wall.advance(now, &mut self.heard);
        self.digest();
    }

    /// What has happened since the last call, in order.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The client of a request went away, or its answer is over before the engine is done with it.
    pub(crate) fn cancel(&mut self, now: Nanos, id: RequestId) {
        if self.flights.remove(&id).is_some() {
            self.wall.cancel(now, id);
            self.tell_page();
            self.told.given_up(now, id.0);
        }
    }

    /// The engine's own sums.
    pub(crate) fn account(&self) -> EngineAccount {
        let (counters, gauges) = (self.wall.cluster.counters(), self.wall.cluster.gauges());
        EngineAccount {
            finished: counters.finished,
            cancelled: counters.cancelled,
            rejected: counters.rejected,
            preemptions: counters.preemptions,
            steps: counters.steps,
            prefill_tokens: counters.prefill_tokens,
            generated_tokens: counters.generated_tokens,
            prefix_queried_tokens: counters.prefix_queried_tokens,
            prefix_hit_tokens: counters.prefix_hit_tokens,
            running: gauges.running,
            waiting: gauges.waiting,
            kv_blocks_used: gauges.kv_used,
        }
    }

    /// Tells the page what happened. The loop does so when what is due is written: a scrape can wait and a chunk cannot.
    pub(crate) fn tell_page(&mut self) {
        for Routed { replica, event } in self.untold.drain(..) {
            let at = self.wall.speed.wall(event.at);
            self.told.event(at, replica, &event.kind, &self.wall.cluster);
        }
    }

    /// Turns what was heard into news, and keeps it for the page.
    fn digest(&mut self) {
        self.tell_page();
        let heard = std::mem::take(&mut self.heard);
        let mut events = heard.iter().peekable();
        while let Some(Routed { event, .. }) = events.next() {
            let at = self.wall.speed.wall(event.at);
            match &event.kind {
                EventKind::Tokens { id, tokens } => {
                    // A request's end follows its last tokens at once.
                    let next = events.peek().map(|next| &next.event.kind);
                    let end = next.and_then(|kind| match kind {
                        EventKind::Finished(truth) if truth.id == *id && truth.end == End::Length => {
                            Some(truth)
                        }
                        _ => None,
                    });
                    self.tokens(at, (*id, *tokens), end.map(|truth| &**truth));
                }
                EventKind::Rejected { id, reason } => {
                    if let Some(flight) = self.flights.remove(id) {
                        let what = What::Refused(*reason);
                        self.news.push(News { waiter: flight.waiter, id: *id, at, what });
                    }
                }
                kind => self.note(self.unix(at), kind),
            }
        }
        self.heard = std::mem::replace(&mut self.untold, heard);
    }

    fn tokens(&mut self, at: Nanos, (id, tokens): (RequestId, u32), truth: Option<&Truth>) {
        let now = self.unix(at);
        let Some(flight) = self.flights.get_mut(&id) else { return };
        flight.seen.now = now;
        let Flight { waiter, arrived, seen } = *flight;
        let end = truth.map(|truth| self.instants(truth, arrived));
        if end.is_some() {
            self.flights.remove(&id);
        }
        self.news.push(News { waiter, id, at, what: What::Tokens { tokens, seen, end } });
    }

    /// Keeps what the answer will say of the request's way.
    fn note(&mut self, now: Nanos, kind: &EventKind) {
        let (EventKind::Admitted { id, .. } | EventKind::Prefilled { id } | EventKind::Preempted { id }) =
            kind
        else {
            return;
        };
        let Some(Flight { seen, .. }) = self.flights.get_mut(id) else { return };
        match kind {
            EventKind::Admitted { cached_tokens, .. } if seen.admitted == Nanos::ZERO => {
                (seen.admitted, seen.cached_tokens) = (now, *cached_tokens);
            }
            EventKind::Prefilled { .. } => seen.prefilled = now,
            EventKind::Preempted { .. } => seen.retractions += 1,
            _ => {}
        }
    }

    fn instants(&self, truth: &Truth, arrived: Nanos) -> EngineInstants {
        let since = |at: Nanos| self.wall.speed.wall(at).since(arrived).0;
        EngineInstants {
            prompt_tokens: truth.prompt_tokens,
            cached_tokens: truth.cached_tokens,
            preemptions: truth.preemptions,
            arrived_ns: since(truth.arrived),
            queued_ns: since(truth.queued),
            admitted_ns: truth.admitted.map(since),
            prefilled_ns: truth.prefilled.map(since),
            finished_ns: since(truth.finished),
        }
    }

    fn unix(&self, at: Nanos) -> Nanos {
        self.anchor.saturating_add(at)
    }
}
