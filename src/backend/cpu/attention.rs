//! Attention over a paged KV cache with an online softmax.
//!
//! For one row and one KV head, the positions are taken in tiles. Of each tile: scores of all
//! query heads that share the KV head, so that a key is loaded once for the group; then the
//! running maximum, the rescaling of what was summed so far where it grows, and the weighted
//! sum of values. Memory is one tile a head, whatever the length (Milakov & Gimelshein 2018,
//! <https://arxiv.org/abs/1805.02867>).

use super::math;
use super::team::Team;
use crate::backend::BackendError;
use crate::backend::blocks::Blocks;
use crate::backend::memory::{allocate, bytes_of};
use crate::backend::ops::{Attention, HeadShape};
use crate::backend::step::{Sequence, StepState};

/// Positions of a tile: 32 values of 64 elements are 8 KiB, a quarter of a first-level cache.
const TILE: usize = 32;

/// Query heads that share a pass over a tile: each takes four of the sixteen registers that are
/// sure to be there.
const HEADS: usize = 2;

/// Values whose sum is held in registers while a tile's positions pass.
const LANES: usize = 16;

/// Where keys and values lie in a block: `[L, 2, G, block_tokens, D]`, so that the positions
/// of one head are contiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheLayout {
    pub(super) heads: HeadShape,
    pub(super) block_tokens: usize,
}

impl CacheLayout {
    /// Range of the keys (`kind` 0) or values (1) of `count` positions from `first` of a block.
    pub(super) fn range(
        &self,
        [layer, kind, kv_head]: [usize; 3],
        first: usize,
        count: usize,
    ) -> std::ops::Range<usize> {
        let head = (layer * 2 + kind) * self.heads.num_kv_heads + kv_head;
        let start = (head * self.block_tokens + first) * self.heads.head_dim;
        start..start + count * self.heads.head_dim
    }
}

/// Buffers for one KV head of one row.
#[derive(Debug)]
pub(super) struct Scratch {
    /// `[H / G, TILE]`.
    scores: Vec<f32>,
    /// Running maximum of each query head's scores, `[H / G]`.
    max: Vec<f32>,
    /// Running sum of each query head's weights, `[H / G]`.
    sum: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(heads: &HeadShape) -> Result<Self, BackendError> {
        let group = heads.num_heads / heads.num_kv_heads;
        Ok(Self {
            scores: allocate("attention", &[group, TILE], 0.0)?,
            max: allocate("attention", &[group], 0.0)?,
            sum: allocate("attention", &[group], 0.0)?,
        })
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.scores) + bytes_of(&self.max) + bytes_of(&self.sum)
    }
}

/// All rows and heads: queries of `qkv [T, (H + 2 G) D]` → `out [T, H D]`. One scratch a part.
pub(super) fn attention(
    op: &Attention,
    step: &StepState,
    blocks: &Blocks,
    (qkv, out): (&[f32], &mut [f32]),
    (scratch, team): (&mut [Scratch], &Team),
) {
    let heads = &op.heads;
    let group = heads.num_heads / heads.num_kv_heads;
    // Alone, a thread reads keys and values once for all heads of a group.
    let heads_at_once = if team.threads() == 1 { group } else { HEADS };
    // Part by part in turn, since later rows see more positions.
    let mut parts: Vec<_> = scratch.iter_mut().map(|own| (own, Vec::new())).collect();
    let count = parts.len();
    let rows = step
        .sequences
        .iter()
        .flat_map(|s| (0..s.rows).map(move |i| (s, i)));
    let groups = rows.flat_map(|row| (0..heads.num_kv_heads).map(move |g| (row, g)));
    let units = groups
        .zip(out.chunks_mut(group * heads.head_dim))
        .flat_map(|(place, out)| {
            let some = out.chunks_mut(heads_at_once * heads.head_dim).enumerate();
            some.map(move |(unit, out)| (place, unit * heads_at_once, out))
        });
    for (unit, (((sequence, i), kv_head), first, out)) in units.enumerate() {
        let head = kv_head * group + first;
        let queries = (sequence.first_row + i) * heads.qkv_len() + head * heads.head_dim;
        let queries = &qkv[queries..][..out.len()];
        let place = Place {
            op,
            step,
            blocks,
            sequence,
            kv_head,
        };
        parts[unit % count].1.push((place, i, queries, out));
    }
    team.run(&mut parts, |(scratch, units)| {
        for (place, i, queries, out) in units {
            let position = place.sequence.position + *i;
            place.attend(position, queries, out, scratch);
        }
    });
}

/// One KV head of one sequence.
struct Place<'a> {
    op: &'a Attention,
    step: &'a StepState,
    blocks: &'a Blocks,
    sequence: &'a Sequence,
    kv_head: usize,
}

