//! One of the backends, chosen when a model is loaded.

use super::cpu::CpuBackend;
use super::ops::{
    Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};
use super::webgpu::WebGpuBackend;
use super::{
    Backend, BackendError, BackendMemory, BlockId, CacheBytes, Chunks, MatrixId, MatrixSpec,
    ModelShape, Profile, Recording, RopeId, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot,
    VectorId,
};
use crate::gguf::GgmlType;

/// A backend that is known at run time only.
#[derive(Debug)]
pub enum AnyBackend {
    /// On the CPU.
    Cpu(Box<CpuBackend>),
    /// On a GPU.
    WebGpu(Box<WebGpuBackend>),
}

/// The same call on whichever backend it is.
macro_rules! each {
    ($any:expr, $backend:ident => $call:expr) => {
        match $any {
            AnyBackend::Cpu($backend) => $call,
            AnyBackend::WebGpu($backend) => $call,
        }
    };
}

impl Backend for AnyBackend {
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        each!(self, backend => backend.create_matrix(spec))
    }

    fn write_rows(
        &mut self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        blocks: &[u8],
    ) -> Result<(), BackendError> {
        each!(self, backend => backend.write_rows(matrix, part, ggml_type, first_row, blocks))
    }

    fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError> {
        each!(self, backend => backend.create_vector(values))
    }

    fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError> {
        each!(self, backend => backend.create_rope(spec))
    }

    fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError> {
        each!(self, backend => backend.prepare(shape))
    }

    async fn ready(&mut self) -> Result<(), BackendError> {
        each!(self, backend => backend.ready().await)
    }

    async fn profile(&self) -> Result<Option<Profile>, BackendError> {
        each!(self, backend => backend.profile().await)
    }

    fn keep_recording(&mut self) -> bool {
        each!(self, backend => backend.keep_recording())
    }

    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        each!(self, backend => backend.allocate_block(cache))
    }

    fn release_block(&mut self, block: BlockId) {
        each!(self, backend => backend.release_block(block));
    }

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        each!(self, backend => backend.begin(step))
    }

    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError> {
        each!(self, backend => backend.embed(op, out))
    }

    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError> {
        each!(self, backend => backend.norm_qkv(x, op, out))
    }

    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError> {
        each!(self, backend => backend.qk_rope_append(qkv, op))
    }

    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError> {
        each!(self, backend => backend.attention(qkv, op, out))
    }

    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        each!(self, backend => backend.out_residual(x, op, residual))
    }

    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError> {
        each!(self, backend => backend.norm_gate_up_act(x, op, out))
    }

    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        each!(self, backend => backend.down_residual(x, op, residual))
    }

    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError> {
        each!(self, backend => backend.lm_head(x, op, out))
    }

    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError> {
        each!(self, backend => backend.output_norm(x, norm))
    }

    fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError> {
        each!(self, backend => backend.sample(logits, params))
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        each!(self, backend => backend.submit().await)
    }

    fn chunks(&self) -> Chunks {
        each!(self, backend => backend.chunks())
    }

    fn read_ms(&self) -> f64 {
        each!(self, backend => backend.read_ms())
    }

    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        each!(self, backend => backend.read_token(slot).await)
    }

    async fn read_logits(&mut self) -> Result<&[f32], BackendError> {
        each!(self, backend => backend.read_logits().await)
    }

    async fn read_states(&mut self) -> Result<&[f32], BackendError> {
        each!(self, backend => backend.read_states().await)
    }

    fn memory(&self) -> BackendMemory {
        each!(self, backend => backend.memory())
    }

    fn held_bytes(&self, ggml_type: GgmlType, bytes: u64) -> u64 {
        each!(self, backend => backend.held_bytes(ggml_type, bytes))
    }

    fn cache_bytes(&self, shape: &ModelShape, blocks: u64) -> CacheBytes {
        each!(self, backend => backend.cache_bytes(shape, blocks))
    }

    fn is_on_host(&self) -> bool {
        each!(self, backend => backend.is_on_host())
    }
}
