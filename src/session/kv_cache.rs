//! Which ids the KV cache holds, and in which blocks.

use crate::backend::{Backend, BackendError, BlockId};

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct KvCache {
    ids: Vec<u32>,
    blocks: Vec<BlockId>,
    block_tokens: usize,
    capacity: usize,
}

impl KvCache {
    pub(super) fn new(capacity: usize, block_tokens: usize) -> Self {
        Self {
            ids: Vec::new(),
            blocks: Vec::new(),
            block_tokens,
            capacity,
        }
    }

    /// Positions that the cache may hold.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Positions that it holds.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Keeps the longest prefix that `ids` shares, but not all of `ids`: the last one has to
    /// be computed for its logits. Returns the length kept.
    pub(super) fn align<B: Backend>(&mut self, ids: &[u32], backend: &mut B) -> usize {
        let shared = self.ids.iter().zip(ids).take_while(|(a, b)| a == b).count();
        self.truncate(shared.min(ids.len().saturating_sub(1)), backend)
    }

    /// Forgets positions from `len` on; returns the length kept.
    pub(super) fn truncate<B: Backend>(&mut self, len: usize, backend: &mut B) -> usize {
        self.ids.truncate(len);
        let needed = self.ids.len().div_ceil(self.block_tokens);
        for block in self.blocks.drain(needed.min(self.blocks.len())..) {
            backend.release_block(block);
        }
        self.ids.len()
    }

    /// Makes room for `rows` more positions.
    pub(super) fn reserve<B: Backend>(
        &mut self,
        rows: usize,
        backend: &mut B,
    ) -> Result<(), BackendError> {
        let needed = (self.ids.len() + rows).div_ceil(self.block_tokens);
        while self.blocks.len() < needed {
            self.blocks.push(backend.allocate_block()?);
        }
        Ok(())
    }

    /// Notes ids whose keys and values have been written.
    pub(super) fn append(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }
}
