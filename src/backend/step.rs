//! State of one pass: which rows there are, at which positions, over which KV blocks.

use super::blocks::Blocks;
use super::ops::Cache;
use super::{BackendError, BlockId, Outputs, Step};

const OP: &str = "begin";

/// One sequence of the pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// Its first row in the pass.
    pub(super) first_row: usize,
    /// Rows that it adds.
    pub(super) rows: usize,
    /// Position of its first row.
    pub(super) position: usize,
    first_block: usize,
    num_blocks: usize,
    /// The ring follows the table.
    num_window_blocks: usize,
}

/// What [`Backend::begin`](super::Backend::begin) leaves for the operations. Its vectors are
/// reused, so that decode allocates nothing here.
#[derive(Debug)]
pub(super) struct StepState {
    /// Token id of each row.
    pub(super) ids: Vec<u32>,
    /// Position of each row in its sequence.
    pub(super) positions: Vec<usize>,
    /// Sequences in row order.
    pub(super) sequences: Vec<Sequence>,
    /// Rows that get logits.
    pub(super) outputs: Outputs,
    tables: Vec<BlockId>,
}

impl StepState {
    pub(super) fn new() -> Self {
        Self {
            ids: Vec::new(),
            positions: Vec::new(),
            sequences: Vec::new(),
            outputs: Outputs::Nothing,
            tables: Vec::new(),
        }
    }

    /// `T`, rows of the pass.
    pub(super) fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Rows that get logits: 0, 1 or `T`.
    pub(super) fn logit_rows(&self) -> usize {
        match self.outputs {
            Outputs::Nothing => 0,
            Outputs::LastRow => 1,
            Outputs::AllRows => self.rows(),
        }
    }

    /// Block table of a sequence: block `i` of its positions is the entry `i`, modulo the
    /// length, which only a ring's exceeds.
    pub(super) fn table(&self, sequence: &Sequence, cache: Cache) -> &[BlockId] {
        let ring = sequence.first_block + sequence.num_blocks;
        match cache {
            Cache::Full => &self.tables[sequence.first_block..ring],
            Cache::Window => &self.tables[ring..ring + sequence.num_window_blocks],
        }
    }

    /// Takes the rows and tables of `step`, checked against the blocks; the token ids are the
    /// caller's to fill.
    pub(super) fn fill(
        &mut self,
        step: &Step<'_>,
        max_rows: usize,
        blocks: &mut Blocks,
    ) -> Result<(), BackendError> {
        self.ids.clear();
        self.positions.clear();
        self.sequences.clear();
        self.tables.clear();
        self.outputs = step.outputs;
        for sequence in step.sequences {
            if sequence.rows == 0 {
                return Err(usage("a sequence without rows"));
            }
            let first_row = self.rows();
            if sequence.rows > max_rows - first_row {
                return Err(BackendError::Shape {
                    op: OP,
                    argument: "rows, at most",
                    expected: max_rows,
                    actual: first_row.saturating_add(sequence.rows),
                });
            }
            let end = sequence
                .position
                .checked_add(sequence.rows)
                .ok_or_else(|| usage("a position beyond the address space"))?;
            let needed = end.div_ceil(blocks.block_tokens());
            if sequence.blocks.len() < needed {
                return Err(BackendError::Shape {
                    op: OP,
                    argument: "block table",
                    expected: needed,
                    actual: sequence.blocks.len(),
                });
            }
            self.positions.extend(sequence.position..end);
            self.sequences.push(Sequence {
                first_row,
                rows: sequence.rows,
                position: sequence.position,
                first_block: self.tables.len(),
                num_blocks: needed,
                num_window_blocks: sequence.window_blocks.len(),
            });
            self.tables.extend_from_slice(&sequence.blocks[..needed]);
            self.tables.extend_from_slice(sequence.window_blocks);
        }
        if self.sequences.is_empty() {
            return Err(usage("a pass without sequences"));
        }
        for sequence in &self.sequences {
            for cache in [Cache::Full, Cache::Window] {
                blocks.check_table(cache, self.table(sequence, cache), sequence.position)?;
            }
        }
        self.check_writers(blocks.block_tokens())
    }

    /// Blocks may be shared for reading (a common prefix), never for writing.
    fn check_writers(&self, block_tokens: usize) -> Result<(), BackendError> {
        for (i, sequence) in self.sequences.iter().enumerate() {
            let written = &self.table(sequence, Cache::Full)[sequence.position / block_tokens..];
            let ring = self.table(sequence, Cache::Window);
            let meets = |other: &Sequence| {
                let full = self.table(other, Cache::Full);
                full.iter().any(|block| written.contains(block))
                    || self
                        .table(other, Cache::Window)
                        .iter()
                        .any(|block| ring.contains(block))
            };
            let mut others = self.sequences.iter().enumerate();
            let shared = others.any(|(j, other)| i != j && meets(other));
            if shared {
                return Err(usage(
                    "a block that one sequence writes is in another's table",
                ));
            }
        }
        Ok(())
    }
}

fn usage(why: &'static str) -> BackendError {
    BackendError::Usage { op: OP, why }
}
