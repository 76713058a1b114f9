//! One simulated engine: a state machine of continuous batching in exact integer time.
//!
//! A step is planned at an instant, takes the time that its work costs, and at its end every request in it gets its
//! tokens; the next step begins at the same instant if there is work. An idle engine begins a step when a request
//! arrives: at that instant, after all that arrive with it.
//!
//! Of what happens at one instant, the end of a step comes first (its requests in batch order, for each the end of its
//! prefill, its tokens, its end; then the step itself), then the planning of the next (admissions in queue order, then
//! preemptions). Submissions come in the order in which they are made. So ties have one order, and the same calls give
//! the same events on every machine.
//!
//! It never reads a clock, and never looks ahead: what the caller submits at an instant is seen by steps that begin then
//! or later.

use crate::config::{Config, ConfigError, Speculation};
use crate::cost::{Noise, step_time};
use crate::event::{Counters, Event, EventKind, Gauges, StepStats};
use crate::invariant::{self, StepTokens, Violation};
use crate::request::{End, Reject, Request, RequestId, Truth};
use crate::scheduler::{Plan, Scheduler};
use crate::sequence::{Sequence, Slot};
use goodput_core::rng::{Draw, Seed, Stream};
use goodput_core::time::Nanos;

/// The simulated engine.
#[derive(Debug)]
pub struct Engine {
    scheduler: Scheduler,
    noise: Noise,
    /// Luck of drafts, an element a request, in the order of arrival: independent of how requests are batched.
    luck: Stream,
    plan: Plan,
    step: Phase,
    counters: Counters,
    /// Events of submissions and cancellations, until the next `advance`.
    outbox: Vec<Event>,
}

/// What an engine is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing to do.
    Idle,
    /// Work came at this instant; the step begins when all that comes with it is there.
    Woken(Nanos),
    /// A step runs.
    Running { began: Nanos, ends: Nanos },
}

