//! The KV cache: blocks of a fixed size, shared by reference count, with a prefix cache over the freed ones.
//!
//! A block that is full and whose content is known carries the hash of everything up to its end. When nobody holds it
//! any more it goes to the end of the free list, hash and all, and may be taken back from there; a new block is taken
//! from the front, and loses its hash. So the free list is the LRU queue, as in vLLM's block pool (automatic prefix
//! caching; Kwon et al. 2023 for the paging itself). SGLang's radix cache behaves alike at this level.
//!
//! It never decides who gets a block. Counts are exact: used and free blocks always make the total.

use crate::number_map::NumberMap;
use std::collections::hash_map::Entry;

/// No block: the end of a list.
const NONE: u32 = u32::MAX;

/// One block.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Sequences that hold it. 0 means that it stands in the free list.
    holders: u32,
    /// Neighbours in the free list.
    before: u32,
    after: u32,
    /// The hash of all content up to its end, while it is in the prefix cache.
    hash: Option<u64>,
}

/// The blocks of one engine.
#[derive(Debug, Clone)]
pub struct BlockPool {
    block_size: u32,
    blocks: Vec<Block>,
    /// Front (next to be taken) and back of the free list.
    front: u32,
    back: u32,
    free: u32,
    used: u32,
    /// Block of each known content; `None` where prefix caching is off.
    cached: Option<NumberMap<u64, u32>>,
    evicted: u64,
}

/// The blocks that one sequence holds, in order.
pub type BlockTable = Vec<u32>;

impl BlockPool {
    /// `total` free blocks of `block_size` tokens.
    #[must_use]
    pub fn new(total: u32, block_size: u32, prefix_caching: bool) -> Self {
        let block = |i: u32| Block {
            holders: 0,
            before: i.checked_sub(1).unwrap_or(NONE),
            after: if i + 1 < total { i + 1 } else { NONE },
            hash: None,
        };
        Self {
            block_size,
            blocks: (0..total).map(block).collect(),
            front: if total > 0 { 0 } else { NONE },
            back: total.checked_sub(1).unwrap_or(NONE),
            free: total,
            used: 0,
            cached: prefix_caching.then(NumberMap::default),
            evicted: 0,
        }
    }

