//! CPU backend: rows of weights packed for SIMD kernels.
//!
//! It computes while the forward pass records: every operation has run when its call returns,
//! and [`Backend::submit`] only marks the results readable.
//!
//! Long because it is one implementation of a trait with many methods; the arithmetic lies in
//! the modules below.

mod attention;
mod codes;
mod kernels;
mod layout;
mod math;
mod matrix;
mod packed;
mod rope;
mod rounded;
mod team;
mod unpack;

use super::ledger::Ledger;
use super::memory::{allocate, bytes_of};
use super::ops::{
    Activation, Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv,
    NormSpan, OutResidual, QkRopeAppend,
};
use super::{
    Backend, BackendError, BackendMemory, BlockId, Chunks, MatrixId, MatrixSpec, ModelShape,
    Recording, RopeId, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot, VectorId,
};
use crate::gguf::GgmlType;
use attention::CacheLayout;
use matrix::{Matrix, ProductScratch};
use rope::RopeTable;
use rounded::Digits;
use team::Team;
#[cfg(feature = "threads")]
pub(crate) use team::{Crew, Helper, best_size};

/// How products of weights and activations are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Activations rounded in blocks: to int8, and to 14 bits ahead of attention and for weights
    /// that are signed bytes or stand for them (Q8_0, Q8_1, Q8_K, IQ4_NL, MXFP4); f32 for weights
    /// that are floats (F32, F16, BF16).
    Fast,
    /// f32 activations for all weights.
    Exact,
}

/// Backend on the CPU.
pub struct CpuBackend {
    precision: Precision,
    ledger: Ledger,
    matrices: Vec<Matrix>,
    ropes: Vec<RopeTable>,
    scratch: Scratch,
    team: Team,
}

/// Buffers inside operations, sized by [`Backend::prepare`].
struct Scratch {
    /// Normalized rows, `[T, C]`.
    normed: Vec<f32>,
    /// Products before what follows them, `[T, max(2 F, C)]`.
    projected: Vec<f32>,
    product: ProductScratch,
    /// Of each part.
    attention: Vec<attention::Scratch>,
}

/// Types whose kernel, as this module was built, differs in a bit from its plain twin.
///
/// # Errors
/// [`BackendError::OutOfMemory`].
pub fn differing_kernels() -> Result<Vec<&'static str>, BackendError> {
    kernels::check::differing()
}

/// The same of some types, looked at less closely: of those that a model has, before it is used.
///
/// # Errors
/// [`BackendError::OutOfMemory`].
pub fn differing_kernels_of(types: &[GgmlType]) -> Result<Vec<&'static str>, BackendError> {
    kernels::check::differing_of(types)
}

