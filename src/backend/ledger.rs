//! What all backends keep and check: ids, shapes, the life cycle, the step state. No
//! arithmetic on activations or weights, so that the oracle stays independent of what it
//! judges. A backend whose values live elsewhere takes a ledger that holds none.

mod checks;

use super::blocks::Blocks;
use super::memory::bytes_of;
use super::ops::Cache;
use super::parts::{Parts, RowRange};
use super::slots::Slots;
use super::step::StepState;
use super::tokens::Tokens;
use super::{
    BackendError, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs, RopeId, RopeSpec,
    SampleParams, Sampled, Slot, Step, TokenSlot, TokenSource, TokenUse, VectorId, sample,
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

/// Ids, vectors, buffers and the step state of a backend.
#[derive(Debug)]
pub(super) struct Ledger {
    phase: Phase,
    /// Whether activations, vectors and KV blocks are kept here.
    holds_values: bool,
    shape: Option<ModelShape>,
    matrices: Vec<Parts>,
    pub(super) vectors: Vectors,
    pub(super) ropes: Vec<RopeSpec>,
    pub(super) blocks: Blocks,
    pub(super) slots: Slots,
    pub(super) step: StepState,
    tokens: Tokens,
    logits_written: bool,
    /// Where the pass left its states.
    states: Option<Slot>,
}

impl Ledger {
    /// A ledger that holds all values.
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Loading,
            holds_values: true,
            shape: None,
            matrices: Vec::new(),
            vectors: Vectors(Vec::new()),
            ropes: Vec::new(),
            blocks: Blocks::new(1, [[0; 3]; 2]),
            slots: Slots::empty(),
            step: StepState::new(),
            tokens: Tokens::new(),
            logits_written: false,
            states: None,
        }
    }

    /// A ledger that only keeps the books.
    #[cfg(feature = "webgpu")]
    pub(super) fn without_values() -> Self {
        Self {
            holds_values: false,
            ..Self::new()
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
            shape.num_layers.saturating_add(shape.window_layers),
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
        let layers = if self.holds_values {
            self.slots = Slots::new(shape)?;
            [shape.num_layers, shape.window_layers]
        } else {
            self.slots = Slots::widths_of(shape);
            [0; 2]
        };
        let per_position = layers.map(|layers| [layers, 2, shape.heads.kv_len()]);
        self.blocks = Blocks::new(shape.block_tokens, per_position);
        self.shape = Some(*shape);
        self.phase = Phase::Ready;
        Ok(())
    }

    // Passes.

    pub(super) fn take_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        self.shape("allocate_block")?;
        self.blocks.take(cache)
    }

    /// Validates a pass and takes it as the current one.
    pub(super) fn begin(&mut self, step: &Step<'_>) -> Result<(), BackendError> {
        const OP: &str = "begin";
        let shape = *self.shape(OP)?;
        // A pass given up half way leaves nothing behind.
        self.phase = Phase::Ready;
        self.logits_written = false;
        self.states = None;
        self.tokens.forget_unsubmitted();
        self.step.fill(step, shape.max_rows, &mut self.blocks)?;
        self.take_ids(step, shape.vocab_size)?;
        if step.outputs == Outputs::AllRows && self.holds_values {
            self.slots.reserve_logits(self.step.rows())?;
        }
        if cfg!(debug_assertions) {
            self.slots.poison();
        }
        for sequence in &self.step.sequences {
            let table = self.step.table(sequence, Cache::Full);
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
                if self.holds_values {
                    self.step.ids.push(self.tokens.get(OP, slot)?.id);
                } else {
                    self.tokens.check(OP, slot)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn submit(&mut self) -> Result<(), BackendError> {
        self.recording("submit")?;
        for sequence in &self.step.sequences {
            let table = self.step.table(sequence, Cache::Full);
            let end = sequence.position + sequence.rows;
            self.blocks.set_filled(table, sequence.position, end);
        }
        self.tokens.submit();
        self.phase = Phase::Submitted;
        Ok(())
    }

    /// Takes the operations of a pass as issued that an earlier one of its shape has recorded.
    #[cfg(feature = "webgpu")]
    pub(super) fn replay(&mut self, states: Slot) {
        self.logits_written = self.step.logit_rows() > 0;
        self.states = (self.step.outputs == Outputs::States).then_some(states);
    }

    /// Whether there is a last row of logits to sample from.
    pub(super) fn check_sample(&self, slot: Slot) -> Result<(), BackendError> {
        const OP: &str = "sample";
        self.recording(OP)?;
        if slot != Slot::Logits || !self.logits_written {
            return Err(usage(OP, "the pass has no logits in this slot"));
        }
        Ok(())
    }

    /// Logits of the last row, to sample from.
    pub(super) fn last_logits(&self, slot: Slot) -> Result<&[f32], BackendError> {
        self.check_sample(slot)?;
        let rows = self.step.logit_rows();
        let logits = self.slots.rows(Slot::Logits, rows);
        Ok(&logits[(rows - 1) * self.slots.width(Slot::Logits)..])
    }

    /// Chooses a token from the last row of logits and keeps it.
    pub(super) fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError> {
        let mut used = params.adjust.used.to_vec();
        for &slot in params.pending {
            let id = self.tokens.get("sample", slot)?.id;
            match used.iter_mut().find(|used| used.id == id) {
                Some(used) => used.in_answer += 1,
                None => used.push(TokenUse { id, in_answer: 1 }),
            }
        }
        let mut resolved = *params;
        resolved.adjust.used = &used;
        let sampled = sample(self.last_logits(logits)?, &resolved)?;
        Ok(self.tokens.push(Some(sampled)))
    }

    /// A slot for a token that the host has yet to see.
    #[cfg(feature = "webgpu")]
    pub(super) fn expect_token(&mut self) -> TokenSlot {
        self.tokens.push(None)
    }

    /// Whether a submitted pass has sampled into the slot.
    #[cfg(feature = "webgpu")]
    pub(super) fn check_token(
        &self,
        op: &'static str,
        slot: TokenSlot,
    ) -> Result<(), BackendError> {
        self.tokens.check(op, slot)
    }

    pub(super) fn read_token(&self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.tokens.get("read_token", slot)
    }

    /// Rows of logits that can be read.
    pub(super) fn readable_logits(&self) -> Result<usize, BackendError> {
        const OP: &str = "read_logits";
        if self.phase != Phase::Submitted || !self.logits_written {
            return Err(usage(OP, "no submitted pass has made logits"));
        }
        Ok(self.step.logit_rows())
    }

    /// The slot whose rows are states that can be read.
    pub(super) fn readable_states(&self) -> Result<Slot, BackendError> {
        match self.states {
            Some(slot) if self.phase == Phase::Submitted => Ok(slot),
            _ => Err(usage("read_states", "no submitted pass has made states")),
        }
    }

    pub(super) fn read_logits(&self) -> Result<&[f32], BackendError> {
        Ok(self.slots.rows(Slot::Logits, self.readable_logits()?))
    }

    pub(super) fn read_states(&self) -> Result<&[f32], BackendError> {
        Ok(self.slots.rows(self.readable_states()?, self.step.rows()))
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
