//! Norm of a part of each row, in place: all heads of queries, or of keys, at once.

use super::super::check::{Case, Seeded};
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
    first: u32,
    eps: f32,
}

/// Arguments of [`rms_norm_span`].
#[derive(Clone, Copy, Debug)]
pub struct RmsNormSpan<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// `[T, row_width]`.
    pub x: &'a wgpu::Buffer,
    /// `[width]`.
    pub weight: &'a wgpu::Buffer,
    /// Elements of a row of `x`.
    pub row_width: usize,
    /// First element of the span.
    pub first: usize,
    /// Elements of the span.
    pub width: usize,
    /// Added to the mean square.
    pub eps: f32,
}

/// Records `x[t, first..][..width] = rms_norm(itself, weight, eps)` for every row.
pub fn rms_norm_span(recorder: &mut Recorder<'_>, variant: Variant, op: &RmsNormSpan<'_>) {
    let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let params = Params {
        width: count(op.width),
        stride: count(row_stride(op.row_width)),
        first: count(op.first),
        eps: op.eps,
    };
    let params = Bind::Params(bytemuck::bytes_of(&params));
    let (shader, rows) = shader(
        variant,
        ("rms_norm_span", include_str!("rms_norm_span.wgsl")),
        (
            "rms_norm_span_serial",
            include_str!("rms_norm_span_serial.wgsl"),
        ),
    );
    let grid = [rows, Extent::Fixed(1), Extent::Fixed(1)];
    let mut binds = vec![params, Bind::Read(op.weight), Bind::Write(op.x)];
    if variant == Variant::Serial {
        binds.insert(0, Bind::Read(op.step));
    }
    recorder.dispatch(&shader, &binds, grid, Cost::default());
}

/// A case of `rows` rows of `row_width` with a span of `width` from `first`.
#[must_use]
pub fn case(
    gpu: &Gpu,
    variant: Variant,
    [rows, row_width, first, width]: [usize; 4],
    seed: u64,
) -> Case {
    const EPS: f32 = 1e-5;
    let mut seeded = Seeded::new(seed);
    let (x, weight) = (seeded.values(rows * row_width), seeded.values(width));
    let mut want = x.clone();
    for row in want.chunks_mut(row_width) {
        let span = &mut row[first..first + width];
        let normed = super::rms_norm::plain(span, &weight, EPS);
        span.copy_from_slice(&normed);
    }
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
    let weight = gpu.storage_of("weight", &weight);
    Case {
        kernel: format!("rms_norm_span {variant:?}"),
        description: format!("[{rows}, {row_width}], span {first} + {width}, seed {seed}"),
        extents,
        rows,
        width: row_width,
        want,
        before: Some(x),
        max_nmse: 1e-10,
        record: Box::new(move |recorder, x| {
            let op = RmsNormSpan {
                step: &step,
                x,
                weight: &weight,
                row_width,
                first,
                width,
                eps: EPS,
            };
            rms_norm_span(recorder, variant, &op);
            Ok::<(), GpuError>(())
        }),
    }
}
