//! Checks of operations: ids exist, shapes fit, slots hold what is asked for.

use super::{Ledger, expect, usage};
use crate::backend::ops::{
    Attention, Cache, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct, NormQkv,
    NormSpan, OutResidual, QkRopeAppend,
};
use crate::backend::{BackendError, MatrixId, ModelShape, Slot, VectorId};

/// Each check of an operation returns `T`.
impl Ledger {
    pub(in crate::backend) fn check_embed(
        &self,
        op: &Embed,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "embed";
        let shape = self.recording(OP)?;
        self.check_matrix(OP, "table", op.table, [shape.vocab_size, shape.hidden_size])?;
        self.check_slot(OP, "out", out, shape.hidden_size)
    }

    pub(in crate::backend) fn check_norm_qkv(
        &self,
        x: Slot,
        op: &NormQkv,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "norm_qkv";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.heads.qkv_len());
        self.check_slot(OP, "x", x, hidden)?;
        self.check_vector(OP, "norm", weight(op.norm), hidden)?;
        self.check_matrix(OP, "qkv", op.qkv, [width, hidden])?;
        self.check_vector(OP, "bias", op.bias, width)?;
        self.check_slot(OP, "out", out, width)
    }

    pub(in crate::backend) fn check_qk_rope_append(
        &self,
        qkv: Slot,
        op: &QkRopeAppend,
    ) -> Result<usize, BackendError> {
        const OP: &str = "qk_rope_append";
        let shape = self.recording(OP)?;
        check_layer(OP, shape, (op.cache, op.layer), &op.heads)?;
        self.check_ring(OP, op.cache, Some(1))?;
        let head_dim = op.heads.head_dim;
        let [q, k] = match op.norm_span {
            NormSpan::Head => [head_dim; 2],
            NormSpan::Row => [op.heads.query_len(), op.heads.kv_len()],
        };
        self.check_vector(OP, "q_norm", weight(op.q_norm), q)?;
        self.check_vector(OP, "k_norm", weight(op.k_norm), k)?;
        if let Some(rope) = op.rope {
            let pairs = self.rope(OP, rope)?.frequencies.len();
            if pairs > head_dim / 2 {
                return expect(OP, "pairs of the rope, at most", head_dim / 2, pairs).map(|()| 0);
            }
        }
        self.check_slot(OP, "qkv", qkv, op.heads.qkv_len())
    }

    pub(in crate::backend) fn check_attention(
        &self,
        qkv: Slot,
        op: &Attention,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "attention";
        let shape = self.recording(OP)?;
        check_layer(OP, shape, (op.cache, op.layer), &op.heads)?;
        if op.window == Some(0) {
            return Err(usage(OP, "a window of no positions"));
        }
        self.check_ring(OP, op.cache, op.window)?;
        self.check_slot(OP, "qkv", qkv, op.heads.qkv_len())?;
        self.check_slot(OP, "out", out, op.heads.query_len())
    }

    pub(in crate::backend) fn check_out_residual(
        &self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "out_residual";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.heads.query_len());
        self.check_slot(OP, "x", x, width)?;
        self.check_matrix(OP, "out", op.out, [hidden, width])?;
        self.check_vector(OP, "bias", op.bias, hidden)?;
        self.check_vector(OP, "post_norm", weight(op.post_norm), hidden)?;
        self.check_slot(OP, "residual", residual, hidden)
    }

    pub(in crate::backend) fn check_norm_gate_up_act(
        &self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "norm_gate_up_act";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.intermediate_size);
        self.check_slot(OP, "x", x, hidden)?;
        self.check_vector(OP, "norm", weight(op.norm), hidden)?;
        self.check_matrix(OP, "gate_up", op.gate_up, [2 * width, hidden])?;
        self.check_slot(OP, "out", out, width)
    }

    pub(in crate::backend) fn check_down_residual(
        &self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "down_residual";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.intermediate_size);
        self.check_slot(OP, "x", x, width)?;
        self.check_matrix(OP, "down", op.down, [hidden, width])?;
        self.check_vector(OP, "post_norm", weight(op.post_norm), hidden)?;
        self.check_slot(OP, "residual", residual, hidden)
    }

    /// Rows that get logits; the logits count as written from here on.
    pub(in crate::backend) fn check_lm_head(
        &mut self,
        x: Slot,
        op: &LmHead,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "lm_head";
        let shape = *self.recording(OP)?;
        self.check_slot(OP, "x", x, shape.hidden_size)?;
        self.check_vector(OP, "norm", Some(op.norm.weight), shape.hidden_size)?;
        self.check_matrix(OP, "head", op.head, [shape.vocab_size, shape.hidden_size])?;
        if out != Slot::Logits {
            return Err(usage(OP, "logits belong into their own slot"));
        }
        let rows = self.step.logit_rows();
        self.logits_written = rows > 0;
        Ok(rows)
    }

    /// Whether every sequence's ring can take its rows without losing what they see.
    fn check_ring(
        &self,
        op: &'static str,
        cache: Cache,
        window: Option<usize>,
    ) -> Result<(), BackendError> {
        if cache == Cache::Full {
            return Ok(());
        }
        for sequence in &self.step.sequences {
            let blocks = self.step.table(sequence, cache).len();
            let capacity = blocks.saturating_mul(self.blocks.block_tokens());
            let end = sequence.position + sequence.rows;
            let seen = window.map_or(end, |window| end.min(window - 1 + sequence.rows));
            if capacity < seen {
                return Err(usage(op, "the ring of blocks is too short for the window"));
            }
        }
        Ok(())
    }

    fn check_matrix(
        &self,
        op: &'static str,
        argument: &'static str,
        id: MatrixId,
        [rows, cols]: [usize; 2],
    ) -> Result<(), BackendError> {
        let parts = self.matrix(op, id)?;
        if parts.cols == cols && parts.rows == rows {
            return Ok(());
        }
        // Equal products of different sides would read like no error at all: name a side.
        if parts.cols != cols {
            return expect(op, argument, cols, parts.cols);
        }
        expect(op, argument, rows, parts.rows)
    }

    fn check_vector(
        &self,
        op: &'static str,
        argument: &'static str,
        id: Option<VectorId>,
        len: usize,
    ) -> Result<(), BackendError> {
        let Some(id) = id else { return Ok(()) };
        let vector = self
            .vectors
            .0
            .get(id.0)
            .ok_or_else(|| usage(op, "an unknown vector"))?;
        expect(op, argument, len, vector.len())
    }

    fn check_slot(
        &self,
        op: &'static str,
        argument: &'static str,
        slot: Slot,
        width: usize,
    ) -> Result<usize, BackendError> {
        if slot == Slot::Logits {
            return Err(usage(op, "the logits' slot holds nothing but logits"));
        }
        expect(op, argument, width, self.slots.width(slot))?;
        Ok(self.step.rows())
    }
}

fn check_layer(
    op: &'static str,
    shape: &ModelShape,
    (cache, layer): (Cache, usize),
    heads: &HeadShape,
) -> Result<(), BackendError> {
    let layers = match cache {
        Cache::Full => shape.num_layers,
        Cache::Window => shape.window_layers,
    };
    if layer >= layers {
        return Err(usage(op, "a layer beyond the model's"));
    }
    if *heads != shape.heads {
        return Err(usage(op, "heads that differ from the model's"));
    }
    Ok(())
}

fn weight(norm: Option<Norm>) -> Option<VectorId> {
    norm.map(|norm| norm.weight)
}
