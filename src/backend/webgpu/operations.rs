//! Operations of a pass as kernels: which buffers they read and write, in which variants.

use super::GpuError;
use super::arena::Arena;
use super::choice;
use super::kernels::{
    attention, linear, norm_add, qk_rope_append, rms_norm, rms_norm_span, rope_table,
};
use super::kv::KvPool;
use super::plan::Plan;
use super::planes::{Matrix, Piece, PlaneFormat};
use super::recorder::Recorder;
use crate::backend::ops::{Attention, Cache, Norm, NormSpan, QkRopeAppend};
use crate::backend::{MatrixId, Outputs, RopeId, RopeSpec, Slot, VectorId};

/// The most rows of the middle shape class: a few rows of verification or of batched
/// sequences.
const FEW_ROWS: usize = 8;

/// Passes with one recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowClass {
    One,
    Few,
    Many,
}

impl RowClass {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::One, Self::Few, Self::Many];

    /// That of a pass of `rows` rows.
    pub(super) fn of(rows: usize) -> Self {
        match rows {
            1 => Self::One,
            2..=FEW_ROWS => Self::Few,
            _ => Self::Many,
        }
    }
}

/// Which products these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Products {
    /// Of queries, keys and values, and of what attention gives.
    AroundAttention,
    FeedForward,
    Logits,
}

impl Products {
    fn rows(self) -> linear::Rows {
        match self {
            Self::AroundAttention | Self::FeedForward => linear::Rows::All,
            Self::Logits => linear::Rows::Logits,
        }
    }

    /// Whether a fast variant may round the activations. Softmax multiplies errors before it, the
    /// choice of tokens shows those of logits; and most weights are in neither place.
    fn may_round(self) -> bool {
        self == Self::FeedForward
    }
}

/// What operations are made of.
pub(super) struct Parts<'a> {
    pub(super) class: RowClass,
    pub(super) outputs: Outputs,
    pub(super) plan: &'a Plan,
    pub(super) arena: &'a Arena,
    pub(super) step: &'a wgpu::Buffer,
    pub(super) ring: &'a wgpu::Buffer,
    pub(super) rotations: &'a [wgpu::Buffer],
    pub(super) linear_scratch: &'a wgpu::Buffer,
    pub(super) attention_scratch: &'a [wgpu::Buffer; 2],
    pub(super) pools: &'a [KvPool; 2],
    pub(super) matrices: &'a [Matrix],
    pub(super) vectors: &'a [wgpu::Buffer],
    pub(super) frequencies: &'a [wgpu::Buffer],
    pub(super) ropes: &'a [RopeSpec],
}

