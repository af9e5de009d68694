//! The oracle: every operation as a plain loop that reads like its formula.
//!
//! Weights are dequantized to f32 when written, activations and the KV cache are f32, and sums
//! run in f64, so that what differs from this backend by more than rounding is wrong.
//! Nothing of the other backends' arithmetic is used here.
//!
//! Long because it is one implementation of a trait with many methods, and all of its arithmetic
//! is to be read beside them.

use super::ledger::Ledger;
use super::memory::{bytes_of, grow};
use super::ops::{
    Activation, Attention, Cache, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct,
    NormQkv, NormSpan, OutResidual, QkRopeAppend,
};
use super::{
    Backend, BackendError, BackendMemory, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs,
    Recording, RopeId, RopeKind, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot, VectorId,
};
use crate::gguf::GgmlType;
use crate::quant;

/// Plain scalar backend. Slow by design: a few tokens a second for a model of 135 M weights.
#[derive(Debug)]
pub struct ReferenceBackend {
    ledger: Ledger,
    matrices: Vec<Matrix>,
    /// Layers of the full cache and of rings.
    layers: [usize; 2],
}

/// `[N, K]` in f32; grows as parts arrive, which need not be in order.
#[derive(Debug)]
struct Matrix {
    cols: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// Row `n`, `[K]`.
    fn row(&self, n: usize) -> &[f32] {
        &self.values[n * self.cols..(n + 1) * self.cols]
    }

    /// `y[n] = sum_k w[n, k] x[k]`: `x [K]` → `[N]`.
    fn times(&self, x: &[f32]) -> Vec<f32> {
        (0..self.values.len() / self.cols)
            .map(|n| dot(self.row(n), x))
            .collect()
    }
}

