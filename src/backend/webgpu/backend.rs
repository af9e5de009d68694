//! The [`Backend`] over the kernels.
//!
//! A pass of a shape class is recorded while the forward pass issues its operations, and
//! replayed from then on: per pass the step state is written, the recording encoded, one
//! command buffer submitted. Recordings are void when a buffer that they bind is replaced:
//! when the KV cache grows, or the first time that many rows of logits are asked for.
//!
//! Long because it is one implementation of a trait with many methods: each checks with the
//! ledger and records one operation, and what is more than that lies in `operations` and
//! `prepared`.

use std::rc::Rc;

use super::kernels::{embed, linear};
use super::kv::KvPool;
use super::operations::{Parts, Products, RowClass};
use super::planes::{Allocations, Matrix, PlaneFormat};
use super::prepared::{Pass, Prepared, ring_slot};
use super::recorder::{Pipelines, Recorder, Recording as Recorded};
use super::sampler::{Mode, SampleStep, read_slot};
use super::step::StepSequence;
use super::{Given, Gpu, GpuError, Kernels, Profile, WebGpuOptions, row_stride};
use crate::backend::ledger::Ledger;
use crate::backend::ops::{
    Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};
use crate::backend::{
    Backend, BackendError, BackendMemory, BlockId, CacheBytes, Chunks, MatrixId, MatrixSpec,
    ModelShape, Outputs, Recording, RopeId, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot,
    TokenSource, VectorId,
};
use crate::gguf::GgmlType;

/// What a chunk of a prompt aims at, so that noise stays below 50 ms: what draws the page waits
/// for the same device.
const CHUNK_MS: f64 = 40.0;

/// Backend on a GPU.
#[derive(Debug)]
pub struct WebGpuBackend {
    pub(super) gpu: Gpu,
    pub(super) options: WebGpuOptions,
    pub(super) ledger: Ledger,
    pub(super) allocations: Allocations,
    pub(super) pipelines: Pipelines,
    /// Types of the matrices, each once, with their bytes.
    pub(super) types: Vec<(GgmlType, u64)>,
    pub(super) given: Given,
    pub(super) kernels: Option<Kernels>,
    pub(super) matrices: Vec<Matrix>,
    pub(super) vectors: Vec<wgpu::Buffer>,
    pub(super) frequencies: Vec<wgpu::Buffer>,
    pub(super) prepared: Option<Prepared>,
    pub(super) now_ms: NowMs,
    pub(super) read_ms: f64,
    pub(super) read: Vec<f32>,
}

/// The caller's clock, milliseconds.
#[derive(Clone)]
pub(super) struct NowMs(pub(super) Rc<dyn Fn() -> f64>);

impl std::fmt::Debug for NowMs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NowMs")
    }
}

impl WebGpuBackend {
    /// A backend without weights. `now_ms` is a clock, for what is chosen by measuring.
    #[must_use]
    pub fn new(gpu: Gpu, options: WebGpuOptions, now_ms: impl Fn() -> f64 + 'static) -> Self {
        Self {
            gpu,
            options,
            ledger: Ledger::without_values(),
            allocations: Allocations::default(),
            pipelines: Pipelines::with_fault(options.fault),
            types: Vec::new(),
            given: Given::default(),
            kernels: None,
            matrices: Vec::new(),
            vectors: Vec::new(),
            frequencies: Vec::new(),
            prepared: None,
            now_ms: NowMs(Rc::new(now_ms)),
            read_ms: 0.0,
            read: Vec::new(),
        }
    }

    /// Records one operation of the pass at hand.
    fn record(
        &mut self,
        issue: impl FnOnce(&mut Recorder<'_>, &Parts<'_>, &mut Vec<bool>) -> Result<(), GpuError>,
    ) -> Result<(), BackendError> {
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        let Pass {
            recorded,
            tables,
            key,
            ..
        } = &mut prepared.pass;
        let (Some(recording), Some((class, outputs))) = (recorded.take(), *key) else {
            return Err(BackendError::Usage {
                op: "record",
                why: "the pass is replayed",
            });
        };
        let mut recorder = Recorder::resume(&self.gpu, &mut self.pipelines, recording);
        let parts = Parts {
            class,
            outputs,
            plan: &prepared.plan,
            arena: &prepared.arena,
            step: &prepared.step,
            ring: &prepared.ring,
            rotations: &prepared.rotations,
            linear_scratch: &prepared.linear_scratch,
            attention_scratch: &prepared.attention_scratch,
            pools: &prepared.pools,
            matrices: &self.matrices,
            vectors: &self.vectors,
            frequencies: &self.frequencies,
            ropes: &self.ledger.ropes,
        };
        let issued = issue(&mut recorder, &parts, tables);
        prepared.pass.recorded = Some(recorder.finish());
        Ok(issued?)
    }

