//! Where a pass's time goes, kernel by kernel, and what share that is of what the device can do.
//!
//! Each kernel's dispatches of one recorded pass are run over and over in a pass of their own,
//! between two timestamps. That leaves out what only the mixture costs (waiting between kernels);
//! the whole pass is timed as well.

use super::backend::WebGpuBackend;
use super::kernels::yardstick;
use super::prepared::PassKey;
use super::recorder::{Extents, Pipelines, Recorder, Recording, Work};
use super::stopwatch::{Lap, time};
use super::{Gpu, GpuError};
pub use crate::backend::profile::{KernelProfile, Profile};

/// Runs of a kernel's dispatches, at least; of a processor that plays a GPU as many as it does in
/// the time, and at least one.
const LEAST_RUNS: f64 = 50.0;
const SOFTWARE_MICROS: f64 = 30_000.0;

/// Passes that are encoded to see how long one takes.
const ENCODED: u32 = 16;

impl WebGpuBackend {
    /// Profiles the pass that was submitted last; `None` before there was one.
    ///
    /// It is run many times over: what it wrote to the cache is spoiled, and has to be dropped.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub async fn profile_last(&self) -> Result<Option<Profile>, GpuError> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        let (Some(key), extents) = (prepared.pass.key, prepared.pass.extents) else {
            return Ok(None);
        };
        let Some(recording) = prepared.recordings.get(&key) else {
            return Ok(None);
        };
        let now_ms = &*self.now_ms.0;
        let yardsticks = Yardsticks::measure(&self.gpu, now_ms).await?;
        let mut kernels = Vec::new();
        for kernel in names(recording) {
            let mine = recording.only(|dispatch| dispatch.kernel == kernel);
            let micros = micros_of(&self.gpu, (&mine, extents), now_ms).await?;
            kernels.push(yardsticks.judge(kernel, &mine, &extents, micros));
        }
        let sum: f64 = kernels.iter().map(|kernel| kernel.micros).sum();
        kernels
            .iter_mut()
            .for_each(|it| it.share = it.micros / sum.max(f64::MIN_POSITIVE));
        kernels.sort_by(|a, b| b.micros.total_cmp(&a.micros));
        let work = recording.work(&extents);
        Ok(Some(Profile {
            rows: extents.rows,
            positions: extents.positions,
            kernels,
            dispatches: recording.dispatches().len(),
            micros: micros_of(&self.gpu, (recording, extents), now_ms).await?,
            bytes: work.bytes,
            flops: 2 * work.macs,
            encode_ms: self.encode_ms(key),
            read_ms: self.read_ms,
            copy_bytes_per_second: yardsticks.copy_bytes_per_second,
            flops_per_second: yardsticks.flops_per_second,
        }))
    }

    /// Weights and cache that the pass submitted last reads, and what it multiplies.
    #[must_use]
    pub fn last_work(&self) -> Option<Work> {
        let prepared = self.prepared.as_ref()?;
        let recording = prepared.recordings.get(&prepared.pass.key?)?;
        Some(recording.work(&prepared.pass.extents))
    }

    /// Time to write a recorded pass into a command buffer: the mean of several, since a
    /// browser's clock is coarse.
    fn encode_ms(&self, key: PassKey) -> f64 {
        let Some(prepared) = &self.prepared else {
            return 0.0;
        };
        let recording = &prepared.recordings[&key];
        let started = (self.now_ms.0)();
        for _ in 0..ENCODED {
            let mut encoder = self
                .gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                recording.encode(&mut pass, &prepared.pass.extents);
            }
            drop(encoder.finish());
        }
        ((self.now_ms.0)() - started) / f64::from(ENCODED)
    }

    /// Milliseconds that writing the pass submitted last into a command buffer takes.
    #[must_use]
    pub fn last_encode_ms(&self) -> Option<f64> {
        Some(self.encode_ms(self.prepared.as_ref()?.pass.key?))
    }
}

impl Recording {
    /// What all dispatches read and multiply.
    fn work(&self, extents: &Extents) -> Work {
        let each = self.dispatches().iter().map(|it| it.cost.at(extents));
        each.fold(Work::default(), |sum, work| Work {
            bytes: sum.bytes + work.bytes,
            macs: sum.macs + work.macs,
        })
    }
}

/// Kernels of a recording, each once.
fn names(recording: &Recording) -> Vec<&'static str> {
    let mut names = Vec::new();
    for dispatch in recording.dispatches() {
        if !names.contains(&dispatch.kernel) {
            names.push(dispatch.kernel);
        }
    }
    names
}

/// One run of a recording, from many.
async fn micros_of(
    gpu: &Gpu,
    (recording, extents): (&Recording, Extents),
    now_ms: &dyn Fn() -> f64,
) -> Result<f64, GpuError> {
    let lap = |repeats| Lap {
        recording,
        extents,
        repeats,
    };
    let first = time(gpu, &[lap(1)], now_ms).await?;
    let in_time = SOFTWARE_MICROS / first[0].max(1.0);
    let dispatches = recording.dispatches().len().max(1) as f64;
    let wanted = (LEAST_RUNS / dispatches).ceil().max(2.0);
    let repeats = match gpu.capabilities().is_software {
        true => in_time.clamp(1.0, wanted),
        false => wanted,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to 50"
    )]
    let times = time(gpu, &[lap(repeats as u32)], now_ms).await?;
    Ok(times[0])
}

/// What the device can do.
struct Yardsticks {
    copy_bytes_per_second: f64,
    flops_per_second: f64,
}

impl Yardsticks {
    async fn measure(gpu: &Gpu, now_ms: &dyn Fn() -> f64) -> Result<Self, GpuError> {
        // Beyond the caches of a GPU; a processor would take seconds for as much arithmetic.
        let (copied, multiplied): (u32, u32) = match gpu.capabilities().is_software {
            true => (1 << 20, 1 << 13),
            false => (1 << 22, 1 << 20),
        };
        let x = gpu.storage("x", 16 * u64::from(copied));
        let y = gpu.storage("y", 16 * u64::from(copied));
        let mut pipelines = Pipelines::default();
        let mut recorder = Recorder::new(gpu, &mut pipelines);
        yardstick::copy(&mut recorder, &x, &y, copied);
        let copy = recorder.finish();
        let mut recorder = Recorder::new(gpu, &mut pipelines);
        yardstick::multiply(&mut recorder, &y, multiplied);
        let multiply = recorder.finish();
        // Nothing of them depends on a step.
        let extents = Extents::default();
        let copy = micros_of(gpu, (&copy, extents), now_ms).await?;
        let multiply = micros_of(gpu, (&multiply, extents), now_ms).await?;
        Ok(Self {
            copy_bytes_per_second: 32.0 * f64::from(copied) / copy.max(1e-3) * 1e6,
            flops_per_second: 2.0 * yardstick::MACS as f64 * f64::from(multiplied)
                / multiply.max(1e-3)
                * 1e6,
        })
    }

    fn judge(
        &self,
        kernel: &str,
        recording: &Recording,
        extents: &Extents,
        micros: f64,
    ) -> KernelProfile {
        let work = recording.work(extents);
        let seconds = micros.max(1e-3) / 1e6;
        KernelProfile {
            kernel: kernel.to_owned(),
            dispatches: recording.dispatches().len(),
            micros,
            share: 0.0,
            bytes: work.bytes,
            flops: 2 * work.macs,
            of_copy: work.bytes as f64 / seconds / self.copy_bytes_per_second,
            of_peak: 2.0 * work.macs as f64 / seconds / self.flops_per_second,
        }
    }
}
