//! The laws an engine checks after every step, of itself.
//!
//! The checks after a step read counters and the running list; [`audit`] recounts everything from the ground.

use crate::scheduler::Scheduler;

/// A law of the engine that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Blocks got lost, or were made.
    #[error("{used} used and {free} free blocks are not {total}")]
    Blocks {
        /// Held by requests.
        used: u32,
        /// Not held.
        free: u32,
        /// All.
        total: u32,
    },
    /// Holders, free list and cache disagree.
    #[error("the block pool does not add up: {0}")]
    Pool(String),
    /// A request runs and waits, or neither.
    #[error("{running} running and {waiting} waiting requests are not {all}")]
    Places {
        /// Running.
        running: usize,
        /// Waiting.
        waiting: usize,
        /// In the engine.
        all: usize,
    },
    /// A request is listed as running and is not, or the other way round.
    #[error("request {id} is not where it is listed")]
    Place {
        /// Which.
        id: u64,
    },
    /// More requests run than may.
    #[error("{running} requests run, max-num-seqs is {limit}")]
    Slots {
        /// Running.
        running: usize,
        /// The limit.
        limit: u32,
    },
    /// A step computed more tokens than it may.
    #[error("a step computed {tokens} tokens, its budget is {budget}")]
    Budget {
        /// Computed.
        tokens: u64,
        /// The budget.
        budget: u32,
    },
    /// A request has more tokens than it asked for or computed more than it knows.
    #[error("request {id} has {generated} of {output} tokens and computed {computed}")]
    Tokens {
        /// Which.
        id: u64,
        /// Generated.
        generated: u32,
        /// Asked for.
        output: u32,
        /// Computed, prompt included.
        computed: u32,
    },
    /// A request holds fewer blocks than its computed tokens need.
    #[error("request {id} computed {computed} tokens and holds {blocks} blocks")]
    Room {
        /// Which.
        id: u64,
        /// Computed.
        computed: u32,
        /// Held.
        blocks: usize,
    },
    /// There is work and no step can be made of it.
    #[error("{running} running and {waiting} waiting requests, and none can be given a token")]
    Stuck {
        /// Running.
        running: usize,
        /// Waiting.
        waiting: usize,
    },
}

/// What one step computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepTokens {
    pub(crate) prefill: u32,
    pub(crate) decode: u32,
}

/// The laws after a step, in time proportional to the running requests.
pub(crate) fn check_step(scheduler: &Scheduler, tokens: StepTokens) -> Result<(), Violation> {
    let Scheduler { config, pool, sequences, running, waiting, .. } = scheduler;
    let (used, free, total) = (pool.used(), pool.free(), pool.total());
    if u64::from(used) + u64::from(free) != u64::from(total) {
        return Err(Violation::Blocks { used, free, total });
    }
    if running.len() + waiting.len() != sequences.len() {
        let (running, waiting, all) = (running.len(), waiting.len(), sequences.len());
        return Err(Violation::Places { running, waiting, all });
    }
    if running.len() > config.max_num_seqs as usize {
        return Err(Violation::Slots { running: running.len(), limit: config.max_num_seqs });
    }
    check_budget(scheduler, tokens)?;
    for slot in running {
        let sequence = &sequences[*slot];
        let id = sequence.id.0;
        if !sequence.is_running {
            return Err(Violation::Place { id });
        }
        let (generated, output, computed) = (sequence.generated, sequence.output, sequence.computed);
        if generated >= output || computed > sequence.known() {
            return Err(Violation::Tokens { id, generated, output, computed });
        }
        if pool.blocks_for(computed) as usize > sequence.table.len() {
            return Err(Violation::Room { id, computed, blocks: sequence.table.len() });
        }
    }
    Ok(())
}

/// vLLM's budget bounds the step, SGLang's the prefill in it, and without chunks a prompt may exceed that.
fn check_budget(scheduler: &Scheduler, tokens: StepTokens) -> Result<(), Violation> {
    let config = &scheduler.config;
    let bounded = match (config.policy.mixes_by_budget(), config.chunked_prefill) {
        (true, _) => u64::from(tokens.prefill) + u64::from(tokens.decode),
        (false, true) => u64::from(tokens.prefill),
        (false, false) => 0,
    };
    if bounded > u64::from(config.max_num_batched_tokens) {
        return Err(Violation::Budget { tokens: bounded, budget: config.max_num_batched_tokens });
    }
    Ok(())
}

/// An engine without a step has no work.
pub(crate) fn check_idle(scheduler: &Scheduler) -> Result<(), Violation> {
    let (running, waiting) = (scheduler.running.len(), scheduler.waiting.len());
    if running + waiting > 0 { Err(Violation::Stuck { running, waiting }) } else { Ok(()) }
}

/// Everything, recounted.
pub(crate) fn audit(scheduler: &Scheduler) -> Result<(), Violation> {
    let Scheduler { pool, sequences, running, by_id, unprefilled_tokens, .. } = scheduler;
    pool.audit(sequences.iter().map(|sequence| &sequence.table)).map_err(Violation::Pool)?;
    let listed = sequences.iter().filter(|sequence| sequence.is_running).count();
    if listed != running.len() || by_id.len() != sequences.len() {
        return Err(Violation::Places {
            running: listed,
            waiting: sequences.len() - listed,
            all: by_id.len(),
        });
    }
    for sequence in sequences.iter() {
        let (id, generated, booked) = (sequence.id.0, sequence.generated, sequence.truth.generated());
        let is_monotone = sequence.truth.tokens.is_sorted_by(|a, b| a.at < b.at);
        if booked != generated || !is_monotone || (!sequence.is_running && !sequence.table.is_empty()) {
            let (output, computed) = (sequence.output, sequence.computed);
            return Err(Violation::Tokens { id, generated, output, computed });
        }
    }
    let unprefilled = sequences.iter().filter(|sequence| sequence.truth.prefilled.is_none());
    let tokens: u64 = unprefilled.map(|sequence| u64::from(sequence.prompt)).sum();
    if tokens != *unprefilled_tokens {
        return Err(Violation::Pool(format!("{unprefilled_tokens} prompt tokens to prefill are {tokens}")));
    }
    Ok(())
}
