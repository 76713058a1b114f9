//! What a step computes: iteration-level scheduling (Yu et al. 2022, "Orca") over paged KV blocks.
//!
//! Before each step, [`Scheduler::plan`] gives every running request its tokens, takes up waiting ones while budget,
//! slots and blocks last, and takes blocks from the victims of the [`Policy`](crate::policy::Policy) where they do not.
//! It knows no time: the engine says when a step ends, and what came of it.

use crate::config::Config;
use crate::cost::StepWork;
use crate::kv::BlockPool;
use crate::number_map::NumberMap;
use crate::policy::{Candidate, Policy, Requeue, Reserve, Sglang};
use crate::request::RequestId;
use crate::sequence::{Sequence, Sequences, Slot, Waiting};

/// The state that scheduling works on.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) config: Config,
    pub(crate) pool: BlockPool,
    pub(crate) sequences: Sequences,
    pub(crate) by_id: NumberMap<RequestId, Slot>,
    /// Requests with a slot, in the order in which they were taken up.
    pub(crate) running: Vec<Slot>,
    pub(crate) waiting: Waiting,
    /// Prompt tokens of requests whose prompt is not computed yet, running or waiting.
    pub(crate) unprefilled_tokens: u64,
    reserve: Option<Reserve>,
}

/// What was decided for one step. Its buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Requests with a part in the step, in batch order; how many tokens is in `Sequence::scheduled`.
    pub(crate) batch: Vec<Slot>,
    /// What the step computes.
    pub(crate) work: StepWork,
    /// Requests newly taken up, with the tokens found in the prefix cache.
    pub(crate) admitted: Vec<(Slot, u32)>,
    /// Requests that lost their blocks.
    pub(crate) preempted: Vec<Slot>,
}

impl Plan {
    fn clear(&mut self) {
        self.batch.clear();
        self.admitted.clear();
        self.preempted.clear();
        self.work = StepWork::default();
    }
}

/// Which running requests a pass looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Prefilling,
    Decoding,
}

impl Scheduler {
    pub(crate) fn new(config: Config) -> Self {
        let reserve = match &config.policy {
            Policy::Vllm => None,
            Policy::Sglang(knobs) => Some(Reserve::new(knobs)),
        };
        Self {
            pool: BlockPool::new(config.kv_blocks, config.block_size, config.prefix_caching),
            config,
            sequences: Sequences::default(),
            by_id: NumberMap::default(),
            running: Vec::new(),
            waiting: Waiting::default(),
            unprefilled_tokens: 0,
            reserve,
        }
    }

    /// Puts a new request into the waiting queue.
    pub(crate) fn enqueue(&mut self, mut sequence: Sequence) {
        sequence.order = self.waiting.order();
        self.unprefilled_tokens += u64::from(sequence.prompt);
        let (id, key) = (sequence.id, sequence.key());
        let slot = self.sequences.insert(sequence);
        self.waiting.insert(key, slot);
        self.by_id.insert(id, slot);
    }

    /// Takes a request out, wherever it stands, and frees what it holds. The caller takes it off `running`.
    pub(crate) fn take_out(&mut self, slot: Slot) -> Sequence {
        let mut sequence = self.sequences.remove(slot);
        self.by_id.remove(&sequence.id);
        if !sequence.is_running {
            self.waiting.remove(sequence.key());
        }
        if sequence.truth.prefilled.is_none() {
            self.unprefilled_tokens -= u64::from(sequence.prompt);
        }
        self.pool.release(&mut sequence.table);
        sequence
    }

    /// Decides what the next step computes. An empty batch means that there is nothing to do.
    pub(crate) fn plan(&mut self, plan: &mut Plan) {
        plan.clear();
        match self.config.policy {
            Policy::Vllm => self.plan_mixed(plan),
            Policy::Sglang(knobs) => self.plan_separate(plan, knobs),
        }
        for slot in &plan.batch {
            let sequence = &self.sequences[*slot];
            if sequence.is_prefilling() {
                plan.work.add_prefill(sequence.scheduled, sequence.computed);
            } else {
                plan.work.add_decode(sequence.scheduled, sequence.known());
            }
        }
    }

    /// vLLM: running requests first, then waiting ones, all within one budget.
    fn plan_mixed(&mut self, plan: &mut Plan) {
        let mut budget = self.config.max_num_batched_tokens;
        self.schedule_running(plan, &mut budget, Pass::All);
        if plan.preempted.is_empty() {
            while budget > 0
                && let Some(slot) = self.admissible()
            {
                let (cached, missing) = self.lookup(slot);
                if missing > budget && !self.config.chunked_prefill {
                    break;
                }
                let tokens = missing.min(budget);
                if !self.admit(plan, slot, (cached, tokens)) {
                    break;
                }
                budget -= tokens;
            }
        }
    }

