//! Norm of a projection, added to the residual.

use super::super::check::{Case, Seeded, strided};
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::step::{StepSequence, StepWords};
use super::super::{Gpu, GpuError, row_stride};
use super::rms_norm::{Variant, shader};

/// Uniform of the shaders.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    width: u32,
    stride: u32,
    eps: f32,
    scale: f32,
}

/// Arguments of [`norm_add`].
#[derive(Clone, Copy, Debug)]
pub struct NormAdd<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// `[T, C]`.
    pub y: &'a wgpu::Buffer,
    /// `[C]`.
    pub weight: &'a wgpu::Buffer,
    /// `[T, C]`; another buffer than `y`.
    pub residual: &'a wgpu::Buffer,
    /// `C`.
    pub width: usize,
    /// Added to the mean square.
    pub eps: f32,
    /// Factor on what is added.
    pub scale: f32,
}

/// Records `residual += scale * rms_norm(y, weight, eps)` for every row.
pub fn norm_add(recorder: &mut Recorder<'_>, variant: Variant, op: &NormAdd<'_>) {
    let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let params = Params {
        width: count(op.width),
        stride: count(row_stride(op.width)),
        eps: op.eps,
        scale: op.scale,
    };
    let params = Bind::Params(bytemuck::bytes_of(&params));
    let (shader, rows) = shader(
        variant,
        ("norm_add", include_str!("norm_add.wgsl")),
        ("norm_add_serial", include_str!("norm_add_serial.wgsl")),
    );
    let grid = [rows, Extent::Fixed(1), Extent::Fixed(1)];
    let mut binds = vec![
        params,
        Bind::Read(op.y),
        Bind::Read(op.weight),
        Bind::Write(op.residual),
    ];
    if variant == Variant::Serial {
        binds.insert(0, Bind::Read(op.step));
    }
    recorder.dispatch(&shader, &binds, grid, Cost::default());
}

/// The twin: `residual` and `y` `[T, C]` without gaps.
#[must_use]
pub fn plain(residual: &[f32], y: &[f32], weight: &[f32], (eps, scale): (f32, f32)) -> Vec<f32> {
    let normed = super::rms_norm::plain(y, weight, eps);
    let sums = residual.iter().zip(normed);
    sums.map(|(residual, normed)| residual + scale * normed)
        .collect()
}

/// A case of `rows` rows of `width`.
#[must_use]
pub fn case(gpu: &Gpu, variant: Variant, [rows, width]: [usize; 2], seed: u64) -> Case {
    const EPS: f32 = 1e-5;
    const SCALE: f32 = 0.75;
    let mut seeded = Seeded::new(seed);
    let (residual, y) = (seeded.values(rows * width), seeded.values(rows * width));
    let weight = seeded.values(width);
    let want = plain(&residual, &y, &weight, (EPS, SCALE));
    let mut step = StepWords::default();
    let sequence = StepSequence {
        rows,
        position: 0,
        table: &[],
        ring: &[],
    };
    step.fill(&vec![0; rows], None, &[sequence], 0);
    let extents = step.extents();
    let step = gpu.storage_of("step", step.words());
    let y = gpu.storage_of("y", &strided(&y, width));
    let weight = gpu.storage_of("weight", &weight);
    Case {
        kernel: format!("norm_add {variant:?}"),
        description: format!("[{rows}, {width}], seed {seed}"),
        extents,
        rows,
        width,
        want,
        before: Some(residual),
        max_nmse: 1e-10,
        record: Box::new(move |recorder, residual| {
            let op = NormAdd {
                step: &step,
                y: &y,
                weight: &weight,
                residual,
                width,
                eps: EPS,
                scale: SCALE,
            };
            norm_add(recorder, variant, &op);
            Ok::<(), GpuError>(())
        }),
    }
}
