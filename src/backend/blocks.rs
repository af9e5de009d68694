//! KV blocks of a host backend: who owns them and how far they are filled. What lies where
//! inside a block is the backend's own business.

use super::memory::allocate;
use super::ops::Cache;
use super::{BackendError, BlockId};

/// Blocks allocated on demand and kept for reuse.
#[derive(Debug)]
pub(super) struct Blocks {
    block_tokens: usize,
    /// Elements of one position in a block of the full cache and in one of a ring.
    per_position: [[usize; 3]; 2],
    blocks: Vec<Block>,
    /// Released blocks of the two caches.
    free: [Vec<usize>; 2],
    /// Ordinal of the last table check; marks blocks met in it.
    check: u64,
}

#[derive(Debug)]
struct Block {
    cache: Cache,
    values: Vec<f32>,
    taken: bool,
    /// Leading positions that hold keys and values of submitted passes.
    filled: usize,
    met: u64,
}

impl Blocks {
    /// Blocks of `block_tokens` positions with `per_position` elements (their product) each,
    /// of the full cache and of rings.
    pub(super) fn new(block_tokens: usize, per_position: [[usize; 3]; 2]) -> Self {
        Self {
            block_tokens,
            per_position,
            blocks: Vec::new(),
            free: [Vec::new(), Vec::new()],
            check: 0,
        }
    }

    /// Positions of a block.
    pub(super) fn block_tokens(&self) -> usize {
        self.block_tokens
    }

    /// Takes a block. It is filled with NaN, so that reading a position that no pass has
    /// written cannot go unseen.
    pub(super) fn take(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        if let Some(index) = self.free[cache as usize].pop() {
            let block = &mut self.blocks[index];
            block.values.fill(f32::NAN);
            block.taken = true;
            block.filled = 0;
            return Ok(BlockId(index));
        }
        let [a, b, c] = self.per_position[cache as usize];
        let values = allocate("the KV cache", &[self.block_tokens, a, b, c], f32::NAN)?;
        self.blocks.push(Block {
            cache,
            values,
            taken: true,
            filled: 0,
            met: 0,
        });
        Ok(BlockId(self.blocks.len() - 1))
    }

    /// Gives a block back; an id that is not taken changes nothing.
    pub(super) fn release(&mut self, block: BlockId) {
        if let Some(found) = self.blocks.get_mut(block.0).filter(|found| found.taken) {
            found.taken = false;
            self.free[found.cache as usize].push(block.0);
        }
    }

    /// Elements of a block.
    pub(super) fn values(&self, block: BlockId) -> &[f32] {
        &self.blocks[block.0].values
    }

    /// Elements of a block, to be written.
    pub(super) fn values_mut(&mut self, block: BlockId) -> &mut [f32] {
        &mut self.blocks[block.0].values
    }

    /// Bytes held, released blocks included: they are kept for reuse.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks
            .iter()
            .map(|block| super::memory::bytes_of(&block.values))
            .sum()
    }

    /// Checks that all blocks of a table are taken, differ, belong to the cache, and, unless
    /// it is a ring, are filled up to `position`. How far a ring reaches back is the caller's
    /// to know.
    pub(super) fn check_table(
        &mut self,
        cache: Cache,
        table: &[BlockId],
        position: usize,
    ) -> Result<(), BackendError> {
        let usage = |why| Err(BackendError::Usage { op: "begin", why });
        self.check += 1;
        for (i, id) in table.iter().enumerate() {
            let Some(block) = self.blocks.get_mut(id.0).filter(|block| block.taken) else {
                return usage("a block in the table is not allocated");
            };
            if block.cache != cache {
                return usage("a block in the table belongs to the other cache");
            }
            if block.met == self.check {
                return usage("a block is twice in one table");
            }
            block.met = self.check;
            let cached = position
                .saturating_sub(i * self.block_tokens)
                .min(self.block_tokens);
            if cache == Cache::Full && block.filled < cached {
                return usage("the position lies past what the blocks hold");
            }
        }
        Ok(())
    }

    /// Declares the positions of a table valid up to `end` and no further.
    pub(super) fn set_filled(&mut self, table: &[BlockId], from: usize, end: usize) {
        for (i, id) in table.iter().enumerate().skip(from / self.block_tokens) {
            let filled = end
                .saturating_sub(i * self.block_tokens)
                .min(self.block_tokens);
            self.blocks[id.0].filled = filled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_block_keeps_nothing_of_its_former_owner() {
        let mut blocks = Blocks::new(3, [[2, 1, 5], [1, 1, 5]]);
        let ring = blocks.take(Cache::Window).unwrap();
        assert_eq!(blocks.values(ring).len(), 15);
        let block = blocks.take(Cache::Full).unwrap();
        assert_eq!(blocks.values(block).len(), 30);
        assert!(blocks.values(block).iter().all(|v| v.is_nan()));
        blocks.values_mut(block).fill(1.0);
        blocks.set_filled(&[block], 0, 3);
        blocks.check_table(Cache::Full, &[block], 3).unwrap();
        assert!(blocks.check_table(Cache::Full, &[ring], 0).is_err());
        assert!(blocks.check_table(Cache::Window, &[block], 0).is_err());
        blocks.check_table(Cache::Window, &[ring], 100).unwrap();
        blocks.release(block);
        blocks.release(ring);
        assert_eq!(blocks.take(Cache::Full), Ok(block));
        assert!(blocks.values(block).iter().all(|v| v.is_nan()));
        assert!(blocks.check_table(Cache::Full, &[block], 1).is_err());
        assert_eq!(blocks.bytes(), 45 * 4);
    }
}