    /// The step state of the pass at hand.
    fn fill_step(&mut self, step: &Step<'_>) -> Result<(), BackendError> {
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        let state = &self.ledger.step;
        let places = |cache| {
            let of = |sequence| {
                let table = state.table(sequence, cache).iter();
                table.map(|block| prepared.places[block.0]).collect()
            };
            state.sequences.iter().map(of).collect::<Vec<Vec<u32>>>()
        };
        let (tables, rings) = (places(Cache::Full), places(Cache::Window));
        let sequences = state.sequences.iter().zip(tables.iter().zip(&rings));
        let sequences: Vec<_> = sequences
            .map(|(sequence, (table, ring))| StepSequence {
                rows: sequence.rows,
                position: sequence.position,
                table,
                ring,
            })
            .collect();
        let slot = match step.tokens {
            TokenSource::Ids(_) => None,
            TokenSource::Sampled(slot) => Some(ring_slot(slot)),
        };
        prepared
            .words
            .fill(&state.ids, slot, &sequences, state.logit_rows());
        prepared.pass.extents = prepared.words.extents();
        let bytes = prepared.words.words().len() as u64 * 4;
        if bytes > prepared.step.size() {
            prepared.step = self.gpu.storage("step", 2 * bytes);
            prepared.forget_recordings();
        }
        Ok(())
    }
}

impl Backend for WebGpuBackend {
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError> {
        let id = self.ledger.create_matrix(spec)?;
        let rows: Vec<_> = spec.parts.iter().map(|part| part.rows).collect();
        self.matrices.push(Matrix::new(spec.cols, &rows));
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
        self.gpu.check()?;
        let target = &mut self.matrices[matrix.0];
        let write = (ggml_type, first_row, blocks);
        target.write(&self.gpu, &mut self.allocations, part, write)?;
        self.ledger.commit_rows(matrix, part, ggml_type, rows);
        let bytes = blocks.len() as u64;
        match self.types.iter_mut().find(|(ty, _)| *ty == ggml_type) {
            Some((_, sum)) => *sum += bytes,
            None => self.types.push((ggml_type, bytes)),
        }
        Ok(())
    }

    fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError> {
        let id = self.ledger.create_vector(values)?;
        // Kernels read whole blocks of it.
        let mut padded = values.to_vec();
        padded.resize(row_stride(values.len()), 0.0);
        self.vectors.push(self.gpu.storage_of("vector", &padded));
        Ok(id)
    }

    fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError> {
        let id = self.ledger.create_rope(spec)?;
        self.frequencies
            .push(self.gpu.storage_of("frequencies", &spec.frequencies));
        Ok(id)
    }

    fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError> {
        self.ledger.check_prepare(shape)?;
        let weights = (&self.matrices[..], &self.ledger.ropes[..]);
        let plan = self.kernels.as_ref().map(|kernels| kernels.plan.clone());
        let prepared = Prepared::new(&self.gpu, &self.options, shape, weights, plan)?;
        self.prepared = Some(prepared);
        self.ledger.prepare(shape)
    }

    async fn ready(&mut self) -> Result<(), BackendError> {
        self.allocations.settle(&self.gpu).await?;
        if let Some(prepared) = &mut self.prepared {
            for pool in &mut prepared.pools {
                pool.settle(&self.gpu).await?;
            }
        }
        self.check_kernels().await?;
        self.measure_reading().await?;
        Ok(())
    }

    async fn profile(&self) -> Result<Option<Profile>, BackendError> {
        Ok(self.profile_last().await?)
    }

    fn keep_recording(&mut self) -> bool {
        if let Some(prepared) = &mut self.prepared
            && let (Some(key), Some(recorded)) = (prepared.pass.key, prepared.pass.recorded.take())
        {
            prepared.recordings.insert(key, recorded);
        }
        true
    }

    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError> {
        let block = self.ledger.take_block(cache)?;
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        // A block that was released keeps its place.
        if block.0 == prepared.places.len() {
            let taken = prepared.pools[cache as usize].take(&self.gpu)?;
            prepared.places.push(taken.place);
            if taken.grown {
                prepared.forget_recordings();
            }
        }
        Ok(block)
    }

