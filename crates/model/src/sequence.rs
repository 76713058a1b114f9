//! A request inside an engine, and the places where all of them live.

use crate::kv::BlockTable;
use crate::request::{RequestId, Truth};
use goodput_core::rng::Draw;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request between its arrival and its end.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) id: RequestId,
    pub(crate) prompt: u32,
    /// Tokens it asked for.
    pub(crate) output: u32,
    pub(crate) generated: u32,
    /// Tokens at its beginning whose KV is in its blocks.
    pub(crate) computed: u32,
    /// Up to where its tokens were known when it was taken up: computing them is prefill, what follows is decode.
    pub(crate) prefill_until: u32,
    /// Generated tokens that its stream has not shown yet.
    pub(crate) unsent: u32,
    /// Tokens that the step in flight computes for it, 0 if it has no part in it.
    pub(crate) scheduled: u32,
    /// Leading blocks that are in the prefix cache.
    pub(crate) published: u32,
    pub(crate) is_running: bool,
    /// Given up by its client while a step ran; leaves when the step ends.
    pub(crate) is_cancelled: bool,
    pub(crate) table: BlockTable,
    pub(crate) hashes: Arc<[u64]>,
    pub(crate) rank: i64,
    pub(crate) order: u64,
    /// Its own random stream, under speculation.
    pub(crate) luck: Option<Box<Draw>>,
    pub(crate) truth: Box<Truth>,
}

impl Sequence {
    /// Tokens whose identity is known: the prompt and what was generated.
    pub(crate) fn known(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Tokens of prompt and answer.
    pub(crate) fn total(&self) -> u32 {
        self.prompt + self.output
    }

    /// Tokens it may still generate.
    pub(crate) fn remaining(&self) -> u32 {
        self.output - self.generated
    }

    /// Whether it still computes what was known when it was taken up.
    pub(crate) fn is_prefilling(&self) -> bool {
        self.computed < self.prefill_until
    }

    /// Its place in the waiting queue.
    pub(crate) fn key(&self) -> (i64, u64) {
        (self.rank, self.order)
    }
}

/// All sequences of an engine, by slot. A slot is used again after its sequence left.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    slots: Vec<Option<Sequence>>,
    unused: Vec<u32>,
}

/// The place of a sequence.
pub(crate) type Slot = u32;

impl Sequences {
    pub(crate) fn insert(&mut self, sequence: Sequence) -> Slot {
        match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(sequence);
                slot
            }
            None => {
                self.slots.push(Some(sequence));
                Slot::try_from(self.slots.len() - 1).expect("memory ends before slots do")
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Sequence {
        self.unused.push(slot);
        self.slots[slot as usize].take().expect("a slot in a list holds a sequence")
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.unused.len()
    }

    /// Whether there is a running sequence at this place.
    pub(crate) fn is_running(&self, slot: Slot) -> bool {
        self.slots[slot as usize].as_ref().is_some_and(|sequence| sequence.is_running)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.slots.iter().flatten()
    }
}

impl std::ops::Index<Slot> for Sequences {
    type Output = Sequence;
    fn index(&self, slot: Slot) -> &Sequence {
        self.slots[slot as usize].as_ref().expect("a slot in a list holds a sequence")
    }
}

impl std::ops::IndexMut<Slot> for Sequences {
    fn index_mut(&mut self, slot: Slot) -> &mut Sequence {
        self.slots[slot as usize].as_mut().expect("a slot in a list holds a sequence")
    }
}

/// The waiting queue: by rank, then by order of queueing.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queue: BTreeMap<(i64, u64), Slot>,
    next_order: u64,
}

impl Waiting {
    /// A running number for one who comes to the back of the queue.
    pub(crate) fn order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    pub(crate) fn insert(&mut self, key: (i64, u64), slot: Slot) {
        self.queue.insert(key, slot);
    }

    pub(crate) fn remove(&mut self, key: (i64, u64)) {
        self.queue.remove(&key);
    }

    /// The next to be taken up.
    pub(crate) fn head(&self) -> Option<Slot> {
        self.queue.first_key_value().map(|(_, slot)| *slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}