impl ReferenceBackend {
    /// A backend without weights.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ledger: Ledger::new(),
            matrices: Vec::new(),
            layers: [0; 2],
        }
    }

    /// `x`, normalized if there is a norm.
    fn maybe_norm(&self, norm: Option<&Norm>, x: &[f32]) -> Vec<f32> {
        norm.map_or_else(|| x.to_vec(), |norm| self.norm(norm, x))
    }

    /// RMS norm of `x [n]` → `[n]`.
    fn norm(&self, norm: &Norm, x: &[f32]) -> Vec<f32> {
        let weight = self.ledger.vectors.get(norm.weight);
        let mean_square = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / x.len() as f64;
        let factor = 1.0 / (mean_square + f64::from(norm.eps)).sqrt();
        x.iter()
            .zip(weight)
            .map(|(&v, &w)| to_f32(f64::from(v) * factor * f64::from(w)))
            .collect()
    }

    /// Adds a bias, if there is one.
    fn add_bias(&self, bias: Option<VectorId>, y: &mut [f32]) {
        if let Some(bias) = bias {
            for (y, b) in y.iter_mut().zip(self.ledger.vectors.get(bias)) {
                *y += b;
            }
        }
    }

    /// Norms of the queries and keys of row `t`, `[(H + 2 G) D]`.
    fn norm_queries_and_keys(&mut self, qkv: Slot, (rows, t): (usize, usize), op: &QkRopeAppend) {
        let (q, kv) = (op.heads.query_len(), op.heads.kv_len());
        for (range, norm) in [(0..q, &op.q_norm), (q..q + kv, &op.k_norm)] {
            let Some(norm) = norm else { continue };
            let span = match op.norm_span {
                NormSpan::Head => op.heads.head_dim,
                NormSpan::Row => range.len(),
            };
            let part = &self.row(qkv, rows, t)[range.clone()];
            let normed: Vec<f32> = part.chunks(span).flat_map(|x| self.norm(norm, x)).collect();
            self.row_mut(qkv, rows, t)[range].copy_from_slice(&normed);
        }
    }

    /// Rotates one head `[D]` at a position.
    fn rotate(&self, rope: RopeId, position: usize, head: &mut [f32]) -> Result<(), BackendError> {
        let rope = self.ledger.rope("qk_rope_append", rope)?;
        let pairs = rope.frequencies.len();
        for (i, &frequency) in rope.frequencies.iter().enumerate() {
            let (a, b) = match rope.kind {
                RopeKind::Interleaved => (2 * i, 2 * i + 1),
                RopeKind::Halves => (i, i + pairs),
            };
            // Models are trained with the angle rounded to f32.
            let angle = position as f32 * frequency;
            let (sin, cos) = (angle.sin() * rope.magnitude, angle.cos() * rope.magnitude);
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
        }
        Ok(())
    }

    /// Where a cached head lies in its block, `[block_tokens, L, 2, G, D]`.
    fn cache_offset(&self, place: &Place) -> usize {
        let heads = &place.heads;
        let in_block = place.position % self.ledger.blocks.block_tokens();
        let layer = in_block * self.layers[place.cache as usize] + place.layer;
        ((layer * 2 + place.kind) * heads.num_kv_heads + place.kv_head) * heads.head_dim
    }

    /// A cached key or value head, `[D]`.
    fn cached(&self, table: &[BlockId], place: &Place) -> &[f32] {
        let block = table[place.position / self.ledger.blocks.block_tokens() % table.len()];
        let offset = self.cache_offset(place);
        &self.ledger.blocks.values(block)[offset..offset + place.heads.head_dim]
    }

    /// Attention of one query head `[D]` at `position` → `[D]`.
    fn attend(
        &self,
        op: &Attention,
        table: &[BlockId],
        (position, kv_head): (usize, usize),
        query: &[f32],
    ) -> Vec<f32> {
        let first = op
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        let place = |kind, position| Place {
            cache: op.cache,
            layer: op.layer,
            heads: op.heads,
            kind,
            kv_head,
            position,
        };
        let scores: Vec<f64> = (first..=position)
            .map(|s| {
                let score = dot(query, self.cached(table, &place(KEY, s))) * op.scale;
                f64::from(soft_cap(op.soft_cap, score))
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0_f64; op.heads.head_dim];
        for (s, weight) in (first..=position).zip(&weights) {
            for (out, &v) in out.iter_mut().zip(self.cached(table, &place(VALUE, s))) {
                *out += weight / total * f64::from(v);
            }
        }
        out.into_iter().map(to_f32).collect()
    }

    /// `residual[t] += scale post_norm(w x[t] + bias)` for every row.
    fn add_projection(
        &mut self,
        op: &'static str,
        (x, matrix, residual): (Slot, MatrixId, Slot),
        bias: Option<VectorId>,
        (post_norm, scale): (Option<&Norm>, f32),
    ) -> Result<(), BackendError> {
        if x == residual {
            return Err(BackendError::Usage {
                op,
                why: "reads and writes the same slot",
            });
        }
        let rows = self.ledger.step.rows();
        for t in 0..rows {
            let mut y = self.matrices[matrix.0].times(self.row(x, rows, t));
            self.add_bias(bias, &mut y);
            y = self.maybe_norm(post_norm, &y);
            for (r, y) in self.row_mut(residual, rows, t).iter_mut().zip(y) {
                *r += scale * y;
            }
        }
        Ok(())
    }

    fn row(&self, slot: Slot, rows: usize, t: usize) -> &[f32] {
        let width = self.ledger.slots.width(slot);
        &self.ledger.slots.rows(slot, rows)[t * width..(t + 1) * width]
    }

    fn row_mut(&mut self, slot: Slot, rows: usize, t: usize) -> &mut [f32] {
        let width = self.ledger.slots.width(slot);
        &mut self.ledger.slots.rows_mut(slot, rows)[t * width..(t + 1) * width]
    }
}

impl Default for ReferenceBackend {
    fn default() -> Self {
        Self::new()
    }
}

/// A head in the KV cache.
struct Place {
    cache: Cache,
    layer: usize,
    heads: HeadShape,
    kind: usize,
    kv_head: usize,
    position: usize,
}

