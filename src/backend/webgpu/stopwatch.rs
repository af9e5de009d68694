//! How long recordings take on the device.

use super::recorder::{Extents, Recording};
use super::{Gpu, GpuError};

/// A recording, what its grids depend on, and how often it is run, one after the other in one
/// pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap<'a> {
    pub(super) recording: &'a Recording,
    pub(super) extents: Extents,
    pub(super) repeats: u32,
}

/// Microseconds of one run of each: by timestamps inside the queue where the device has them, all
/// in one submission, else by the caller's clock, a submission each.
///
/// Browsers round timestamps to 100 µs, so that short kernels need many repeats.
///
/// # Errors
/// [`GpuError::Lost`].
pub(super) async fn time(
    gpu: &Gpu,
    laps: &[Lap<'_>],
    now_ms: &dyn Fn() -> f64,
) -> Result<Vec<f64>, GpuError> {
    if laps.is_empty() {
        return Ok(Vec::new());
    }
    if gpu.capabilities().timestamps {
        return by_timestamps(gpu, laps).await;
    }
    let empty = by_clock(gpu, None, now_ms).await?;
    let mut times = Vec::with_capacity(laps.len());
    for lap in laps {
        let millis = by_clock(gpu, Some(lap), now_ms).await? - empty;
        times.push(millis.max(0.0) * 1000.0 / f64::from(lap.repeats));
    }
    Ok(times)
}

async fn by_timestamps(gpu: &Gpu, laps: &[Lap<'_>]) -> Result<Vec<f64>, GpuError> {
    let queries = u32::try_from(2 * laps.len()).unwrap_or(u32::MAX);
    let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
        label: Some("laps"),
        ty: wgpu::QueryType::Timestamp,
        count: queries,
    });
    let bytes = 8 * u64::from(queries);
    let resolved = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("timestamps"),
        size: bytes,
        usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    let mut encoder = gpu
        .device
        .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    for (lap, first) in laps.iter().zip((0..).step_by(2)) {
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        };
        encode(&mut encoder, lap, Some(writes));
    }
    encoder.resolve_query_set(&set, 0..queries, &resolved, 0);
    gpu.queue.submit([encoder.finish()]);
    let bytes = gpu.read(&resolved, bytes).await?;
    let ticks: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        .collect();
    let nanos = f64::from(gpu.queue.get_timestamp_period());
    let times = ticks.chunks_exact(2).zip(laps).map(|(pair, lap)| {
        // A clock that was set back tells nothing.
        let ticks = pair[1].saturating_sub(pair[0]);
        ticks as f64 * nanos / 1000.0 / f64::from(lap.repeats)
    });
    Ok(times.collect())
}

/// Milliseconds until the device is done with a lap, or with nothing.
async fn by_clock(
    gpu: &Gpu,
    lap: Option<&Lap<'_>>,
    now_ms: &dyn Fn() -> f64,
) -> Result<f64, GpuError> {
    let mut encoder = gpu
        .device
        .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    if let Some(lap) = lap {
        encode(&mut encoder, lap, None);
    }
    let started = now_ms();
    gpu.idle(gpu.queue.submit([encoder.finish()])).await?;
    Ok(now_ms() - started)
}

fn encode(
    encoder: &mut wgpu::CommandEncoder,
    lap: &Lap<'_>,
    timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes,
    });
    for _ in 0..lap.repeats {
        lap.recording.encode(&mut pass, &lap.extents);
    }
}