impl Parts<'_> {
    /// Normalized rows of a slot of the residual's width, or the slot itself.
    pub(super) fn normed(
        &self,
        recorder: &mut Recorder<'_>,
        norm: Option<&Norm>,
        x: Slot,
    ) -> &wgpu::Buffer {
        let Some(norm) = norm else {
            return self.arena.slot(x);
        };
        let op = rms_norm::RmsNorm {
            step: self.step,
            x: self.arena.slot(x),
            weight: &self.vectors[norm.weight.0],
            y: &self.arena.normed,
            width: self.arena.width(x),
            eps: norm.eps,
        };
        rms_norm::rms_norm(recorder, self.plan.norm(), &op);
        &self.arena.normed
    }

    /// Products of a slot's rows, normalized if there is a norm.
    pub(super) fn linear_normed(
        &self,
        recorder: &mut Recorder<'_>,
        (norm, x, matrix): (Option<&Norm>, Slot, MatrixId),
        products: Products,
        epilogue: linear::Epilogue<'_>,
        y: (&wgpu::Buffer, usize),
    ) -> Result<(), GpuError> {
        let pieces = self.matrices[matrix.0].pieces();
        let fuses = |piece: &Piece| self.variant(products, piece.format).fuses_norm();
        if pieces.iter().all(fuses) {
            let input = (self.arena.slot(x), matrix, norm);
            return self.linear(recorder, input, products, epilogue, y);
        }
        let normed = self.normed(recorder, norm, x);
        self.linear(recorder, (normed, matrix, None), products, epilogue, y)
    }

    fn variant(&self, products: Products, format: PlaneFormat) -> linear::Variant {
        let class = match products {
            Products::Logits if self.outputs == Outputs::LastRow => RowClass::One,
            _ => self.class,
        };
        self.plan.linear(choice::Products {
            class,
            format,
            rounds: products.may_round(),
        })
    }

    fn linear(
        &self,
        recorder: &mut Recorder<'_>,
        (x, matrix, norm): (&wgpu::Buffer, MatrixId, Option<&Norm>),
        products: Products,
        epilogue: linear::Epilogue<'_>,
        (y, y_width): (&wgpu::Buffer, usize),
    ) -> Result<(), GpuError> {
        let op = linear::Linear {
            step: self.step,
            x,
            matrix: &self.matrices[matrix.0],
            norm: norm.map(|norm| linear::Norm {
                weight: &self.vectors[norm.weight.0],
                eps: norm.eps,
            }),
            rows: products.rows(),
            epilogue,
            y,
            y_width,
            scratch: self.linear_scratch,
        };
        linear::linear_by(recorder, &|format| self.variant(products, format), &op)
    }

    /// `residual[t] += scale post_norm(w x[t] + bias)`.
    pub(super) fn add_projection(
        &self,
        recorder: &mut Recorder<'_>,
        (x, matrix, residual): (Slot, MatrixId, Slot),
        products: Products,
        bias: Option<VectorId>,
        (post_norm, scale): (Option<Norm>, f32),
    ) -> Result<(), GpuError> {
        let bias = bias.map(|bias| &self.vectors[bias.0]);
        let input = (self.arena.slot(x), matrix, None);
        let width = self.arena.width(residual);
        let residual = self.arena.slot(residual);
        let Some(norm) = post_norm else {
            let add = linear::Epilogue::Add { scale, bias };
            return self.linear(recorder, input, products, add, (residual, width));
        };
        let store = linear::Epilogue::Store { column: 0, bias };
        let projected = &self.arena.projected;
        self.linear(recorder, input, products, store, (projected, width))?;
        let op = norm_add::NormAdd {
            step: self.step,
            y: projected,
            weight: &self.vectors[norm.weight.0],
            residual,
            width,
            eps: norm.eps,
            scale,
        };
        norm_add::norm_add(recorder, self.plan.norm(), &op);
        Ok(())
    }

    fn pool(&self, cache: Cache) -> &KvPool {
        &self.pools[cache as usize]
    }

    /// Cosines and sines of the pass's positions, once a pass.
    fn rotation(
        &self,
        recorder: &mut Recorder<'_>,
        rope: RopeId,
        tables: &mut [bool],
    ) -> qk_rope_append::Rotation<'_> {
        let spec = &self.ropes[rope.0];
        let (rotations, pairs) = (&self.rotations[rope.0], spec.frequencies.len());
        if !std::mem::replace(&mut tables[rope.0], true) {
            let op = rope_table::RopeTable {
                step: self.step,
                frequencies: &self.frequencies[rope.0],
                rotations,
                pairs,
                magnitude: spec.magnitude,
            };
            rope_table::rope_table(recorder, &op);
        }
        qk_rope_append::Rotation {
            rotations,
            pairs,
            kind: spec.kind,
        }
    }

    pub(super) fn qk_rope_append(
        &self,
        recorder: &mut Recorder<'_>,
        op: &QkRopeAppend,
        qkv: Slot,
        tables: &mut [bool],
    ) {
        let qkv = self.arena.slot(qkv);
        let pool = self.pool(op.cache);
        let rotation = op.rope.map(|rope| self.rotation(recorder, rope, tables));
        if op.norm_span == NormSpan::Row {
            let heads = &op.heads;
            let parts = [
                (op.q_norm, 0, heads.query_len()),
                (op.k_norm, heads.query_len(), heads.kv_len()),
            ];
            for (norm, first, width) in parts {
                let Some(norm) = norm else { continue };
                let span = rms_norm_span::RmsNormSpan {
                    step: self.step,
                    x: qkv,
                    weight: &self.vectors[norm.weight.0],
                    row_width: heads.qkv_len(),
                    first,
                    width,
                    eps: norm.eps,
                };
                rms_norm_span::rms_norm_span(recorder, self.plan.norm(), &span);
            }
        }
        let head_norm = |norm: Option<Norm>| {
            norm.filter(|_| op.norm_span == NormSpan::Head)
                .map(|norm| qk_rope_append::HeadNorm {
                    weight: &self.vectors[norm.weight.0],
                    eps: norm.eps,
                })
        };
        let append = qk_rope_append::QkRopeAppend {
            step: self.step,
            cache: pool.buffer(op.layer),
            layout: pool.layout(),
            kind: op.cache,
            num_heads: op.heads.num_heads,
            qkv,
            rotation,
            q_norm: head_norm(op.q_norm),
            k_norm: head_norm(op.k_norm),
        };
        qk_rope_append::qk_rope_append(recorder, self.plan.rope(), &append);
    }

    pub(super) fn attention(
        &self,
        recorder: &mut Recorder<'_>,
        op: &Attention,
        [qkv, out]: [Slot; 2],
    ) {
        let pool = self.pool(op.cache);
        let [parts, stats] = self.attention_scratch;
        let attention = attention::Attention {
            step: self.step,
            cache: pool.buffer(op.layer),
            layout: pool.layout(),
            kind: op.cache,
            num_heads: op.heads.num_heads,
            qkv: self.arena.slot(qkv),
            out: self.arena.slot(out),
            scratch: attention::Scratch { parts, stats },
            scale: op.scale,
            window: op.window,
            soft_cap: op.soft_cap,
        };
        attention::attention(recorder, self.plan.attention(self.class), &attention);
    }
}
