//! Kernels against their plain twins on the device at hand: the tests' harness and, with the
//! sizes of a model, its check before it is used.

use super::recorder::{Extents, Pipelines, Recorder, Recording};
use super::{Gpu, GpuError, row_stride};
pub use crate::backend::random::Seeded;

/// Pattern of outputs before a kernel runs: a NaN that no arithmetic makes.
const POISON: u32 = 0x7fc5_a5a5;

/// A dispatch (or a few) with inputs from a seed, and what has to come out.
pub struct Case {
    /// Kernel and variant.
    pub kernel: String,
    /// Sizes and seed, so that a failure can be repeated.
    pub description: String,
    /// What the grid depends on.
    pub extents: Extents,
    /// Rows of the output, `row_stride(width)` apart.
    pub rows: usize,
    /// Elements of an output row.
    pub width: usize,
    /// The twin's answer, `[rows, width]`.
    pub want: Vec<f32>,
    /// What an output holds before, where the kernel adds to it; poison otherwise.
    pub before: Option<Vec<f32>>,
    /// Normalized mean square error that is allowed.
    pub max_nmse: f64,
    /// Records the dispatches that write to the buffer.
    #[expect(
        clippy::type_complexity,
        reason = "one boxed closure, named by its field"
    )]
    pub record: Box<dyn Fn(&mut Recorder<'_>, &wgpu::Buffer) -> Result<(), GpuError>>,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Kernel and variant.
    pub kernel: String,
    /// Sizes and seed.
    pub description: String,
    /// Normalized mean square error; infinite where a number is missing or not finite.
    pub nmse: f64,
    /// What is wrong, if anything is.
    pub fault: Option<String>,
}

/// Runs a case.
///
/// # Errors
/// The device's. A wrong answer is no error but an [`Outcome::fault`].
pub async fn run(gpu: &Gpu, pipelines: &mut Pipelines, case: &Case) -> Result<Outcome, GpuError> {
    let outcomes = run_all(gpu, pipelines, std::slice::from_ref(case)).await?;
    outcomes.into_iter().next().ok_or(GpuError::Validation {
        what: case.kernel.clone(),
        why: "the case had no outcome".to_owned(),
    })
}

/// Runs cases in one submission, and reads all outputs at once.
///
/// # Errors
/// As [`run`].
pub async fn run_all(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    cases: &[Case],
) -> Result<Vec<Outcome>, GpuError> {
    let outputs: Vec<_> = cases.iter().map(|case| output(gpu, case)).collect();
    let total: u64 = outputs.iter().map(wgpu::Buffer::size).sum();
    let gathered = gpu.storage("outputs", total);
    let mut encoder = gpu
        .device
        .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut refused = Vec::with_capacity(cases.len());
    let mut at = 0;
    for (case, output) in cases.iter().zip(&outputs) {
        match record(gpu, pipelines, case, output).await {
            Ok(recording) => {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                recording.encode(&mut pass, &case.extents);
                refused.push(None);
            }
            Err(GpuError::Validation { why, .. }) => refused.push(Some(why)),
            Err(error) => return Err(error),
        }
        encoder.copy_buffer_to_buffer(output, 0, &gathered, at, output.size());
        at += output.size();
    }
    let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    gpu.queue.submit([encoder.finish()]);
    if let Some(error) = scope.pop().await {
        return Err(GpuError::Validation {
            what: "a check of kernels".to_owned(),
            why: error.to_string(),
        });
    }
    let bytes = gpu.read(&gathered, total).await?;
    let mut rest = &bytes[..];
    let mut outcomes = Vec::with_capacity(cases.len());
    for ((case, output), refused) in cases.iter().zip(&outputs).zip(refused) {
        let (mine, after) = rest.split_at(usize::try_from(output.size()).unwrap_or(0));
        rest = after;
        let words = mine.chunks_exact(4);
        let words = words.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let mut outcome = judge(case, &words.collect::<Vec<_>>());
        outcome.fault = refused.or(outcome.fault);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// An output as it is before the kernel runs.
pub(super) fn output(gpu: &Gpu, case: &Case) -> wgpu::Buffer {
    let stride = row_stride(case.width);
    let mut words = vec![POISON; case.rows * stride];
    if let Some(before) = &case.before {
        for (row, values) in before.chunks(case.width).enumerate() {
            for (i, value) in values.iter().enumerate() {
                words[row * stride + i] = value.to_bits();
            }
        }
    }
    gpu.storage_of("output", &words)
}

async fn record(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    case: &Case,
    output: &wgpu::Buffer,
) -> Result<Recording, GpuError> {
    let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let mut recorder = Recorder::new(gpu, pipelines);
    let recorded = (case.record)(&mut recorder, output);
    let recording = recorder.finish();
    if let Some(error) = scope.pop().await {
        return Err(GpuError::Validation {
            what: case.kernel.clone(),
            why: error.to_string(),
        });
    }
    recorded?;
    recording.check(gpu, &case.extents)?;
    Ok(recording)
}

fn judge(case: &Case, got: &[u32]) -> Outcome {
    let stride = row_stride(case.width);
    let (mut error, mut power, mut fault) = (0.0_f64, 0.0_f64, None);
    for row in 0..case.rows {
        for i in 0..stride {
            let bits = got[row * stride + i];
            if i >= case.width {
                if bits != POISON {
                    fault = Some(format!("row {row} was written past its end, at {i}"));
                }
                continue;
            }
            let (got, want) = (f32::from_bits(bits), case.want[row * case.width + i]);
            if !got.is_finite() {
                fault = Some(format!("row {row}, element {i}: {got} instead of {want}"));
            }
            error += f64::from(got - want).powi(2);
            power += f64::from(want).powi(2);
        }
    }
    let nmse = match (power > 0.0, fault.is_none()) {
        (_, false) => f64::INFINITY,
        (true, _) => error / power,
        (false, _) => error,
    };
    if fault.is_none() && nmse.is_nan() | (nmse > case.max_nmse) {
        fault = Some(format!(
            "NMSE {nmse:e} where {:e} is allowed",
            case.max_nmse
        ));
    }
    Outcome {
        kernel: case.kernel.clone(),
        description: case.description.clone(),
        nmse,
        fault,
    }
}

/// Rows spread to [`row_stride`], zeros between.
#[must_use]
pub fn strided(values: &[f32], width: usize) -> Vec<f32> {
    let stride = row_stride(width);
    let mut spread = vec![0.0; values.len() / width * stride];
    for (row, values) in values.chunks(width).enumerate() {
        spread[row * stride..row * stride + width].copy_from_slice(values);
    }
    spread
}