    /// SGLang: a prefill batch if there can be one, else a decode batch.
    fn plan_separate(&mut self, plan: &mut Plan, knobs: Sglang) {
        let mut unbounded = u32::MAX;
        if knobs.mixed_chunk {
            self.retract_for_decode(plan);
        }
        self.plan_prefill_batch(plan, knobs);
        let is_decode = plan.batch.is_empty();
        if is_decode && !knobs.mixed_chunk {
            self.retract_for_decode(plan);
        }
        if is_decode || knobs.mixed_chunk {
            self.schedule_running(plan, &mut unbounded, Pass::Decoding);
        }
        if is_decode && let Some(reserve) = &mut self.reserve {
            reserve.relax();
        }
    }

    fn plan_prefill_batch(&mut self, plan: &mut Plan, knobs: Sglang) {
        let mut budget = if self.config.chunked_prefill {
            // Riding along costs a token of the chunk each.
            let riders = if knobs.mixed_chunk { self.decoding() } else { 0 };
            self.config.max_num_batched_tokens.saturating_sub(riders).max(1)
        } else {
            u32::MAX
        };
        self.schedule_running(plan, &mut budget, Pass::Prefilling);
        let mut batch_tokens: u32 = plan.batch.iter().map(|slot| self.sequences[*slot].scheduled).sum();
        while budget > 0
            && plan.preempted.is_empty()
            && let Some(slot) = self.admissible()
        {
            let (cached, missing) = self.lookup(slot);
            let tokens = missing.min(budget);
            let is_first = plan.batch.is_empty();
            if !is_first && batch_tokens.saturating_add(tokens) > knobs.max_prefill_tokens {
                break;
            }
            if !self.has_reserve(slot, missing) || !self.admit(plan, slot, (cached, tokens)) {
                break;
            }
            budget -= tokens;
            batch_tokens += tokens;
        }
    }

    fn decoding(&self) -> u32 {
        let decoding = self.running.iter().filter(|slot| !self.sequences[**slot].is_prefilling()).count();
        u32::try_from(decoding).unwrap_or(u32::MAX)
    }

    /// The next waiting request, if there is a slot for it.
    fn admissible(&self) -> Option<Slot> {
        if self.running.len() < self.config.max_num_seqs as usize { self.waiting.head() } else { None }
    }

    /// Cached leading blocks of a waiting request, and the tokens that are left to compute: always at least one, since
    /// the last token must go through the model to say the next.
    fn lookup(&self, slot: Slot) -> (usize, u32) {
        let sequence = &self.sequences[slot];
        let block_size = self.pool.block_size();
        let whole = ((sequence.known() - 1) / block_size) as usize;
        let named = &sequence.hashes[..whole.min(sequence.hashes.len())];
        let cached = self.pool.cached_prefix(named);
        let tokens = u32::try_from(cached).unwrap_or(0) * block_size;
        (cached, sequence.known() - tokens)
    }

    /// Takes up the head of the queue with `cached` blocks and `tokens` to compute now. `false` if blocks do not
    /// suffice.
    fn admit(&mut self, plan: &mut Plan, slot: Slot, (cached, tokens): (usize, u32)) -> bool {
        let sequence = &mut self.sequences[slot];
        let computed = u32::try_from(cached).unwrap_or(0) * self.pool.block_size();
        let hashes = sequence.hashes.clone();
        if !self.pool.admit(&mut sequence.table, &hashes[..cached], computed + tokens) {
            return false;
        }
        self.waiting.remove(sequence.key());
        sequence.computed = computed;
        sequence.published = u32::try_from(cached).unwrap_or(0);
        sequence.prefill_until = sequence.known();
        sequence.is_running = true;
        sequence.scheduled = tokens;
        self.running.push(slot);
        plan.batch.push(slot);
        plan.admitted.push((slot, computed));
        true
    }

    /// Gives running requests their tokens, oldest first, and takes blocks from victims where they lack.
    fn schedule_running(&mut self, plan: &mut Plan, budget: &mut u32, pass: Pass) {
        let drafts = self.config.drafts();
        let mut place = 0;
        while place < self.running.len() && *budget > 0 {
            let slot = self.running[place];
            let sequence = &self.sequences[slot];
            let prefilling = sequence.is_prefilling();
            let is_meant = match pass {
                Pass::All => true,
                Pass::Prefilling => prefilling,
                Pass::Decoding => !prefilling,
            };
            if !is_meant {
                place += 1;
                continue;
            }
            let wanted = if prefilling { sequence.prefill_until - sequence.computed } else { 1 + drafts };
            let tokens = wanted.min(*budget);
            if self.make_room(plan, slot, (tokens, budget)) {
                self.sequences[slot].scheduled = tokens;
                plan.batch.push(slot);
                *budget -= tokens;
                // Victims before this one have moved it forward.
                place = if self.running.get(place) == Some(&slot) {
                    place + 1
                } else {
                    self.running.iter().position(|other| *other == slot).map_or(place, |at| at + 1)
                };
            }
        }
    }

