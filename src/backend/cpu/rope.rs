//! Rotary embedding with sines and cosines computed once a pass.

use crate::backend::memory::{allocate, bytes_of};
use crate::backend::{BackendError, RopeKind, RopeSpec};

/// Sines and cosines of one rope for the rows of a pass: `[T, pairs]` each.
#[derive(Debug)]
pub(super) struct RopeTable {
    pairs: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
    ready: bool,
}

impl RopeTable {
    pub(super) fn new(rope: &RopeSpec, max_rows: usize) -> Result<Self, BackendError> {
        let pairs = rope.frequencies.len();
        let dims = [max_rows, pairs];
        Ok(Self {
            pairs,
            cos: allocate("rotary tables", &dims, 0.0)?,
            sin: allocate("rotary tables", &dims, 0.0)?,
            ready: false,
        })
    }

    /// Forgets the positions of the last pass.
    pub(super) fn invalidate(&mut self) {
        self.ready = false;
    }

    /// Computes the table for these positions, once a pass.
    pub(super) fn fill(&mut self, rope: &RopeSpec, positions: &[usize]) {
        if self.ready {
            return;
        }
        let rows = self
            .cos
            .chunks_mut(self.pairs)
            .zip(self.sin.chunks_mut(self.pairs));
        for ((cos, sin), &position) in rows.zip(positions) {
            for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(&rope.frequencies) {
                // Models are trained with the angle rounded to f32.
                let (s, c) = (position as f32 * frequency).sin_cos();
                *cos = c * rope.magnitude;
                *sin = s * rope.magnitude;
            }
        }
        self.ready = true;
    }

    /// Rotates one head of row `t`.
    pub(super) fn rotate(&self, kind: RopeKind, t: usize, head: &mut [f32]) {
        let range = t * self.pairs..(t + 1) * self.pairs;
        let (cos, sin) = (&self.cos[range.clone()], &self.sin[range]);
        match kind {
            RopeKind::Interleaved => {
                let (pairs, _) = head.as_chunks_mut::<2>();
                for (([a, b], cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
            RopeKind::Halves => {
                let (first, second) = head.split_at_mut(self.pairs);
                let pairs = first.iter_mut().zip(second);
                for (((a, b), cos), sin) in pairs.zip(cos).zip(sin) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.cos) + bytes_of(&self.sin)
    }
}