impl Place<'_> {
    /// Query heads of a group at `position`: `queries [T, D]` → `out [T, D]`.
    fn attend(&self, position: usize, queries: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        let head_dim = self.op.heads.head_dim;
        let block_tokens = self.blocks.block_tokens();
        let layout = CacheLayout {
            heads: self.op.heads,
            block_tokens,
        };
        let table = self.step.table(self.sequence, self.op.cache);
        let end = position + 1;
        scratch.max.fill(f32::NEG_INFINITY);
        scratch.sum.fill(0.0);
        out.fill(0.0);
        let mut next = self
            .op
            .window
            .map_or(0, |window| end.saturating_sub(window));
        while next < end {
            let (block, first) = (next / block_tokens, next % block_tokens);
            let count = TILE.min(block_tokens - first).min(end - next);
            let values = self.blocks.values(table[block % table.len()]);
            let part =
                |kind| &values[layout.range([self.op.layer, kind, self.kv_head], first, count)];
            self.tile([part(0), part(1)], queries, out, scratch);
            next += count;
        }
        for (out, sum) in out.chunks_mut(head_dim).zip(&scratch.sum) {
            let factor = 1.0 / sum;
            out.iter_mut().for_each(|out| *out *= factor);
        }
    }

    /// One tile: `keys [count, D]`, `values [count, D]`.
    fn tile(
        &self,
        [keys, values]: [&[f32]; 2],
        queries: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let head_dim = self.op.heads.head_dim;
        let count = keys.len() / head_dim;
        if self.sequence.rows == 1 {
            // Between two tokens all weights have passed through the caches.
            math::fetch(keys);
            math::fetch(values);
        }
        let queries = queries.chunks(HEADS * head_dim);
        for (queries, scores) in queries.zip(scratch.scores.chunks_mut(HEADS * TILE)) {
            match queries.len() / head_dim {
                HEADS => score::<HEADS>(queries, keys, self.op.scale, scores),
                _ => score::<1>(queries, keys, self.op.scale, scores),
            }
        }
        let heads = scratch
            .scores
            .chunks_mut(TILE)
            .zip(out.chunks_mut(head_dim));
        let running = scratch.max.iter_mut().zip(&mut scratch.sum);
        for ((scores, out), (max, sum)) in heads.zip(running) {
            let scores = &mut scores[..count];
            math::soft_cap(self.op.soft_cap, scores);
            let tile_max = math::max(scores);
            if tile_max > *max {
                // The first tile has nothing to rescale: e^(-inf) counts as 0.
                let factor = if *max == f32::NEG_INFINITY {
                    0.0
                } else {
                    math::exp(*max - tile_max)
                };
                out.iter_mut().for_each(|out| *out *= factor);
                *sum *= factor;
                *max = tile_max;
            }
            *sum += math::exp_and_sum(scores, *max);
        }
        let weights = scratch.scores.chunks(HEADS * TILE);
        for (weights, out) in weights.zip(out.chunks_mut(HEADS * head_dim)) {
            match out.len() / head_dim {
                HEADS => add_weighted::<HEADS>(weights, values, out),
                _ => add_weighted::<1>(weights, values, out),
            }
        }
    }
}

/// `scores[h, s] = scale * queries[h] · keys[s]`: `queries [T, D]`, `keys [count, D]` → `scores
/// [T, TILE]`, four keys at a time.
fn score<const T: usize>(queries: &[f32], keys: &[f32], scale: f32, scores: &mut [f32]) {
    let head_dim = queries.len() / T;
    let queries: [&[f32]; T] = std::array::from_fn(|t| &queries[t * head_dim..][..head_dim]);
    for (i, keys) in keys.chunks(4 * head_dim).enumerate() {
        // Fewer than four at the end: the last one stands for those that are not there.
        let last = keys.len() / head_dim - 1;
        let key = |i: usize| &keys[i.min(last) * head_dim..][..head_dim];
        let dots = math::dot_4([key(0), key(1), key(2), key(3)], queries);
        for (t, dots) in dots.iter().enumerate() {
            let scores = &mut scores[t * TILE + 4 * i..][..4];
            for (score, dot) in scores.iter_mut().zip(dots) {
                *score = dot * scale;
            }
        }
    }
}

/// `out[h, d] += sum_s weights[h, s] values[s, d]`: `weights [T, TILE]`, `values [count, D]`,
/// `out [T, D]`.
fn add_weighted<const T: usize>(weights: &[f32], values: &[f32], out: &mut [f32]) {
    let head_dim = out.len() / T;
    let count = values.len() / head_dim;
    let weights: [&[f32]; T] = std::array::from_fn(|t| &weights[t * TILE..][..count]);
    let whole = head_dim / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        let mut sums = [[0.0_f32; LANES]; T];
        for (s, value) in values.chunks_exact(head_dim).enumerate() {
            if let Some(value) = value[first..].first_chunk::<LANES>() {
                for t in 0..T {
                    for lane in 0..LANES {
                        sums[t][lane] += weights[t][s] * value[lane];
                    }
                }
            }
        }
        for (sums, out) in sums.iter().zip(out.chunks_mut(head_dim)) {
            math::add(&mut out[first..first + LANES], sums);
        }
    }
    for (weights, out) in weights.iter().zip(out.chunks_mut(head_dim)) {
        for (weight, value) in weights.iter().zip(values.chunks_exact(head_dim)) {
            math::add_scaled(&mut out[whole..], *weight, &value[whole..]);
        }
    }
}