    /// Blocks for `tokens` more of a running request, at the cost of victims. `false` if it became one itself.
    fn make_room(&mut self, plan: &mut Plan, slot: Slot, (tokens, budget): (u32, &mut u32)) -> bool {
        loop {
            let sequence = &mut self.sequences[slot];
            // Drafts beyond the end of the answer need no room.
            let end = (sequence.computed + tokens).min(sequence.total());
            if self.pool.grow(&mut sequence.table, end) {
                return true;
            }
            let victim = self.preempt(plan);
            if let Some(at) = plan.batch.iter().position(|other| *other == victim) {
                plan.batch.remove(at);
                *budget = budget.saturating_add(self.sequences[victim].scheduled);
                self.sequences[victim].scheduled = 0;
            }
            if victim == slot {
                return false;
            }
        }
    }

    /// SGLang: before a decode, retracts until everybody left has room for some tokens.
    fn retract_for_decode(&mut self, plan: &mut Plan) {
        let grown = 1 + self.config.drafts();
        let needed: u32 = self.running.iter().map(|slot| self.blocks_missing(*slot, grown)).sum();
        if needed <= self.pool.free() {
            return;
        }
        while self.running.len() > 1 {
            self.preempt(plan);
            let headroom = self.running.len() as u64 * u64::from(Reserve::HEADROOM.max(grown));
            if u64::from(self.pool.free()) * u64::from(self.pool.block_size()) >= headroom {
                break;
            }
        }
        let left = self.running.iter().map(|slot| &self.sequences[*slot]);
        let (generated, allowed) = left.fold((0_u64, 0_u64), |(generated, allowed), sequence| {
            (generated + u64::from(sequence.generated), allowed + u64::from(sequence.output))
        });
        if let Some(reserve) = &mut self.reserve {
            reserve.raise(generated, allowed, self.running.len());
        }
    }

    /// Blocks that a decoding request lacks for `tokens` more.
    fn blocks_missing(&self, slot: Slot, tokens: u32) -> u32 {
        let sequence = &self.sequences[slot];
        if sequence.is_prefilling() {
            return 0;
        }
        let end = (sequence.computed + tokens).min(sequence.total());
        self.pool.blocks_for(end).saturating_sub(u32::try_from(sequence.table.len()).unwrap_or(u32::MAX))
    }

    /// SGLang: whether there is room for a waiting request's prompt and answer beside what running ones are estimated
    /// to need. Nobody running is room enough, since no request exceeds the cache.
    fn has_reserve(&self, slot: Slot, missing: u32) -> bool {
        let Some(reserve) = &self.reserve else { return true };
        if self.running.is_empty() {
            return true;
        }
        let running = self.running.iter().map(|slot| {
            let sequence = &self.sequences[*slot];
            let unfilled = sequence.prefill_until.saturating_sub(sequence.computed + sequence.scheduled);
            reserve.tokens(sequence.remaining()) + f64::from(unfilled)
        });
        let kept: f64 = running.sum();
        let free = f64::from(self.pool.free()) * f64::from(self.pool.block_size());
        let answer = self.sequences[slot].remaining().min(Reserve::CLIP);
        f64::from(missing) + f64::from(answer) < free - kept
    }

    /// Takes the blocks of the policy's victim and queues it again. Says which it was.
    fn preempt(&mut self, plan: &mut Plan) -> Slot {
        let sequences = &self.sequences;
        let candidates = self.running.iter().map(|slot| {
            let sequence = &sequences[*slot];
            Candidate {
                rank: sequence.rank,
                order: sequence.order,
                generated: sequence.generated,
                prompt: sequence.prompt,
            }
        });
        let place = self.config.policy.victim(self.config.order, candidates);
        let slot = self.running.remove(place);
        let sequence = &mut self.sequences[slot];
        self.pool.release(&mut sequence.table);
        sequence.is_running = false;
        sequence.computed = 0;
        sequence.published = 0;
        sequence.prefill_until = 0;
        sequence.truth.preemptions += 1;
        if self.config.policy.requeue() == Requeue::Back {
            sequence.order = self.waiting.order();
        }
        self.waiting.insert(sequence.key(), slot);
        plan.preempted.push(slot);
        slot
    }
}