impl CpuBackend {
    /// A backend without weights, that computes on the calling thread.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        Self::with_team(precision, Team::alone())
    }

    /// The same on `threads` threads, the calling one among them, where the system has them.
    /// They look for work for a moment, by `now_ms`, before they sleep.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn with_threads(precision: Precision, threads: usize, now_ms: fn() -> f64) -> Self {
        Self::with_team(precision, Team::start(threads, now_ms))
    }

    /// The same on the calling thread and those that have joined a crew.
    #[cfg(feature = "threads")]
    pub(crate) fn with_crew(precision: Precision, crew: Crew) -> Self {
        Self::with_team(precision, Team::of(crew))
    }

    /// Threads that share its operations.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    fn with_team(precision: Precision, team: Team) -> Self {
        Self {
            precision,
            ledger: Ledger::new(),
            matrices: Vec::new(),
            ropes: Vec::new(),
            scratch: Scratch {
                normed: Vec::new(),
                projected: Vec::new(),
                product: ProductScratch::empty(),
                attention: Vec::new(),
            },
            team,
        }
    }

    /// The tier that products are computed in.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// `matrix` times the norm (if there is one) of the last `rows` of the pass's rows of `x`,
    /// into `out`.
    fn project_normed(
        &mut self,
        (norm, matrix, digits): (Option<&Norm>, MatrixId, Digits),
        x: Slot,
        rows: usize,
        out: Target,
    ) -> Result<(), BackendError> {
        let (slots, scratch) = (&mut self.ledger.slots, &mut self.scratch);
        let width = slots.width(x);
        let all = self.ledger.step.rows();
        let x = &slots.rows(x, all)[(all - rows) * width..];
        let normed = &mut scratch.normed[..rows * width];
        match norm {
            Some(norm) => {
                let weight = self.ledger.vectors.get(norm.weight);
                self.team
                    .run_rows((x, width), (normed, width), |x, normed| {
                        math::rms_norm(x, weight, norm.eps, normed);
                    });
            }
            None => normed.copy_from_slice(x),
        }
        let matrix = &self.matrices[matrix.0];
        let out = match out {
            Target::Slot(slot) => slots.rows_mut(slot, rows),
            Target::Scratch(width) => &mut scratch.projected[..rows * width],
        };
        matrix.product(
            (self.precision, digits),
            rows,
            &scratch.normed[..rows * width],
            out,
            (&mut scratch.product, &self.team),
        )
    }

    /// `residual[t] += scale post_norm(w x[t] + bias)` for every row.
    fn add_projection(
        &mut self,
        (op, digits): (&'static str, Digits),
        (x, matrix, residual): (Slot, MatrixId, Slot),
        bias: Option<VectorId>,
        (post_norm, scale): (Option<Norm>, f32),
    ) -> Result<(), BackendError> {
        let rows = self.ledger.step.rows();
        let width = self.ledger.slots.width(residual);
        let vectors = &self.ledger.vectors;
        let (x, residual) = self.ledger.slots.pair(op, (x, rows), (residual, rows))?;
        let projected = &mut self.scratch.projected[..rows * width];
        let matrix = &self.matrices[matrix.0];
        let with = (&mut self.scratch.product, &self.team);
        matrix.product((self.precision, digits), rows, x, projected, with)?;
        for (y, residual) in projected.chunks_mut(width).zip(residual.chunks_mut(width)) {
            if let Some(bias) = bias {
                math::add(y, vectors.get(bias));
            }
            if let Some(norm) = post_norm {
                math::rms_norm_in_place(y, vectors.get(norm.weight), norm.eps);
            }
            math::add_scaled(residual, scale, y);
        }
        Ok(())
    }

    /// Norm, then rotation of one head of row `t`.
    fn norm_and_rotate(&mut self, op: &QkRopeAppend, qkv: Slot, rows: usize) {
        let heads = &op.heads;
        let row_len = heads.qkv_len();
        let qkv = self.ledger.slots.rows_mut(qkv, rows);
        let vectors = &self.ledger.vectors;
        let rope = op
            .rope
            .map(|id| (&self.ledger.ropes[id.0], &self.ropes[id.0]));
        let mut rows: Vec<_> = qkv.chunks_mut(row_len).enumerate().collect();
        self.team.run(&mut rows, |(t, row)| {
            let (queries, rest) = row.split_at_mut(heads.query_len());
            let keys = &mut rest[..heads.kv_len()];
            for (part, norm) in [(queries, op.q_norm), (keys, op.k_norm)] {
                if let Some(norm) = norm {
                    let span = match op.norm_span {
                        NormSpan::Head => heads.head_dim,
                        NormSpan::Row => part.len(),
                    };
                    for span in part.chunks_mut(span) {
                        math::rms_norm_in_place(span, vectors.get(norm.weight), norm.eps);
                    }
                }
                for head in part.chunks_mut(heads.head_dim) {
                    if let Some((spec, table)) = rope {
                        table.rotate(spec.kind, *t, head);
                    }
                }
            }
        });
    }

    /// Keys and values of all rows into the cache.
    fn append(&mut self, op: &QkRopeAppend, qkv: Slot, rows: usize) {
        let ledger = &mut self.ledger;
        let heads = op.heads;
        let block_tokens = ledger.blocks.block_tokens();
        let layout = CacheLayout {
            heads,
            block_tokens,
        };
        let qkv = ledger.slots.rows(qkv, rows);
        for sequence in &ledger.step.sequences {
            let table = ledger.step.table(sequence, op.cache);
            for i in 0..sequence.rows {
                let position = sequence.position + i;
                let block = ledger
                    .blocks
                    .values_mut(table[position / block_tokens % table.len()]);
                let row = &qkv[(sequence.first_row + i) * heads.qkv_len()..];
                let cached = &row[heads.query_len()..heads.qkv_len()];
                // Key heads, then value heads.
                for (h, head) in cached.chunks(heads.head_dim).enumerate() {
                    let kind = h / heads.num_kv_heads;
                    let place = [op.layer, kind, h % heads.num_kv_heads];
                    let range = layout.range(place, position % block_tokens, 1);
                    block[range].copy_from_slice(head);
                }
            }
        }
    }
}

