//! The sampler by itself, with logits from the host: for its tests and its check on a device.

use std::collections::HashMap;

use super::super::recorder::{Extents, Pipelines, Recorder, Recording};
use super::super::sampler::{Mode, RING_SLOTS, SLOT_WORDS, SampleStep, Sampler};
use super::super::{Gpu, GpuError, row_stride};
use super::sample::Variant;
use crate::backend::{BackendError, SampleParams};

/// A sampler, a ring and rows of logits.
#[derive(Debug)]
pub struct Trial {
    gpu: Gpu,
    sampler: Sampler,
    vocab: usize,
    logits: wgpu::Buffer,
    ring: wgpu::Buffer,
    recordings: HashMap<Mode, Recording>,
    pipelines: Pipelines,
}

/// Why a trial has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// The device's reason.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The sampler's.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Trial {
    /// Room for `rows` of `vocab` logits.
    #[must_use]
    pub fn new(gpu: &Gpu, variant: Variant, vocab: usize, rows: usize) -> Self {
        let stride = row_stride(vocab) as u64;
        Self {
            sampler: Sampler::new(gpu, variant, vocab),
            logits: gpu.storage("logits", rows as u64 * stride * 4),
            ring: gpu.storage("ring", (RING_SLOTS * SLOT_WORDS * 4) as u64),
            recordings: HashMap::new(),
            pipelines: Pipelines::default(),
            gpu: gpu.clone(),
            vocab,
        }
    }

    /// Writes a row.
    pub fn write_row(&self, row: usize, logits: &[f32]) {
        let at = row * row_stride(self.vocab) * 4;
        let bytes: &[u8] = bytemuck::cast_slice(logits);
        self.gpu.queue.write_buffer(&self.logits, at as u64, bytes);
    }

    /// Samples `repeats` times and gives the slot's words.
    ///
    /// # Errors
    /// The device's, and those of [`Sampler::write_state`]; a fault of the logits is in the
    /// words.
    pub async fn run(
        &mut self,
        params: &SampleParams<'_>,
        step: &SampleStep<'_>,
        repeats: usize,
    ) -> Result<Vec<u32>, TrialError> {
        let mode = Mode::of(params, step.pending);
        let scope = self
            .gpu
            .device
            .push_error_scope(wgpu::ErrorFilter::Validation);
        if !self.recordings.contains_key(&mode) {
            let mut recorder = Recorder::new(&self.gpu, &mut self.pipelines);
            let (logits, ring) = (&self.logits, &self.ring);
            self.sampler.record(&mut recorder, mode, logits, ring);
            self.recordings.insert(mode, recorder.finish());
        }
        self.sampler.write_state(&self.gpu.queue, params, step)?;
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for _ in 0..repeats {
                self.recordings[&mode].encode(&mut pass, &Extents::default());
            }
        }
        self.gpu.queue.submit([encoder.finish()]);
        if let Some(error) = scope.pop().await {
            return Err(TrialError::Gpu(GpuError::Validation {
                what: format!("sampler {mode:?}"),
                why: error.to_string(),
            }));
        }
        let bytes = (RING_SLOTS * SLOT_WORDS * 4) as u64;
        let bytes = self.gpu.read(&self.ring, bytes).await?;
        let first = step.out_slot as usize * SLOT_WORDS;
        let words = bytes.chunks_exact(4).skip(first).take(SLOT_WORDS);
        Ok(words
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect())
    }
}
