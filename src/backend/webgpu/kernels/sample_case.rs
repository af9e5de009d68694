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

    /// Samples, `repeats` times over in one submission; the choice is in [`Trial::ring`].
    ///
    /// # Errors
    /// The device's, and those of [`Sampler::write_state`].
    pub async fn submit(
        &mut self,
        params: &SampleParams<'_>,
        step: &SampleStep<'_>,
        repeats: usize,
    ) -> Result<(), TrialError> {
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
        match scope.pop().await {
            None => Ok(()),
            Some(error) => Err(TrialError::Gpu(GpuError::Validation {
                what: format!("sampler {mode:?}"),
                why: error.to_string(),
            })),
        }
    }

    /// The ring's words, slot by slot.
    ///
    /// # Errors
    /// The device's.
    pub async fn ring(&self) -> Result<Vec<[u32; SLOT_WORDS]>, GpuError> {
        let bytes = (RING_SLOTS * SLOT_WORDS * 4) as u64;
        let bytes = self.gpu.read(&self.ring, bytes).await?;
        let slot = |bytes: &[u8]| {
            let mut words = [0; SLOT_WORDS];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            words
        };
        Ok(bytes.chunks_exact(SLOT_WORDS * 4).map(slot).collect())
    }
}