impl Engine {
    /// An idle engine with an empty cache.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration could not run.
    pub fn new(config: Config, seed: Seed) -> Result<Self, ConfigError> {
        config.check()?;
        let drafts = config.drafts() as usize;
        Ok(Self {
            noise: Noise::new(config.noise_cv, seed),
            luck: seed.stream("speculation"),
            scheduler: Scheduler::new(config),
            plan: Plan::default(),
            step: Phase::Idle,
            counters: Counters { accepted_at: vec![0; drafts], ..Counters::default() },
            outbox: Vec::new(),
        })
    }

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.scheduler.config
    }

    /// A request arrives. It is queued or rejected; `advance` tells which.
    ///
    /// Call `advance(now)` first if something is due before `now`; debug builds insist on it.
    ///
    /// # Panics
    /// If a request of this name is in the engine already.
    pub fn submit(&mut self, now: Nanos, request: &Request) {
        debug_assert!(self.due().is_none_or(|due| due >= now), "advance to {now} before submitting at it");
        let number = self.counters.submitted;
        self.counters.submitted += 1;
        assert!(!self.scheduler.by_id.contains_key(&request.id), "request {:?} is in the engine", request.id);
        if let Some(reason) = self.refusal(request) {
            self.counters.rejected += 1;
            self.outbox.push(Event { at: now, kind: EventKind::Rejected { id: request.id, reason } });
            return;
        }
        let config = &self.scheduler.config;
        let hashes = if config.prefix_caching { request.prefix.clone() } else { [].into() };
        let sequence = Sequence {
            id: request.id,
            prompt: request.prompt_tokens,
            output: request.output_tokens,
            generated: 0,
            computed: 0,
            prefill_until: 0,
            unsent: 0,
            scheduled: 0,
            published: 0,
            is_running: false,
            is_cancelled: false,
            table: Vec::new(),
            hashes,
            rank: config.policy.rank(config.order, request.priority),
            order: 0,
            luck: config.speculation.map(|_| Box::new(self.luck.at(number))),
            truth: Box::new(Truth::arrived(request, now)),
        };
        self.scheduler.enqueue(sequence);
        self.outbox.push(Event { at: now, kind: EventKind::Queued { id: request.id } });
        if self.step == Phase::Idle {
            self.step = Phase::Woken(now);
        }
    }

    fn refusal(&self, request: &Request) -> Option<Reject> {
        let config = &self.scheduler.config;
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.output_tokens);
        if request.prompt_tokens == 0 || request.output_tokens == 0 {
            return Some(Reject::Empty);
        }
        if tokens > u64::from(config.max_model_len) {
            return Some(Reject::TooLong { tokens, max_model_len: config.max_model_len });
        }
        let queued = config.policy.queued(self.scheduler.waiting.len(), self.scheduler.running.len());
        if let Some(limit) = config.max_queued
            && queued >= limit as usize
        {
            return Some(Reject::QueueFull { limit });
        }
        let limit = config.max_queued_tokens?;
        (self.scheduler.unprefilled_tokens >= limit).then_some(Reject::QueueTokens { limit })
    }

    /// The client gave a request up. One that waits leaves at once; one that has a part in a step leaves, with its slot
    /// and its blocks, when that step ends, and gets no token of it. Unknown names are ignored: the request may have
    /// ended meanwhile.
    pub fn cancel(&mut self, now: Nanos, id: RequestId) {
        let Some(slot) = self.scheduler.by_id.get(&id).copied() else { return };
        let sequence = &mut self.scheduler.sequences[slot];
        if sequence.is_running {
            sequence.is_cancelled = true;
        } else {
            let gone = self.leave(now, slot, End::Cancelled);
            self.outbox.push(gone);
        }
    }

    /// When the engine will next do or say something; `None` if only a submission can make it.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let told = self.outbox.first().map(|event| event.at);
        [told, self.due()].into_iter().flatten().min()
    }

    /// When the next step begins or the one in flight ends.
    fn due(&self) -> Option<Nanos> {
        match self.step {
            Phase::Idle => None,
            Phase::Woken(at) | Phase::Running { ends: at, .. } => Some(at),
        }
    }

    /// Does all that is due until `now`, and appends what happened, in order.
    ///
    /// # Panics
    /// If the engine breaks one of its own laws (see [`Violation`]): an error in this crate.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Event>) {
        loop {
            out.append(&mut self.outbox);
            match self.step {
                Phase::Woken(at) if at <= now => self.begin_step(at, out),
                Phase::Running { began, ends } if ends <= now => {
                    self.end_step(began, ends, out);
                    self.begin_step(ends, out);
                }
                _ => return,
            }
        }
    }

    /// Sums since the beginning.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let Scheduler { pool, running, waiting, unprefilled_tokens, .. } = &self.scheduler;
        Gauges {
            running: count(running.len()),
            waiting: count(waiting.len()),
            unprefilled_tokens: *unprefilled_tokens,
            kv_used: pool.used(),
            kv_total: pool.total(),
        }
    }

    /// Leading tokens of a request that are in the prefix cache now.
    #[must_use]
    pub fn cached_tokens(&self, request: &Request) -> u32 {
        count(self.scheduler.pool.cached_prefix(&request.prefix)) * self.scheduler.pool.block_size()
    }

    /// Empties the prefix cache, as `/reset_prefix_cache` and `/flush_cache` do.
    pub fn forget_prefixes(&mut self) {
        self.scheduler.pool.forget_all();
        for slot in &self.scheduler.running {
            // What is held now will not be put into the cache again.
            let sequence = &mut self.scheduler.sequences[*slot];
            sequence.published = u32::MAX;
        }
    }

    /// Recounts everything that the checks after each step take from counters. Slow; for tests.
    ///
    /// # Errors
    /// The law that is broken.
    pub fn audit(&self) -> Result<(), Violation> {
        invariant::audit(&self.scheduler)
    }

    fn begin_step(&mut self, now: Nanos, out: &mut Vec<Event>) {
        self.scheduler.plan(&mut self.plan);
        for (slot, cached_tokens) in &self.plan.admitted {
            let sequence = &mut self.scheduler.sequences[*slot];
            if sequence.truth.admitted.is_none() {
                sequence.truth.admitted = Some(now);
                sequence.truth.cached_tokens = *cached_tokens;
                self.counters.prefix_queried_tokens += u64::from(sequence.prompt);
                self.counters.prefix_hit_tokens += u64::from(*cached_tokens);
            }
            let kind = EventKind::Admitted { id: sequence.id, cached_tokens: *cached_tokens };
            out.push(Event { at: now, kind });
        }
        for slot in &self.plan.preempted {
            let id = self.scheduler.sequences[*slot].id;
            out.push(Event { at: now, kind: EventKind::Preempted { id } });
        }
        self.counters.preemptions += self.plan.preempted.len() as u64;
        if self.plan.batch.is_empty() {
            self.step = Phase::Idle;
            hold(invariant::check_idle(&self.scheduler));
            return;
        }
        let Config { cost, .. } = &self.scheduler.config;
        let numbered = (self.counters.steps, self.scheduler.config.drafts());
        let time = step_time(cost, &self.noise, &self.plan.work, numbered);
        self.step = Phase::Running { began: now, ends: now.saturating_add(time) };
    }

    fn end_step(&mut self, began: Nanos, now: Nanos, out: &mut Vec<Event>) {
        let tokens = StepTokens {
            prefill: count64(self.plan.work.prefill_tokens),
            decode: count64(self.plan.work.decode_tokens),
        };
        let mut stats = StepStats {
            step: self.counters.steps,
            began,
            ended: now,
            running: count(self.scheduler.running.len()),
            waiting: count(self.scheduler.waiting.len()),
            kv_used: self.scheduler.pool.used(),
            kv_total: self.scheduler.pool.total(),
            prefill_tokens: tokens.prefill,
            decode_tokens: tokens.decode,
            generated_tokens: 0,
            preempted: count(self.plan.preempted.len()),
        };
        self.counters.steps += 1;
        self.counters.busy_ns += (now - began).0;
        self.counters.prefill_tokens += self.plan.work.prefill_tokens;
        let batch = std::mem::take(&mut self.plan.batch);
        let mut left = false;
        for slot in &batch {
            stats.generated_tokens += self.progress(now, *slot, out);
            let sequence = &self.scheduler.sequences[*slot];
            let end = if sequence.is_cancelled {
                End::Cancelled
            } else if sequence.remaining() == 0 {
                End::Length
            } else {
                continue;
            };
            out.push(self.leave(now, *slot, end));
            left = true;
        }
        left |= self.reap_cancelled(now, out);
        if left {
            let Scheduler { running, sequences, .. } = &mut self.scheduler;
            running.retain(|slot| sequences.is_running(*slot));
        }
        self.counters.generated_tokens += u64::from(stats.generated_tokens);
        self.plan.batch = batch;
        out.push(Event { at: now, kind: EventKind::Step(Box::new(stats)) });
        hold(invariant::check_step(&self.scheduler, tokens));
    }

    /// What the step in flight did for one request. Returns the tokens that it generated.
    fn progress(&mut self, now: Nanos, slot: Slot, out: &mut Vec<Event>) -> u32 {
        let speculation = self.scheduler.config.speculation;
        let sequence = &mut self.scheduler.sequences[slot];
        let scheduled = std::mem::take(&mut sequence.scheduled);
        if sequence.is_cancelled {
            return 0;
        }
        let generated = if sequence.is_prefilling() {
            sequence.computed += scheduled;
            u32::from(!sequence.is_prefilling())
        } else {
            let accepted = match (speculation, &mut sequence.luck) {
                (Some(speculation), Some(luck)) => {
                    accept(&speculation, scheduled - 1, luck, &mut self.counters)
                }
                _ => 0,
            };
            let generated = (1 + accepted).min(sequence.remaining());
            sequence.computed += generated;
            generated
        };
        self.publish(slot);
        if generated > 0 {
            self.say(now, slot, generated, out);
        }
        generated
    }

    /// Puts blocks that were filled into the prefix cache.
    fn publish(&mut self, slot: Slot) {
        let Scheduler { sequences, pool, .. } = &mut self.scheduler;
        let sequence = &mut sequences[slot];
        let filled = (sequence.computed / pool.block_size()).min(count(sequence.hashes.len()));
        if filled > sequence.published {
            let from = sequence.published as usize;
            pool.publish(&sequence.table, &sequence.hashes[..filled as usize], from);
            sequence.published = filled;
        }
    }

    /// Books generated tokens and shows them if the stream's interval is full.
    fn say(&mut self, now: Nanos, slot: Slot, generated: u32, out: &mut Vec<Event>) {
        let interval = self.scheduler.config.stream_interval;
        let sequence = &mut self.scheduler.sequences[slot];
        let is_first = sequence.generated == 0;
        if is_first {
            self.scheduler.unprefilled_tokens -= u64::from(sequence.prompt);
            sequence.truth.prefilled = Some(now);
            out.push(Event { at: now, kind: EventKind::Prefilled { id: sequence.id } });
        }
        sequence.generated += generated;
        sequence.unsent += generated;
        sequence.truth.book(now, generated);
        if is_first || sequence.unsent >= interval || sequence.remaining() == 0 {
            let tokens = std::mem::take(&mut sequence.unsent);
            out.push(Event { at: now, kind: EventKind::Tokens { id: sequence.id, tokens } });
        }
    }

    /// Requests given up that had no part in the step: running ones that the budget left out.
    fn reap_cancelled(&mut self, now: Nanos, out: &mut Vec<Event>) -> bool {
        if self.plan.batch.len() == self.scheduler.running.len() {
            return false;
        }
        let Scheduler { running, sequences, .. } = &self.scheduler;
        let is_gone = |slot: &Slot| sequences.is_running(*slot) && sequences[*slot].is_cancelled;
        let gone: Vec<Slot> = running.iter().copied().filter(is_gone).collect();
        for slot in &gone {
            out.push(self.leave(now, *slot, End::Cancelled));
        }
        !gone.is_empty()
    }

    /// Takes a request out and tells its truth.
    fn leave(&mut self, now: Nanos, slot: Slot, end: End) -> Event {
        let mut truth = self.scheduler.take_out(slot).truth;
        truth.finished = now;
        truth.end = end;
        match end {
            End::Length => self.counters.finished += 1,
            End::Cancelled => self.counters.cancelled += 1,
        }
        Event { at: now, kind: EventKind::Finished(truth) }
    }
}

/// Accepted drafts of one request in one step: as many as are accepted before the first that is not.
fn accept(speculation: &Speculation, drafts: u32, luck: &mut Draw, counters: &mut Counters) -> u32 {
    let mut accepted = 0;
    while accepted < drafts && luck.unit() < speculation.acceptance {
        counters.accepted_at[accepted as usize] += 1;
        accepted += 1;
    }
    counters.drafts += 1;
    counters.draft_tokens += u64::from(drafts);
    counters.accepted_tokens += u64::from(accepted);
    accepted
}

/// A broken law of the engine's own is an error of this crate, and no figure made after it is worth anything.
fn hold(law: Result<(), Violation>) {
    if let Err(violation) = law {
        panic!("the engine broke a law of its own: {violation}");
    }
}

/// A number of things as a figure.
fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}

/// A number of tokens of one step as a figure.
fn count64(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