    /// Tokens of a block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// All blocks.
    #[must_use]
    pub fn total(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Blocks nobody holds; cached ones are among them.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks held by a sequence.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Blocks whose content is in the prefix cache, held or not.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.len())
    }

    /// Blocks that lost their cached content because room was needed.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Blocks that `tokens` need.
    #[must_use]
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// How many leading blocks of this content are cached.
    #[must_use]
    pub fn cached_prefix(&self, hashes: &[u64]) -> usize {
        let Some(cached) = &self.cached else { return 0 };
        hashes.iter().take_while(|hash| cached.contains_key(hash)).count()
    }

    /// Gives an empty table the cached blocks of `prefix` (all of which must be cached) and new ones up to `tokens`.
    /// All or nothing: `false` if there is no room.
    pub fn admit(&mut self, table: &mut BlockTable, prefix: &[u64], tokens: u32) -> bool {
        debug_assert!(table.is_empty(), "a sequence is admitted without blocks");
        let found: Vec<u32> = match &self.cached {
            Some(cached) => prefix.iter().filter_map(|hash| cached.get(hash).copied()).collect(),
            None => Vec::new(),
        };
        let revived = found.iter().filter(|block| self.blocks[**block as usize].holders == 0).count();
        let new = (self.blocks_for(tokens) as usize).saturating_sub(found.len());
        if (self.free as usize) < revived + new {
            return false;
        }
        for block in found {
            self.hold(block);
            table.push(block);
        }
        self.grow(table, tokens)
    }

    /// Makes the table cover `tokens`. All or nothing: `false` if there is no room.
    pub fn grow(&mut self, table: &mut BlockTable, tokens: u32) -> bool {
        let needed = self.blocks_for(tokens) as usize;
        if needed <= table.len() {
            return true;
        }
        if needed - table.len() > self.free as usize {
            return false;
        }
        while table.len() < needed {
            let block = self.front;
            self.forget(block);
            self.hold(block);
            table.push(block);
        }
        true
    }

    /// Puts blocks that are now computed in full into the prefix cache: those of `table` at the places of `hashes`,
    /// from place `from`. Content that is cached already stays where it is.
    pub fn publish(&mut self, table: &[u32], hashes: &[u64], from: usize) {
        let Some(cached) = &mut self.cached else { return };
        for (block, hash) in table.iter().zip(hashes).skip(from) {
            let slot = &mut self.blocks[*block as usize].hash;
            if slot.is_none()
                && let Entry::Vacant(place) = cached.entry(*hash)
            {
                place.insert(*block);
                *slot = Some(*hash);
            }
        }
    }

    /// Lets go of all blocks of a table, the last first, so that ends of prompts are evicted before their beginnings.
    pub fn release(&mut self, table: &mut BlockTable) {
        for block in table.drain(..).rev() {
            let holders = &mut self.blocks[block as usize].holders;
            *holders -= 1;
            if *holders == 0 {
                self.append(block);
            }
        }
    }

    /// Empties the prefix cache. Held blocks stay held, without being found again.
    pub fn forget_all(&mut self) {
        if let Some(cached) = &mut self.cached {
            cached.clear();
            for block in &mut self.blocks {
                block.hash = None;
            }
        }
    }

    /// Takes a block's content out of the cache.
    fn forget(&mut self, block: u32) {
        if let (Some(hash), Some(cached)) = (self.blocks[block as usize].hash.take(), &mut self.cached) {
            cached.remove(&hash);
            self.evicted += 1;
        }
    }

    /// One holder more, out of the free list if it was the first.
    fn hold(&mut self, block: u32) {
        let Block { holders, before, after, .. } = self.blocks[block as usize];
        self.blocks[block as usize].holders += 1;
        if holders > 0 {
            return;
        }
        match before {
            NONE => self.front = after,
            before => self.blocks[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            after => self.blocks[after as usize].before = before,
        }
        self.free -= 1;
        self.used += 1;
    }

    /// To the back of the free list.
    fn append(&mut self, block: u32) {
        let last = self.back;
        let entry = &mut self.blocks[block as usize];
        (entry.before, entry.after) = (last, NONE);
        match last {
            NONE => self.front = block,
            last => self.blocks[last as usize].after = block,
        }
        self.back = block;
        self.free += 1;
        self.used -= 1;
    }

    /// Recounts everything from the tables that sequences hold. Costs a pass over all blocks.
    ///
    /// # Errors
    /// What does not agree.
    pub fn audit<'a>(&self, tables: impl Iterator<Item = &'a BlockTable>) -> Result<(), String> {
        let mut holders = vec![0_u32; self.blocks.len()];
        for block in tables.flatten() {
            holders[*block as usize] += 1;
        }
        for (number, (block, counted)) in self.blocks.iter().zip(&holders).enumerate() {
            if block.holders != *counted {
                return Err(format!("block {number} counts {} holders and has {counted}", block.holders));
            }
        }
        let (mut listed, mut at, mut before) = (0_usize, self.front, NONE);
        while at != NONE {
            let block = &self.blocks[at as usize];
            if block.before != before || block.holders > 0 {
                return Err(format!("block {at} does not belong where it stands in the free list"));
            }
            (before, at, listed) = (at, block.after, listed + 1);
        }
        let held = holders.iter().filter(|n| **n > 0).count();
        if (listed, held) != (self.free as usize, self.used as usize) || listed + held != self.blocks.len() {
            return Err(format!("{held} used and {listed} free blocks of {}", self.blocks.len()));
        }
        let hashed = self.blocks.iter().filter(|block| block.hash.is_some()).count();
        if hashed != self.cached() {
            return Err(format!("{hashed} blocks carry a hash and {} are in the cache", self.cached()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefixes(of: &[u64]) -> Vec<u64> {
        crate::prefix::block_hashes(of.iter().copied(), 1)
    }

    #[test]
    fn blocks_are_taken_and_given_back_exactly() {
        let mut pool = BlockPool::new(4, 16, false);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(pool.grow(&mut a, 33));
        assert_eq!((a.len(), pool.used(), pool.free()), (3, 3, 1));
        assert!(pool.grow(&mut a, 48), "within the third block");
        assert!(!pool.grow(&mut b, 17), "two more are not there, and none is taken");
        assert_eq!((b.len(), pool.free()), (0, 1));
        assert!(pool.grow(&mut b, 16));
        pool.release(&mut a);
        assert_eq!((pool.used(), pool.free()), (1, 3));
    }

    #[test]
    fn a_shared_prefix_is_held_once_and_survives_its_first_holder() {
        let mut pool = BlockPool::new(8, 1, true);
        let hashes = prefixes(&[1, 2, 3, 4]);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(pool.admit(&mut a, &[], 4));
        pool.publish(&a, &hashes, 0);
        assert_eq!(pool.cached_prefix(&prefixes(&[1, 2, 9])), 2, "up to where the content parts");
        assert!(pool.admit(&mut b, &hashes[..2], 5));
        assert_eq!((pool.used(), &b[..2]), (7, &a[..2]));
        pool.release(&mut a);
        assert_eq!(pool.used(), 5);
        pool.release(&mut b);
        assert_eq!((pool.used(), pool.cached_prefix(&hashes)), (0, 4), "freed blocks are still known");
    }

    #[test]
    fn the_least_recently_freed_is_evicted_first_and_from_its_end() {
        let mut pool = BlockPool::new(4, 1, true);
        let (old, young) = (prefixes(&[1, 2]), prefixes(&[7, 8]));
        for hashes in [&old, &young] {
            let mut table = Vec::new();
            assert!(pool.admit(&mut table, &[], 2));
            pool.publish(&table, hashes, 0);
            pool.release(&mut table);
        }
        let mut table = Vec::new();
        assert!(pool.admit(&mut table, &[], 1));
        assert_eq!((pool.cached_prefix(&old), pool.cached_prefix(&young), pool.evicted()), (1, 2, 1));
        // Taking the old one back makes it the youngest.
        pool.release(&mut table);
        assert!(pool.admit(&mut table, &old[..1], 1));
        pool.release(&mut table);
        let mut all = Vec::new();
        assert!(pool.admit(&mut all, &[], 3));
        assert_eq!((pool.cached_prefix(&old), pool.cached_prefix(&young)), (1, 0));
    }

    #[test]
    fn revived_blocks_count_against_the_room() {
        let mut pool = BlockPool::new(2, 1, true);
        let hashes = prefixes(&[1, 2]);
        let mut table = Vec::new();
        assert!(pool.admit(&mut table, &[], 2));
        pool.publish(&table, &hashes, 0);
        pool.release(&mut table);
        assert!(!pool.admit(&mut table, &hashes, 3), "both free blocks are the prefix itself");
        assert!(table.is_empty());
        assert!(pool.admit(&mut table, &hashes, 2));
    }

    proptest! {
        #[test]
        fn counts_hold_whatever_is_done(
            operations in proptest::collection::vec((0_usize..6, 0_u64..3, 1_u32..30), 1..120),
            caching in any::<bool>(),
        ) {
            let mut pool = BlockPool::new(12, 2, caching);
            let mut tables: Vec<BlockTable> = vec![Vec::new(); 6];
            for (who, content, tokens) in operations {
                let hashes: Vec<u64> = crate::prefix::block_hashes((0..40).map(|i| i * content), 2);
                let table = &mut tables[who];
                if table.is_empty() {
                    let cached = pool.cached_prefix(&hashes[..(tokens / 2) as usize]);
                    if pool.admit(table, &hashes[..cached], tokens) {
                        pool.publish(table, &hashes[..(tokens / 2) as usize], 0);
                    }
                } else if tokens % 3 == 0 {
                    pool.release(table);
                } else {
                    pool.grow(table, tokens);
                }
                prop_assert_eq!(pool.audit(tables.iter()), Ok(()));
                prop_assert_eq!(pool.used() + pool.free(), pool.total());
            }
        }
    }
}
