//! What both host backends keep and check: ids, shapes, the life cycle, the step state. No
//! arithmetic on activations or weights, so that the oracle stays independent of what it
//! judges.

use super::blocks::Blocks;
use super::memory::bytes_of;
use super::ops::{
    Attention, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};
use super::parts::{Parts, RowRange};
use super::slots::Slots;
use super::step::StepState;
use super::tokens::Tokens;
use super::{
    BackendError, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs, RopeId, RopeSpec, Sampled,
    Slot, Step, TokenSlot, TokenSource, VectorId,
};
use crate::gguf::GgmlType;

/// Where in its life a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading,
    Ready,
    Recording,
    Submitted,
}

/// Norm gains and biases.
#[derive(Debug)]
pub(super) struct Vectors(Vec<Vec<f32>>);

impl Vectors {
    /// A vector whose id a check has seen.
    pub(super) fn get(&self, id: VectorId) -> &[f32] {
        &self.0[id.0]
    }
}

/// Ids, vectors, buffers and the step state of a host backend.
#[derive(Debug)]
pub(super) struct Ledger {
    phase: Phase,
    shape: Option<ModelShape>,
    matrices: Vec<Parts>,
    pub(super) vectors: Vectors,
    pub(super) ropes: Vec<RopeSpec>,
    pub(super) blocks: Blocks,
    pub(super) slots: Slots,
    pub(super) step: StepState,
    tokens: Tokens,
    logits_written: bool,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Loading,
            shape: None,
            matrices: Vec::new(),
            vectors: Vectors(Vec::new()),
            ropes: Vec::new(),
            blocks: Blocks::new(1, [0; 3]),
            slots: Slots::empty(),
            step: StepState::new(),
            tokens: Tokens::new(),
            logits_written: false,
        }
    }

    // Loading.

    pub(super) fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        self.loading("create_matrix")?;
        self.matrices.push(Parts::new(spec)?);
        Ok(MatrixId(self.matrices.len() - 1))
    }

    /// Rows and columns of a write that may go ahead.
    pub(super) fn accept_rows(
        &self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        bytes: usize,
    ) -> Result<(RowRange, &Parts), BackendError> {
        self.loading("write_rows")?;
        let parts = self.matrix("write_rows", matrix)?;
        Ok((parts.accept(part, ggml_type, first_row, bytes)?, parts))
    }

    pub(super) fn commit_rows(
        &mut self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        rows: RowRange,
    ) {
        if let Some(parts) = self.matrices.get_mut(matrix.0) {
            parts.commit(part, ggml_type, rows);
        }
    }

    pub(super) fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError> {
        self.loading("create_vector")?;
        let mut copy = super::memory::allocate("weights", &[values.len()], 0.0)?;
        copy.copy_from_slice(values);
        self.vectors.0.push(copy);
        Ok(VectorId(self.vectors.0.len() - 1))
    }

    pub(super) fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError> {
        const OP: &str = "create_rope";
        self.loading(OP)?;
        if spec.frequencies.is_empty() {
            return Err(usage(OP, "a rope without frequencies"));
        }
        self.ropes.push(spec.clone());
        Ok(RopeId(self.ropes.len() - 1))
    }

    /// Whether loading may end: everything is written and `shape` makes sense.
    pub(super) fn check_prepare(&self, shape: &ModelShape) -> Result<(), BackendError> {
        const OP: &str = "prepare";
        self.loading(OP)?;
        let heads = &shape.heads;
        let sizes = [
            shape.num_layers,
            shape.hidden_size,
            shape.intermediate_size,
            shape.vocab_size,
            shape.max_rows,
            shape.block_tokens,
            heads.num_heads,
            heads.num_kv_heads,
            heads.head_dim,
        ];
        if sizes.contains(&0) {
            return Err(usage(OP, "a size is zero"));
        }
        if !heads.num_heads.is_multiple_of(heads.num_kv_heads) {
            return Err(usage(OP, "the KV heads do not divide the query heads"));
        }
        let widest = heads
            .num_heads
            .checked_mul(3)
            .and_then(|n| n.checked_mul(heads.head_dim));
        if widest.is_none() || shape.intermediate_size.checked_mul(2).is_none() {
            return Err(usage(OP, "a row beyond the address space"));
        }
        self.matrices.iter().try_for_each(Parts::check_complete)
    }

    /// Ends loading and makes the arena.
    pub(super) fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError> {
        self.check_prepare(shape)?;
        self.slots = Slots::new(shape)?;
        let per_position = [shape.num_layers, 2, shape.heads.kv_len()];
        self.blocks = Blocks::new(shape.block_tokens, per_position);
        self.shape = Some(*shape);
        self.phase = Phase::Ready;
        Ok(())
    }

    // Passes.

    pub(super) fn take_block(&mut self) -> Result<BlockId, BackendError> {
        self.shape("allocate_block")?;
        self.blocks.take()
    }

    /// Validates a pass and takes it as the current one.
    pub(super) fn begin(&mut self, step: &Step<'_>) -> Result<(), BackendError> {
        const OP: &str = "begin";
        let shape = *self.shape(OP)?;
        // A pass given up half way leaves nothing behind.
        self.phase = Phase::Ready;
        self.logits_written = false;
        self.tokens.forget_unsubmitted();
        self.step.fill(step, shape.max_rows, &mut self.blocks)?;
        self.take_ids(step, shape.vocab_size)?;
        if step.outputs == Outputs::AllRows {
            self.slots.reserve_logits(self.step.rows())?;
        }
        if cfg!(debug_assertions) {
            self.slots.poison();
        }
        for sequence in &self.step.sequences {
            let table = self.step.table(sequence);
            self.blocks
                .set_filled(table, sequence.position, sequence.position);
        }
        self.phase = Phase::Recording;
        Ok(())
    }

    fn take_ids(&mut self, step: &Step<'_>, vocab_size: usize) -> Result<(), BackendError> {
        const OP: &str = "begin";
        let rows = self.step.rows();
        match step.tokens {
            TokenSource::Ids(ids) => {
                expect(OP, "token ids", rows, ids.len())?;
                if let Some(&id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
                    return Err(BackendError::TokenId { id, vocab_size });
                }
                self.step.ids.extend_from_slice(ids);
            }
            TokenSource::Sampled(slot) => {
                expect(OP, "sampled token ids", rows, 1)?;
                self.step.ids.push(self.tokens.get(OP, slot)?.id);
            }
        }
        Ok(())
    }

    pub(super) fn submit(&mut self) -> Result<(), BackendError> {
        self.recording("submit")?;
        for sequence in &self.step.sequences {
            let table = self.step.table(sequence);
            let end = sequence.position + sequence.rows;
            self.blocks.set_filled(table, sequence.position, end);
        }
        self.tokens.submit();
        self.phase = Phase::Submitted;
        Ok(())
    }

    /// Logits of the last row, to sample from.
    pub(super) fn last_logits(&self, slot: Slot) -> Result<&[f32], BackendError> {
        const OP: &str = "sample";
        self.recording(OP)?;
        if slot != Slot::Logits || !self.logits_written {
            return Err(usage(OP, "the pass has no logits in this slot"));
        }
        let rows = self.step.logit_rows();
        let logits = self.slots.rows(Slot::Logits, rows);
        Ok(&logits[(rows - 1) * self.slots.width(Slot::Logits)..])
    }

    pub(super) fn keep_token(&mut self, sampled: Sampled) -> TokenSlot {
        self.tokens.push(sampled)
    }

    pub(super) fn read_token(&self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.tokens.get("read_token", slot)
    }

    pub(super) fn read_logits(&self) -> Result<&[f32], BackendError> {
        const OP: &str = "read_logits";
        if self.phase != Phase::Submitted || !self.logits_written {
            return Err(usage(OP, "no submitted pass has made logits"));
        }
        Ok(self.slots.rows(Slot::Logits, self.step.logit_rows()))
    }

    // Operations: each check returns `T`.

    pub(super) fn check_embed(&self, op: &Embed, out: Slot) -> Result<usize, BackendError> {
        const OP: &str = "embed";
        let shape = self.recording(OP)?;
        self.check_matrix(OP, "table", op.table, [shape.vocab_size, shape.hidden_size])?;
        self.check_slot(OP, "out", out, shape.hidden_size)
    }

    pub(super) fn check_norm_qkv(
        &self,
        x: Slot,
        op: &NormQkv,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "norm_qkv";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.heads.qkv_len());
        self.check_slot(OP, "x", x, hidden)?;
        self.check_vector(OP, "norm", Some(op.norm.weight), hidden)?;
        self.check_matrix(OP, "qkv", op.qkv, [width, hidden])?;
        self.check_vector(OP, "bias", op.bias, width)?;
        self.check_slot(OP, "out", out, width)
    }

    pub(super) fn check_qk_rope_append(
        &self,
        qkv: Slot,
        op: &QkRopeAppend,
    ) -> Result<usize, BackendError> {
        const OP: &str = "qk_rope_append";
        let shape = self.recording(OP)?;
        check_layer(OP, shape, op.layer, &op.heads)?;
        let head_dim = op.heads.head_dim;
        self.check_vector(OP, "q_norm", weight(op.q_norm), head_dim)?;
        self.check_vector(OP, "k_norm", weight(op.k_norm), head_dim)?;
        if let Some(rope) = op.rope {
            let pairs = self.rope(OP, rope)?.frequencies.len();
            if pairs > head_dim / 2 {
                return expect(OP, "pairs of the rope, at most", head_dim / 2, pairs).map(|()| 0);
            }
        }
        self.check_slot(OP, "qkv", qkv, op.heads.qkv_len())
    }

    pub(super) fn check_attention(
        &self,
        qkv: Slot,
        op: &Attention,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "attention";
        let shape = self.recording(OP)?;
        check_layer(OP, shape, op.layer, &op.heads)?;
        if op.window == Some(0) {
            return Err(usage(OP, "a window of no positions"));
        }
        self.check_slot(OP, "qkv", qkv, op.heads.qkv_len())?;
        self.check_slot(OP, "out", out, op.heads.query_len())
    }

    pub(super) fn check_out_residual(
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

    pub(super) fn check_norm_gate_up_act(
        &self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<usize, BackendError> {
        const OP: &str = "norm_gate_up_act";
        let shape = self.recording(OP)?;
        let (hidden, width) = (shape.hidden_size, shape.intermediate_size);
        self.check_slot(OP, "x", x, hidden)?;
        self.check_vector(OP, "norm", Some(op.norm.weight), hidden)?;
        self.check_matrix(OP, "gate_up", op.gate_up, [2 * width, hidden])?;
        self.check_slot(OP, "out", out, width)
    }

    pub(super) fn check_down_residual(
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
    pub(super) fn check_lm_head(
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

    // Look-ups.

    pub(super) fn rope(&self, op: &'static str, id: RopeId) -> Result<&RopeSpec, BackendError> {
        self.ropes
            .get(id.0)
            .ok_or_else(|| usage(op, "an unknown rope"))
    }

    /// Bytes of vectors and frequencies.
    pub(super) fn vector_bytes(&self) -> u64 {
        let vectors: u64 = self.vectors.0.iter().map(bytes_of).sum();
        let ropes: u64 = self
            .ropes
            .iter()
            .map(|rope| bytes_of(&rope.frequencies))
            .sum();
        vectors + ropes
    }

    fn matrix(&self, op: &'static str, id: MatrixId) -> Result<&Parts, BackendError> {
        self.matrices
            .get(id.0)
            .ok_or_else(|| usage(op, "an unknown matrix"))
    }

    fn loading(&self, op: &'static str) -> Result<(), BackendError> {
        if self.phase == Phase::Loading {
            Ok(())
        } else {
            Err(usage(op, "loading has ended with prepare"))
        }
    }

    fn recording(&self, op: &'static str) -> Result<&ModelShape, BackendError> {
        if self.phase == Phase::Recording {
            self.shape(op)
        } else {
            Err(usage(op, "no pass has begun"))
        }
    }

    fn shape(&self, op: &'static str) -> Result<&ModelShape, BackendError> {
        self.shape
            .as_ref()
            .ok_or_else(|| usage(op, "prepare has not been called"))
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
    layer: usize,
    heads: &HeadShape,
) -> Result<(), BackendError> {
    if layer >= shape.num_layers {
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

fn expect(
    op: &'static str,
    argument: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), BackendError> {
    if expected == actual {
        Ok(())
    } else {
        Err(BackendError::Shape {
            op,
            argument,
            expected,
            actual,
        })
    }
}

fn usage(op: &'static str, why: &'static str) -> BackendError {
    BackendError::Usage { op, why }
}