    fn release_block(&mut self, block: BlockId) {
        self.ledger.blocks.release(block);
    }

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        self.gpu.check()?;
        self.ledger.begin(step)?;
        self.fill_step(step)?;
        let rows = self.ledger.step.rows();
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        if step.outputs == Outputs::AllRows && prepared.arena.reserve_logits(&self.gpu, rows) {
            prepared.forget_recordings();
        }
        let key = (RowClass::of(rows), step.outputs);
        prepared.pass.key = Some(key);
        prepared.pass.sampling = None;
        if prepared.recordings.contains_key(&key) {
            prepared.pass.recorded = None;
            self.ledger.replay(Slot::Residual);
            return Ok(Recording::Replay);
        }
        prepared.pass.recorded = Some(Recorded::default());
        prepared.pass.tables = vec![false; self.frequencies.len()];
        Ok(Recording::Needed)
    }

    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError> {
        self.ledger.check_embed(op, out)?;
        self.record(|recorder, parts, _| {
            let embed = embed::Embed {
                step: parts.step,
                ring: parts.ring,
                table: &parts.matrices[op.table.0],
                scale: op.scale,
                y: parts.arena.slot(out),
            };
            embed::embed(recorder, &embed)
        })
    }

    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError> {
        self.ledger.check_norm_qkv(x, op, out)?;
        self.record(|recorder, parts, _| {
            let bias = op.bias.map(|bias| &parts.vectors[bias.0]);
            let store = linear::Epilogue::Store { column: 0, bias };
            let y = (parts.arena.slot(out), parts.arena.width(out));
            let input = (op.norm.as_ref(), x, op.qkv);
            parts.linear_normed(recorder, input, Products::AroundAttention, store, y)
        })
    }

    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError> {
        self.ledger.check_qk_rope_append(qkv, op)?;
        self.record(|recorder, parts, tables| {
            parts.qk_rope_append(recorder, op, qkv, tables);
            Ok(())
        })
    }

    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError> {
        self.ledger.check_attention(qkv, op, out)?;
        self.record(|recorder, parts, _| {
            parts.attention(recorder, op, [qkv, out]);
            Ok(())
        })
    }

    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_out_residual(x, op, residual)?;
        self.record(|recorder, parts, _| {
            let after = (op.post_norm, op.scale);
            let place = (x, op.out, residual);
            parts.add_projection(recorder, place, Products::AroundAttention, op.bias, after)
        })
    }

    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_norm_gate_up_act(x, op, out)?;
        self.record(|recorder, parts, _| {
            let gate = linear::Epilogue::Gate {
                activation: op.activation,
                products: &parts.arena.gate_up,
            };
            let y = (parts.arena.slot(out), parts.arena.width(out));
            let input = (op.norm.as_ref(), x, op.gate_up);
            parts.linear_normed(recorder, input, Products::FeedForward, gate, y)
        })
    }

    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError> {
        self.ledger.check_down_residual(x, op, residual)?;
        self.record(|recorder, parts, _| {
            let after = (op.post_norm, op.scale);
            let place = (x, op.down, residual);
            parts.add_projection(recorder, place, Products::FeedForward, None, after)
        })
    }

    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError> {
        if self.ledger.check_lm_head(x, op, out)? == 0 {
            return Ok(());
        }
        self.record(|recorder, parts, _| {
            let logits = linear::Epilogue::Logits {
                scale: op.scale,
                soft_cap: op.soft_cap,
            };
            let y = (parts.arena.slot(out), parts.arena.width(out));
            let input = (Some(&op.norm), x, op.head);
            parts.linear_normed(recorder, input, Products::Logits, logits, y)
        })
    }

    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError> {
        self.ledger.check_output_norm(x, norm)?;
        // Into the buffer of normalized rows, which is where they are read from.
        self.record(|recorder, parts, _| {
            parts.normed(recorder, Some(norm), x);
            Ok(())
        })
    }

    fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError> {
        self.ledger.check_sample(logits)?;
        let row = self.ledger.step.logit_rows() - 1;
        let slot = self.ledger.expect_token();
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        let pending: Vec<_> = params.pending.iter().map(|&slot| ring_slot(slot)).collect();
        let step = SampleStep {
            row,
            out_slot: ring_slot(slot),
            pending: &pending,
        };
        let queue = &self.gpu.queue;
        prepared.sampler.write_state(queue, params, &step)?;
        let mode = Mode::of(params, &pending);
        if !prepared.samplings.contains_key(&mode) {
            let mut recorder = Recorder::new(&self.gpu, &mut self.pipelines);
            let logits = prepared.arena.slot(logits);
            prepared
                .sampler
                .record(&mut recorder, mode, logits, &prepared.ring);
            prepared.samplings.insert(mode, recorder.finish());
        }
        prepared.pass.sampling = Some((mode, slot));
        Ok(slot)
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        self.ledger.submit()?;
        self.keep_recording();
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        let key = prepared.pass.key.ok_or(NOT_PREPARED)?;
        prepared.run(&self.gpu, key).await?;
        Ok(())
    }

    fn chunks(&self) -> Chunks {
        let prepared = self.prepared.as_ref();
        let rows = prepared.map_or(1, |prepared| prepared.plan.tile_rows());
        Chunks {
            least_rows: rows,
            tile_rows: rows,
            target_ms: CHUNK_MS,
        }
    }

    fn read_ms(&self) -> f64 {
        self.read_ms
    }

    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.ledger.check_token("read_token", slot)?;
        let prepared = self.prepared.as_mut().ok_or(NOT_PREPARED)?;
        let carriers = &mut prepared.carriers;
        let carrier = carriers.iter_mut().find(|it| it.token == Some(slot));
        let carrier = carrier.ok_or(BackendError::Usage {
            op: "read_token",
            why: "the token was read, or too many came after it",
        })?;
        carrier.token = None;
        let bytes = carrier.readback.finish(&self.gpu).await?;
        read_slot(&words_of(&bytes))
    }

    async fn read_logits(&mut self) -> Result<&[f32], BackendError> {
        let rows = self.ledger.readable_logits()?;
        let prepared = self.prepared.as_ref().ok_or(NOT_PREPARED)?;
        let width = prepared.arena.width(Slot::Logits);
        let buffer = prepared.arena.slot(Slot::Logits);
        self.read = read_rows(&self.gpu, buffer, rows, width).await?;
        Ok(&self.read)
    }

    async fn read_states(&mut self) -> Result<&[f32], BackendError> {
        self.ledger.readable_states()?;
        let rows = self.ledger.step.rows();
        let prepared = self.prepared.as_ref().ok_or(NOT_PREPARED)?;
        let width = prepared.shape.hidden_size;
        self.read = read_rows(&self.gpu, &prepared.arena.normed, rows, width).await?;
        Ok(&self.read)
    }

    fn memory(&self) -> BackendMemory {
        let matrices: u64 = self.matrices.iter().map(Matrix::bytes).sum();
        let vectors = self.vectors.iter().chain(&self.frequencies);
        let vectors: u64 = vectors.map(wgpu::Buffer::size).sum();
        let Some(prepared) = &self.prepared else {
            return BackendMemory {
                weights_bytes: matrices + vectors,
                ..BackendMemory::default()
            };
        };
        let scratch = [&prepared.step, &prepared.ring, &prepared.linear_scratch];
        let scratch = scratch.into_iter().chain(&prepared.attention_scratch);
        let scratch: u64 = scratch
            .chain(&prepared.rotations)
            .map(wgpu::Buffer::size)
            .sum();
        BackendMemory {
            weights_bytes: matrices + vectors,
            kv_cache_bytes: prepared.pools.iter().map(KvPool::bytes).sum(),
            scratch_bytes: scratch + prepared.arena.bytes() + prepared.sampler.bytes(),
        }
    }

    fn held_bytes(&self, ggml_type: GgmlType, bytes: u64) -> u64 {
        PlaneFormat::of(ggml_type).held_bytes(ggml_type, bytes)
    }

    fn cache_bytes(&self, shape: &ModelShape, blocks: u64) -> CacheBytes {
        let capabilities = self.gpu.capabilities();
        let layout = self.options.layout(capabilities, shape);
        layout.grown_bytes(capabilities, blocks)
    }

    fn is_on_host(&self) -> bool {
        false
    }
}

const NOT_PREPARED: BackendError = BackendError::Usage {
    op: "webgpu",
    why: "prepare has not been called",
};

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// Rows without the gaps between them.
async fn read_rows(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    rows: usize,
    width: usize,
) -> Result<Vec<f32>, BackendError> {
    let stride = row_stride(width);
    let bytes = gpu.read(buffer, (rows * stride * 4) as u64).await?;
    let values: Vec<f32> = words_of(&bytes).into_iter().map(f32::from_bits).collect();
    let rows = values.chunks_exact(stride);
    Ok(rows.flat_map(|row| &row[..width]).copied().collect())
}
