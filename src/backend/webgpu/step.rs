//! The step state as kernels read it: one storage buffer of words, written once a pass.
//!
//! | words | meaning |
//! |---|---|
//! | 0 | `T`, rows of the pass |
//! | 1 | first row that gets logits |
//! | 2 | slot of the ring of tokens that holds row 0's id, or [`IDS_GIVEN`] |
//! | 3 | positions of the longest sequence after this pass |
//! | 4..8 | reserved, 0 |
//! | 8 + 8 t.. | row `t`, see below |
//! | then | block tables: places of blocks in the cache's buffers |
//!
//! A row has its id, its position, the first words of its block table and of its ring, and the
//! blocks of its ring; three words are 0.
//!
//! `kernels/common/step.wgsl` reads it.

use super::recorder::Extents;

/// Word 2 where the ids are in the rows.
pub const IDS_GIVEN: u32 = u32::MAX;

/// Words before the rows.
pub const HEADER_WORDS: usize = 8;

/// Words of a row.
pub const ROW_WORDS: usize = 8;

/// One sequence of a pass: its rows and its tables.
#[derive(Clone, Copy, Debug)]
pub struct StepSequence<'a> {
    /// Rows that it adds.
    pub rows: usize,
    /// Position of its first row.
    pub position: usize,
    /// Places of its blocks.
    pub table: &'a [u32],
    /// Places of its ring's blocks.
    pub ring: &'a [u32],
}

/// The words of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepWords {
    words: Vec<u32>,
    extents: Extents,
}

impl StepWords {
    /// Fills in a pass; the vector is reused. `ids` is empty where `ring_slot` holds row 0's.
    pub fn fill(
        &mut self,
        ids: &[u32],
        ring_slot: Option<u32>,
        sequences: &[StepSequence<'_>],
        logit_rows: usize,
    ) {
        let rows: usize = sequences.iter().map(|sequence| sequence.rows).sum();
        let longest = sequences.iter().map(|s| s.position + s.rows).max();
        let longest = longest.unwrap_or(0);
        self.words.clear();
        self.words.extend([
            word(rows),
            word(rows - logit_rows.min(rows)),
            ring_slot.unwrap_or(IDS_GIVEN),
            word(longest),
        ]);
        self.words.resize(HEADER_WORDS + ROW_WORDS * rows, 0);
        let mut row = 0;
        for sequence in sequences {
            let table = self.words.len();
            self.words.extend_from_slice(sequence.table);
            let ring = self.words.len();
            self.words.extend_from_slice(sequence.ring);
            for i in 0..sequence.rows {
                let at = HEADER_WORDS + ROW_WORDS * row;
                self.words[at] = ids.get(row).copied().unwrap_or(0);
                self.words[at + 1] = word(sequence.position + i);
                self.words[at + 2] = word(table);
                self.words[at + 3] = word(ring);
                self.words[at + 4] = word(sequence.ring.len());
                row += 1;
            }
        }
        self.extents = Extents {
            rows: word(rows),
            logit_rows: word(logit_rows),
            positions: word(longest),
        };
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// What grids depend on.
    #[must_use]
    pub fn extents(&self) -> Extents {
        self.extents
    }
}

/// Positions and rows are bounded by the cache long before a word is full.
fn word(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