const KEY: usize = 0;
const VALUE: usize = 1;

fn dot(a: &[f32], b: &[f32]) -> f32 {
    to_f32(
        a.iter()
            .zip(b)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum(),
    )
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is the purpose"
)]
fn to_f32(x: f64) -> f32 {
    x as f32
}

fn soft_cap(cap: Option<f32>, x: f32) -> f32 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}

fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

impl Backend for ReferenceBackend {
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        let id = self.ledger.create_matrix(spec)?;
        self.matrices.push(Matrix {
            cols: spec.cols,
            values: Vec::new(),
        });
        Ok(id)
    }

    fn write_rows(
        &mut self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        blocks: &[u8],
    ) -> Result<(), BackendError> {
        let (rows, parts) =
            self.ledger
                .accept_rows(matrix, part, ggml_type, first_row, blocks.len())?;
        let values = &mut self.matrices[matrix.0].values;
        let cols = parts.cols;
        grow(
            values,
            "weights",
            &[rows.first + rows.count, cols],
            f32::NAN,
        )?;
        let target = &mut values[rows.first * cols..(rows.first + rows.count) * cols];
        quant::dequantize(ggml_type, blocks, target).map_err(|error| BackendError::Rows {
            tensor: parts.name(part).to_owned(),
            first_row,
            end_row: first_row + rows.count,
            why: error.to_string(),
        })?;
        self.ledger.commit_rows(matrix, part, ggml_type, rows);
        Ok(())
    }

    fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError> {
        self.ledger.create_vector(values)
    }

    fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError> {
        self.ledger.create_rope(spec)
    }

    fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError> {
        self.ledger.prepare(shape)?;
        self.layers = [shape.num_layers, shape.window_layers];
        Ok(())
    }

    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        self.ledger.take_block(cache)
    }

    fn release_block(&mut self, block: BlockId) {
        self.ledger.blocks.release(block);
    }

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        self.ledger.begin(step)?;
        Ok(Recording::Needed)
    }

    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_embed(op, out)?;
        for t in 0..rows {
            let id = self.ledger.step.ids[t] as usize;
            let scaled: Vec<f32> = self.matrices[op.table.0]
                .row(id)
                .iter()
                .map(|&v| v * op.scale)
                .collect();
            self.row_mut(out, rows, t).copy_from_slice(&scaled);
        }
        Ok(())
    }

    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_norm_qkv(x, op, out)?;
        for t in 0..rows {
            let normed = self.maybe_norm(op.norm.as_ref(), self.row(x, rows, t));
            let mut y = self.matrices[op.qkv.0].times(&normed);
            self.add_bias(op.bias, &mut y);
            self.row_mut(out, rows, t).copy_from_slice(&y);
        }
        Ok(())
    }

    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError> {
        let rows = self.ledger.check_qk_rope_append(qkv, op)?;
        let (heads, head_dim) = (op.heads, op.heads.head_dim);
        let (queries, keys) = (heads.num_heads, heads.num_kv_heads);
        for s in 0..self.ledger.step.sequences.len() {
            let sequence = self.ledger.step.sequences[s];
            for i in 0..sequence.rows {
                let (t, position) = (sequence.first_row + i, sequence.position + i);
                self.norm_queries_and_keys(qkv, (rows, t), op);
                // Heads of the row in order: queries, keys, values.
                for h in 0..queries + 2 * keys {
                    let mut head =
                        self.row(qkv, rows, t)[h * head_dim..(h + 1) * head_dim].to_vec();
                    if h < queries + keys
                        && let Some(rope) = op.rope
                    {
                        self.rotate(rope, position, &mut head)?;
                    }
                    if h < queries {
                        self.row_mut(qkv, rows, t)[h * head_dim..(h + 1) * head_dim]
                            .copy_from_slice(&head);
                        continue;
                    }
                    let (kind, kv_head) = ((h - queries) / keys, (h - queries) % keys);
                    let place = Place {
                        cache: op.cache,
                        layer: op.layer,
                        heads,
                        kind,
                        kv_head,
                        position,
                    };
                    let offset = self.cache_offset(&place);
                    let blocks = &mut self.ledger.blocks;
                    let table = self.ledger.step.table(&sequence, op.cache);
                    let block = table[position / blocks.block_tokens() % table.len()];
                    blocks.values_mut(block)[offset..offset + head_dim].copy_from_slice(&head);
                }
            }
        }
        Ok(())
    }

    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_attention(qkv, op, out)?;
        let head_dim = op.heads.head_dim;
        let group = op.heads.num_heads / op.heads.num_kv_heads;
        for s in 0..self.ledger.step.sequences.len() {
            let sequence = self.ledger.step.sequences[s];
            for i in 0..sequence.rows {
                let (t, position) = (sequence.first_row + i, sequence.position + i);
                for h in 0..op.heads.num_heads {
                    let range = h * head_dim..(h + 1) * head_dim;
                    let query = &self.row(qkv, rows, t)[range.clone()];
                    let table = self.ledger.step.table(&sequence, op.cache);
                    let attended = self.attend(op, table, (position, h / group), query);
                    self.row_mut(out, rows, t)[range].copy_from_slice(&attended);
                }
            }
        }
        Ok(())
    }

    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_out_residual(x, op, residual)?;
        let slots = (x, op.out, residual);
        let after = (op.post_norm.as_ref(), op.scale);
        self.add_projection("out_residual", slots, op.bias, after)
    }

    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError> {
        let rows = self.ledger.check_norm_gate_up_act(x, op, out)?;
        for t in 0..rows {
            let normed = self.maybe_norm(op.norm.as_ref(), self.row(x, rows, t));
            let gate_up = self.matrices[op.gate_up.0].times(&normed);
            let (gate, up) = gate_up.split_at(gate_up.len() / 2);
            let out = self.row_mut(out, rows, t);
            for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
                *out = activate(op.activation, gate) * up;
            }
        }
        Ok(())
    }

    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_down_residual(x, op, residual)?;
        let slots = (x, op.down, residual);
        let after = (op.post_norm.as_ref(), op.scale);
        self.add_projection("down_residual", slots, None, after)
    }

    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError> {
        let logit_rows = self.ledger.check_lm_head(x, op, out)?;
        let rows = self.ledger.step.rows();
        let first = match self.ledger.step.outputs {
            Outputs::LastRow => rows - 1,
            Outputs::Nothing | Outputs::AllRows | Outputs::States => 0,
        };
        for i in 0..logit_rows {
            let normed = self.norm(&op.norm, self.row(x, rows, first + i));
            let logits = self.matrices[op.head.0].times(&normed);
            let target = self.row_mut(out, logit_rows, i);
            for (target, logit) in target.iter_mut().zip(logits) {
                *target = soft_cap(op.soft_cap, logit * op.scale);
            }
        }
        Ok(())
    }

    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError> {
        let rows = self.ledger.check_output_norm(x, norm)?;
        for t in 0..rows {
            let normed = self.norm(norm, self.row(x, rows, t));
            self.row_mut(x, rows, t).copy_from_slice(&normed);
        }
        Ok(())
    }

    fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError> {
        self.ledger.sample(logits, params)
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        self.ledger.submit()
    }

    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.ledger.read_token(slot)
    }

    async fn read_logits(&mut self) -> Result<&[f32], BackendError> {
        self.ledger.read_logits()
    }

    async fn read_states(&mut self) -> Result<&[f32], BackendError> {
        self.ledger.read_states()
    }

    fn memory(&self) -> BackendMemory {
        let matrices: u64 = self
            .matrices
            .iter()
            .map(|matrix| bytes_of(&matrix.values))
            .sum();
        BackendMemory {
            weights_bytes: matrices + self.ledger.vector_bytes(),
            kv_cache_bytes: self.ledger.blocks.bytes(),
            scratch_bytes: self.ledger.slots.bytes(),
        }
    }
}
