//! What a backend has once all weights are there: the arena, the caches, the recordings.

use std::collections::HashMap;

use super::arena::Arena;
use super::kernels::{linear, rope_table};
use super::kv::KvPool;
use super::operations::RowClass;
use super::plan::Plan;
use super::planes::Matrix;
use super::readback::Readback;
use super::recorder::{Extents, Recording as Recorded};
use super::sampler::{Mode, RING_SLOTS, SLOT_WORDS, Sampler};
use super::step::StepWords;
use super::{Gpu, GpuError, WebGpuOptions};
use crate::backend::{ModelShape, Outputs, RopeSpec, TokenSlot};

/// Bytes of a slot of the ring of tokens.
pub(super) const SLOT_BYTES: u64 = SLOT_WORDS as u64 * 4;

/// Tokens that may be on their way to the host: more than any run-ahead.
const CARRIERS: usize = 16;

/// Passes with one recording.
pub(super) type PassKey = (RowClass, Outputs);

/// What exists once all weights are there.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) shape: ModelShape,
    pub(super) plan: Plan,
    pub(super) arena: Arena,
    pub(super) step: wgpu::Buffer,
    pub(super) words: StepWords,
    /// Cosines and sines of the pass, a buffer a rope.
    pub(super) rotations: Vec<wgpu::Buffer>,
    /// Room for what products compute of their inputs.
    pub(super) linear_scratch: wgpu::Buffer,
    pub(super) attention_scratch: [wgpu::Buffer; 2],
    pub(super) pools: [KvPool; 2],
    /// Place of a block in its pool.
    pub(super) places: Vec<u32>,
    /// The last tokens.
    pub(super) ring: wgpu::Buffer,
    pub(super) sampler: Sampler,
    pub(super) samplings: HashMap<Mode, Recorded>,
    pub(super) recordings: HashMap<PassKey, Recorded>,
    /// What the pass at hand runs.
    pub(super) pass: Pass,
    pub(super) carriers: Vec<Carrier>,
    pub(super) next_carrier: usize,
}

#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) key: Option<PassKey>,
    /// Where the pass is recorded anew.
    pub(super) recorded: Option<Recorded>,
    /// Ropes whose table the pass has.
    pub(super) tables: Vec<bool>,
    pub(super) extents: Extents,
    pub(super) sampling: Option<(Mode, TokenSlot)>,
}

/// A way to the host for one token.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) readback: Readback,
    pub(super) token: Option<TokenSlot>,
}

impl Prepared {
    /// Buffers for a model whose weights are there.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub(super) fn new(
        gpu: &Gpu,
        options: &WebGpuOptions,
        shape: &ModelShape,
        (matrices, ropes): (&[Matrix], &[RopeSpec]),
        plan: Option<Plan>,
    ) -> Result<Self, GpuError> {
        let layout = options.layout(gpu.capabilities(), shape);
        // One that knows the weights comes with the check of the kernels.
        let plan = plan.unwrap_or_else(|| Plan::new(gpu.capabilities(), options, &layout, &[]));
        let pools = [
            KvPool::new(gpu, "KV cache", shape.num_layers, layout, 1)?,
            KvPool::new(gpu, "KV ring", shape.window_layers, layout, 1)?,
        ];
        let rows = shape.max_rows;
        let cols = matrices.iter().map(Matrix::cols).max().unwrap_or(0);
        let scratch = plan.attention_scratch(&layout, shape.heads.num_heads, rows);
        let carriers = (0..CARRIERS).map(|_| Carrier {
            readback: Readback::new(gpu, SLOT_BYTES),
            token: None,
        });
        let ropes = ropes.iter();
        let rotations = ropes.map(|rope| {
            let bytes = rope_table::table_bytes(rows, rope.frequencies.len());
            gpu.storage("rotations", bytes)
        });
        let sampler = Sampler::new(gpu, plan.sample(), shape.vocab_size);
        Ok(Self {
            shape: *shape,
            plan,
            arena: Arena::new(gpu, shape),
            step: gpu.storage("step", 64 * rows as u64 + 4096),
            words: StepWords::default(),
            rotations: rotations.collect(),
            linear_scratch: gpu.storage("products", linear::scratch_bytes(rows, cols)),
            attention_scratch: scratch.map(|bytes| gpu.storage("attention", bytes)),
            pools,
            places: Vec::new(),
            ring: gpu.storage("tokens", RING_SLOTS as u64 * SLOT_BYTES),
            sampler,
            samplings: HashMap::new(),
            recordings: HashMap::new(),
            pass: Pass::default(),
            carriers: carriers.collect(),
            next_carrier: 0,
        })
    }

    pub(super) fn forget_recordings(&mut self) {
        self.recordings.clear();
        self.samplings.clear();
    }

    /// Submits the pass at hand; one that reads nothing back is waited for.
    ///
    /// # Errors
    /// [`GpuError::Lost`]; [`GpuError::Validation`] for a grid beyond the device's limits.
    pub(super) async fn run(&mut self, gpu: &Gpu, key: PassKey) -> Result<(), GpuError> {
        let extents = self.pass.extents;
        let recording = &self.recordings[&key];
        recording.check(gpu, &extents)?;
        let words = bytemuck::cast_slice(self.words.words());
        gpu.queue.write_buffer(&self.step, 0, words);
        let mut encoder = gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            recording.encode(&mut pass, &extents);
            if let Some((mode, _)) = self.pass.sampling {
                self.samplings[&mode].encode(&mut pass, &extents);
            }
        }
        let Some((_, token)) = self.pass.sampling else {
            let submission = gpu.queue.submit([encoder.finish()]);
            // What reads nothing would tell nothing of its time.
            if self.words.extents().logit_rows == 0 {
                gpu.idle(submission).await?;
            }
            return Ok(());
        };
        let next = self.next_carrier;
        self.next_carrier = (next + 1) % CARRIERS;
        let carrier = &mut self.carriers[next];
        carrier.token = Some(token);
        let offset = u64::from(ring_slot(token)) * SLOT_BYTES;
        carrier.readback.copy(&mut encoder, &self.ring, offset);
        carrier.readback.start(gpu.queue.submit([encoder.finish()]));
        Ok(())
    }
}

/// Slot of the device's ring.
pub(super) fn ring_slot(slot: TokenSlot) -> u32 {
    u32::try_from(slot.0 % RING_SLOTS).unwrap_or(0)
}
