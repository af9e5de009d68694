//! Which ids the KV cache holds, and in which blocks.
//!
//! Layers with a window keep a ring of blocks: a position overwrites the one that lies the
//! ring's length before it. So a rewind may go back only as far as the ring still holds what
//! the window of the next position sees; beyond that, nothing of the cache is of use.

use crate::backend::ops::Cache;
use crate::backend::{Backend, BackendError, BlockId};

/// What a ring has to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Positions that a row sees, itself included.
    pub(super) window: usize,
    /// The most rows of a pass: all are written before the first is read.
    pub(super) max_rows: usize,
}

/// The cache of one sequence.
#[derive(Debug)]
pub(super) struct KvCache {
    ids: Vec<u32>,
    /// Positions after those of `ids` whose tokens the host has yet to read.
    unread: usize,
    blocks: Vec<BlockId>,
    window_blocks: Vec<BlockId>,
    block_tokens: usize,
    capacity: usize,
    ring: Option<Ring>,
    /// The end of what has been written since the ring was last whole; at least `ids.len()`.
    written: usize,
    /// Whether the backend's cache can forget its last positions alone.
    rewinds: bool,
}

impl KvCache {
    /// An empty cache; `ring` where layers have a window; `rewinds` where the backend can forget
    /// the last positions and keep the ones before.
    pub(super) fn new(
        capacity: usize,
        block_tokens: usize,
        ring: Option<Ring>,
        rewinds: bool,
    ) -> Self {
        Self {
            ids: Vec::new(),
            unread: 0,
            blocks: Vec::new(),
            window_blocks: Vec::new(),
            block_tokens,
            capacity,
            ring,
            written: 0,
            rewinds,
        }
    }

    /// Positions that the cache may hold.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Positions that it holds.
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.unread
    }

    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The ring; empty where no layer has a window.
    pub(super) fn window_blocks(&self) -> &[BlockId] {
        &self.window_blocks
    }

    /// Keeps the longest prefix that `ids` shares, but not all of `ids`: the last one has to
    /// be computed for its logits. Returns the length kept.
    pub(super) fn align<B: Backend>(&mut self, ids: &[u32], backend: &mut B) -> usize {
        let shared = self.ids.iter().zip(ids).take_while(|(a, b)| a == b).count();
        self.truncate(shared.min(ids.len().saturating_sub(1)), backend)
    }

    /// Forgets positions from `len` on, or all of them where the ring has lost what position
    /// `len` would see; returns the length kept.
    pub(super) fn truncate<B: Backend>(&mut self, len: usize, backend: &mut B) -> usize {
        let whole = self.rewinds || len == self.written;
        let len = if whole && self.ring_holds(len) {
            len
        } else {
            0
        };
        self.unread = 0;
        self.ids.truncate(len);
        if len == 0 || self.written <= self.ring_positions() {
            self.written = self.ids.len();
        }
        let needed = self.ids.len().div_ceil(self.block_tokens);
        for block in self.blocks.drain(needed.min(self.blocks.len())..) {
            backend.release_block(block);
        }
        // A ring that has been round is whole until it starts anew.
        let needed = self.written.div_ceil(self.block_tokens);
        for block in self
            .window_blocks
            .drain(needed.min(self.window_blocks.len())..)
        {
            backend.release_block(block);
        }
        self.ids.len()
    }

    /// Makes room for `rows` more positions, which from here on count as written: a pass that
    /// fails may have come as far as the ring.
    pub(super) fn reserve<B: Backend>(
        &mut self,
        rows: usize,
        backend: &mut B,
    ) -> Result<(), BackendError> {
        let needed = (self.len() + rows).div_ceil(self.block_tokens);
        while self.blocks.len() < needed {
            self.blocks.push(backend.allocate_block(Cache::Full)?);
        }
        while self.window_blocks.len() < needed.min(self.ring_blocks()) {
            self.window_blocks
                .push(backend.allocate_block(Cache::Window)?);
        }
        self.written = self.written.max(self.len() + rows);
        Ok(())
    }

    /// Notes ids whose keys and values have been written.
    pub(super) fn append(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Notes a position whose token the host has yet to read.
    pub(super) fn append_unread(&mut self) {
        self.unread += 1;
    }

    /// Notes the token of the first position that was unread.
    pub(super) fn read(&mut self, id: u32) {
        if self.unread > 0 {
            self.unread -= 1;
            self.ids.push(id);
        }
    }

    /// Forgets the positions whose tokens nobody will read.
    pub(super) fn drop_unread<B: Backend>(&mut self, backend: &mut B) {
        if self.unread > 0 {
            self.truncate(self.ids.len(), backend);
        }
    }

    /// Blocks of the whole ring.
    fn ring_blocks(&self) -> usize {
        let positions = self
            .ring
            .map_or(0, |ring| ring.window.saturating_add(ring.max_rows));
        positions.min(self.capacity).div_ceil(self.block_tokens)
    }

    fn ring_positions(&self) -> usize {
        self.ring_blocks() * self.block_tokens
    }

    /// Whether all that position `len` sees through its window is still there.
    fn ring_holds(&self, len: usize) -> bool {
        let Some(ring) = self.ring else { return true };
        let lost = self.written.saturating_sub(self.ring_positions());
        (len + 1).saturating_sub(ring.window) >= lost
    }
}
