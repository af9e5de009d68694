//! Sequences with a cache that holds what their rows see, and poison everywhere else.

use crate::backend::ops::Cache;

use super::super::Gpu;
use super::super::check::Seeded;
use super::super::kv::KvLayout;
use super::super::step::{StepSequence, StepWords};

/// Not a number in 32 bits, in 16 and as the scale of 8.
const POISON: u32 = 0x7fff_7fff;

/// Sequences of a pass and their cache.
#[derive(Debug)]
pub(super) struct Cached {
    pub(super) layout: KvLayout,
    pub(super) step: StepWords,
    /// The step of as many rows before.
    pub(super) earlier: StepWords,
    /// Words of the layer's buffer.
    pub(super) words: Vec<u32>,
    /// Per sequence: keys and values `[positions, 2, G, D]` as stored, zeros where none are.
    pub(super) history: Vec<Vec<f32>>,
    /// Sequence and position of each row.
    pub(super) rows: Vec<[usize; 2]>,
}

impl Cached {
    /// Sequences of `[rows, position]`. The cache holds the positions from the first that a row
    /// sees to the last of the sequence, the step's own rows included if `with_rows`.
    pub(super) fn new(
        layout: KvLayout,
        kind: Cache,
        sequences: &[[usize; 2]],
        window: Option<usize>,
        (with_rows, seeded): (bool, &mut Seeded),
    ) -> Self {
        let block_tokens = layout.block_tokens;
        let needed = |[rows, position]: [usize; 2]| match kind {
            Cache::Full => position + rows,
            Cache::Window => window.unwrap_or(1) - 1 + rows,
        };
        let blocks: Vec<usize> = sequences
            .iter()
            .map(|&sequence| needed(sequence).div_ceil(block_tokens))
            .collect();
        // One place more than is taken, and none in order.
        let places = blocks.iter().sum::<usize>() + 1;
        let mut free: Vec<u32> = (0..places)
            .filter_map(|place| place.try_into().ok())
            .collect();
        let mut draw = || {
            let len = free.len() as u64;
            #[expect(clippy::cast_possible_truncation, reason = "an index of the list")]
            let index = (seeded.bits() % len) as usize;
            free.swap_remove(index)
        };
        let tables: Vec<Vec<u32>> = blocks
            .iter()
            .map(|&blocks| (0..blocks).map(|_| draw()).collect())
            .collect();
        let earlier: Vec<_> = sequences
            .iter()
            .map(|&[rows, position]| [rows, position.saturating_sub(rows)])
            .collect();
        let mut cached = Self {
            layout,
            step: step(kind, sequences, &tables),
            earlier: step(kind, &earlier, &tables),
            words: vec![POISON; places * (layout.block_bytes() / 4) as usize],
            history: Vec::new(),
            rows: Vec::new(),
        };
        for (i, (&[rows, position], table)) in sequences.iter().zip(&tables).enumerate() {
            let begin = window.map_or(0, |window| (position + 1).saturating_sub(window));
            let end = if with_rows { position + rows } else { position };
            cached.fill(table, [begin, end, position + rows], seeded);
            cached
                .rows
                .extend((position..position + rows).map(|at| [i, at]));
        }
        cached
    }

    fn fill(&mut self, table: &[u32], [begin, end, len]: [usize; 3], seeded: &mut Seeded) {
        let KvLayout {
            format,
            num_kv_heads,
            head_dim,
            block_tokens,
        } = self.layout;
        let row_words = (self.layout.row_bytes() / 4) as usize;
        let mut history = vec![0.0; len * 2 * num_kv_heads * head_dim];
        for position in begin..end {
            let place = table[position / block_tokens % table.len()] as usize;
            for head in 0..2 * num_kv_heads {
                let row = seeded.values(head_dim);
                let at = (position * 2 * num_kv_heads + head) * head_dim;
                history[at..at + head_dim].copy_from_slice(&format.round(&row));
                let row_index = (place * 2 * num_kv_heads + head) * block_tokens;
                let first = (row_index + position % block_tokens) * row_words;
                self.words[first..first + row_words].copy_from_slice(&format.encode(&row));
            }
        }
        self.history.push(history);
    }

    /// A head's keys (`kind` 0) or values (1) at a position.
    pub(super) fn row(&self, sequence: usize, [position, kind, kv_head]: [usize; 3]) -> &[f32] {
        let heads = self.layout.num_kv_heads;
        let at = ((position * 2 + kind) * heads + kv_head) * self.layout.head_dim;
        &self.history[sequence][at..at + self.layout.head_dim]
    }

    /// The layer's buffer.
    pub(super) fn buffer(&self, gpu: &Gpu) -> wgpu::Buffer {
        gpu.storage_of("cache", &self.words)
    }
}

fn step(kind: Cache, sequences: &[[usize; 2]], tables: &[Vec<u32>]) -> StepWords {
    let sequences: Vec<_> = sequences
        .iter()
        .zip(tables)
        .map(|(&[rows, position], table)| StepSequence {
            rows,
            position,
            table: if kind == Cache::Full { table } else { &[] },
            ring: if kind == Cache::Window { table } else { &[] },
        })
        .collect();
    let rows = sequences.iter().map(|sequence| sequence.rows).sum();
    let mut step = StepWords::default();
    step.fill(&vec![0; rows], None, &sequences, 0);
    step
}
