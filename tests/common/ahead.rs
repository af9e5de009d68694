//! A backend whose reads are slow, so that a session runs ahead of them.

use tokenbrook::backend::ops::{
    Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};
use tokenbrook::backend::{
    Backend, BackendError, BackendMemory, BlockId, Chunks, MatrixId, MatrixSpec, ModelShape,
    Recording, RopeId, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot, TokenSource,
    VectorId,
};
use tokenbrook::gguf::GgmlType;

/// A backend that says that its reads are slow.
pub(crate) struct Ahead<B> {
    pub(crate) inner: B,
    pub(crate) read_ms: f64,
    /// Passes that took their token from the backend, not from the host.
    pub(crate) unread_steps: usize,
}

impl<B> Ahead<B> {
    pub(crate) fn new(inner: B, read_ms: f64) -> Self {
        Self {
            inner,
            read_ms,
            unread_steps: 0,
        }
    }
}

impl<B: Backend> Backend for Ahead<B> {
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        self.inner.create_matrix(spec)
    }

    fn write_rows(
        &mut self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        blocks: &[u8],
    ) -> Result<(), BackendError> {
        self.inner
            .write_rows(matrix, part, ggml_type, first_row, blocks)
    }

    fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError> {
        self.inner.create_vector(values)
    }

    fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError> {
        self.inner.create_rope(spec)
    }

    fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError> {
        self.inner.prepare(shape)
    }

    fn keep_recording(&mut self) -> bool {
        self.inner.keep_recording()
    }

    async fn ready(&mut self) -> Result<(), BackendError> {
        self.inner.ready().await
    }

    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        self.inner.allocate_block(cache)
    }

    fn release_block(&mut self, block: BlockId) {
        self.inner.release_block(block);
    }

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        self.unread_steps += usize::from(matches!(step.tokens, TokenSource::Sampled(_)));
        self.inner.begin(step)
    }

    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError> {
        self.inner.embed(op, out)
    }

    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError> {
        self.inner.norm_qkv(x, op, out)
    }

    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError> {
        self.inner.qk_rope_append(qkv, op)
    }

    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError> {
        self.inner.attention(qkv, op, out)
    }

    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.inner.out_residual(x, op, residual)
    }

    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError> {
        self.inner.norm_gate_up_act(x, op, out)
    }

    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.inner.down_residual(x, op, residual)
    }

    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError> {
        self.inner.lm_head(x, op, out)
    }

    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError> {
        self.inner.output_norm(x, norm)
    }

    fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError> {
        self.inner.sample(logits, params)
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        self.inner.submit().await
    }

    fn chunks(&self) -> Chunks {
        self.inner.chunks()
    }

    fn read_ms(&self) -> f64 {
        self.read_ms
    }

    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.inner.read_token(slot).await
    }

    async fn read_logits(&mut self) -> Result<&[f32], BackendError> {
        self.inner.read_logits().await
    }

    async fn read_states(&mut self) -> Result<&[f32], BackendError> {
        self.inner.read_states().await
    }

    fn memory(&self) -> BackendMemory {
        self.inner.memory()
    }
}