/// Where a product goes.
#[derive(Clone, Copy)]
enum Target {
    Slot(Slot),
    /// `scratch.projected` with this width.
    Scratch(usize),
}

impl Scratch {
    fn new(
        shape: &ModelShape,
        precision: Precision,
        matrices: &[Matrix],
        parts: usize,
    ) -> Result<Self, BackendError> {
        let attention = (0..parts).map(|_| attention::Scratch::new(&shape.heads));
        let rows = shape.max_rows;
        let widest = shape.hidden_size.max(2 * shape.intermediate_size);
        Ok(Self {
            normed: allocate("activations", &[rows, shape.hidden_size], f32::NAN)?,
            projected: allocate("activations", &[rows, widest], f32::NAN)?,
            product: ProductScratch::new(matrices, precision, rows)?,
            attention: attention.collect::<Result<_, _>>()?,
        })
    }

    fn bytes(&self) -> u64 {
        let buffers = [&self.normed, &self.projected];
        let buffers: u64 = buffers.into_iter().map(bytes_of).sum();
        let attention: u64 = self.attention.iter().map(attention::Scratch::bytes).sum();
        buffers + attention + self.product.bytes()
    }
}

impl std::fmt::Debug for CpuBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuBackend")
            .field("precision", &self.precision)
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Backend for CpuBackend {
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        let id = self.ledger.create_matrix(spec)?;
        self.matrices.push(Matrix::new(spec.cols));
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
        let (rows, _) =
            self.ledger
                .accept_rows(matrix, part, ggml_type, first_row, blocks.len())?;
        self.matrices[matrix.0].write(rows, ggml_type, blocks)?;
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
        self.ledger.check_prepare(shape)?;
        let scratch = Scratch::new(shape, self.precision, &self.matrices, self.team.size())?;
        let ropes = self.ledger.ropes.iter();
        let ropes = ropes.map(|rope| RopeTable::new(rope, shape.max_rows));
        self.ropes = ropes.collect::<Result<_, _>>()?;
        self.scratch = scratch;
        self.ledger.prepare(shape)
    }

    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        self.ledger.take_block(cache)
    }

    fn release_block(&mut self, block: BlockId) {
        self.ledger.blocks.release(block);
    }

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        self.ledger.begin(step)?;
        self.ropes.iter_mut().for_each(RopeTable::invalidate);
        Ok(Recording::Needed)
    }

    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_embed(op, out)?;
        let table = &self.matrices[op.table.0];
        let out = self.ledger.slots.rows_mut(out, rows);
        for (out, &id) in out.chunks_mut(table.cols()).zip(&self.ledger.step.ids) {
            table.read_row(id as usize, op.scale, out)?;
        }
        Ok(())
    }

    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_norm_qkv(x, op, out)?;
        let projection = (op.norm.as_ref(), op.qkv, Digits::Many);
        self.project_normed(projection, x, rows, Target::Slot(out))?;
        if let Some(bias) = op.bias {
            let bias = self.ledger.vectors.get(bias);
            for row in self.ledger.slots.rows_mut(out, rows).chunks_mut(bias.len()) {
                math::add(row, bias);
            }
        }
        Ok(())
    }

    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError> {
        let rows = self.ledger.check_qk_rope_append(qkv, op)?;
        if let Some(id) = op.rope {
            let spec = &self.ledger.ropes[id.0];
            self.ropes[id.0].fill(spec, &self.ledger.step.positions);
        }
        self.norm_and_rotate(op, qkv, rows);
        self.append(op, qkv, rows);
        Ok(())
    }

    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_attention(qkv, op, out)?;
        let ledger = &mut self.ledger;
        let slots = ledger.slots.pair("attention", (qkv, rows), (out, rows))?;
        attention::attention(
            op,
            &ledger.step,
            &ledger.blocks,
            slots,
            (&mut self.scratch.attention, &self.team),
        );
        Ok(())
    }

    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_out_residual(x, op, residual)?;
        let after = (op.post_norm, op.scale);
        let named = ("out_residual", Digits::Few);
        self.add_projection(named, (x, op.out, residual), op.bias, after)
    }

    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError> {
        let rows = self.ledger.check_norm_gate_up_act(x, op, out)?;
        let width = self.ledger.slots.width(out);
        let projection = (op.norm.as_ref(), op.gate_up, Digits::Few);
        self.project_normed(projection, x, rows, Target::Scratch(2 * width))?;
        let out = self.ledger.slots.rows_mut(out, rows);
        let gate_up = &self.scratch.projected[..2 * rows * width];
        let team = &self.team;
        team.run_rows((gate_up, 2 * width), (out, width), |gate_up, out| {
            let (gate, up) = gate_up.split_at(width);
            match op.activation {
                Activation::Silu => math::silu_times(gate, up, out),
                Activation::GeluTanh => math::gelu_times(gate, up, out),
            }
        });
        Ok(())
    }

    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_down_residual(x, op, residual)?;
        let after = (op.post_norm, op.scale);
        let named = ("down_residual", Digits::Few);
        self.add_projection(named, (x, op.down, residual), None, after)
    }

    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError> {
        let rows = self.ledger.check_lm_head(x, op, out)?;
        if rows == 0 {
            return Ok(());
        }
        let projection = (Some(&op.norm), op.head, Digits::Few);
        self.project_normed(projection, x, rows, Target::Slot(out))?;
        let logits = self.ledger.slots.rows_mut(out, rows);
        math::scale(logits, op.scale);
        math::soft_cap(op.soft_cap, logits);
        Ok(())
    }

    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError> {
        let rows = self.ledger.check_output_norm(x, norm)?;
        let weight = self.ledger.vectors.get(norm.weight);
        let states = self.ledger.slots.rows_mut(x, rows);
        for row in states.chunks_mut(weight.len()) {
            math::rms_norm_in_place(row, weight, norm.eps);
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

    fn chunks(&self) -> Chunks {
        Chunks {
            tile_rows: kernels::TOKENS,
            ..Chunks::default()
        }
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        self.team.check()?;
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
        let matrices: u64 = self.matrices.iter().map(Matrix::bytes).sum();
        let ropes: u64 = self.ropes.iter().map(RopeTable::bytes).sum();
        BackendMemory {
            weights_bytes: matrices + self.ledger.vector_bytes(),
            kv_cache_bytes: self.ledger.blocks.bytes(),
            scratch_bytes: self.ledger.slots.bytes() + self.scratch.bytes() + ropes,
        }
    }

    fn held_bytes(&self, ggml_type: GgmlType, bytes: u64) -> u64 {
        layout::held_bytes(ggml_type, bytes)
    }
}
