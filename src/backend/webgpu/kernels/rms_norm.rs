//! Root-mean-square norm of rows.

use super::super::check::{Case, Seeded, strided};
use super::super::recorder::{Bind, Cost, Extent, Extents, Recorder};
use super::super::shader::{Constant, Needs, Shader};
use super::super::step::{StepSequence, StepWords};
use super::super::{Capabilities, GpuError, row_stride};

/// Lanes of a workgroup.
const WG_SIZE: u32 = 64;

/// How rows are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One invocation a row.
    Serial,
    /// One workgroup a row, sums through its memory.
    Tree,
    /// One workgroup a row, sums by subgroups.
    Subgroup,
}

impl Variant {
    /// All that a device can run.
    #[must_use]
    pub fn available(capabilities: &Capabilities) -> Vec<Self> {
        let mut variants = vec![Self::Serial, Self::Tree];
        // Smaller ones than the sums' array has room for.
        if capabilities.subgroups.is_some_and(|[least, _]| least >= 4) {
            variants.push(Self::Subgroup);
        }
        variants
    }
}

/// Uniform of the shaders.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    width: u32,
    stride: u32,
    eps: f32,
    padding: u32,
}

/// Arguments of [`rms_norm`].
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// `[T, C]`.
    pub x: &'a wgpu::Buffer,
    /// `[C]`.
    pub weight: &'a wgpu::Buffer,
    /// `[T, C]`; another buffer than `x`.
    pub y: &'a wgpu::Buffer,
    /// `C`.
    pub width: usize,
    /// Added to the mean square.
    pub eps: f32,
}

/// Records `y = x * weight / sqrt(mean(x^2) + eps)` for every row.
pub fn rms_norm(recorder: &mut Recorder<'_>, variant: Variant, op: &RmsNorm<'_>) {
    let params = Params {
        width: u32::try_from(op.width).unwrap_or(u32::MAX),
        stride: u32::try_from(row_stride(op.width)).unwrap_or(u32::MAX),
        eps: op.eps,
        padding: 0,
    };
    let params = Bind::Params(bytemuck::bytes_of(&params));
    let (x, weight, y) = (Bind::Read(op.x), Bind::Read(op.weight), Bind::Write(op.y));
    let (shader, rows) = shader(
        variant,
        ("rms_norm", include_str!("rms_norm.wgsl")),
        ("rms_norm_serial", include_str!("rms_norm_serial.wgsl")),
    );
    let grid = [rows, Extent::Fixed(1), Extent::Fixed(1)];
    let mut binds = vec![params, x, weight, y];
    if variant == Variant::Serial {
        binds.insert(0, Bind::Read(op.step));
    }
    recorder.dispatch(&shader, &binds, grid, Cost::default());
}

/// Shader and grid of a norm over rows: `one_group_a_row` with the sums of the variant, or
/// `serial` with the step.
pub(super) fn shader(
    variant: Variant,
    one_group_a_row: (&'static str, &'static str),
    serial: (&'static str, &'static str),
) -> (Shader, Extent) {
    let ((name, text), sums, per_group) = match variant {
        Variant::Serial => (serial, include_str!("common/step.wgsl"), WG_SIZE),
        Variant::Tree => (one_group_a_row, include_str!("common/reduce_tree.wgsl"), 1),
        Variant::Subgroup => (
            one_group_a_row,
            include_str!("common/reduce_subgroup.wgsl"),
            1,
        ),
    };
    let shader = Shader {
        name,
        parts: vec![sums, text],
        constants: vec![
            ("WG_SIZE", Constant::U32(WG_SIZE)),
            // The step's tables are not read here.
            ("BLOCK_TOKENS", Constant::U32(1)),
        ],
        needs: Needs {
            subgroups: variant == Variant::Subgroup,
            ..Needs::default()
        },
    };
    let rows = Extent::Rows {
        times: 1,
        per_group,
    };
    (shader, rows)
}

/// The twin: `x [T, C]` without gaps.
#[must_use]
pub fn plain(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(weight.len()) {
        let squares: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let scale = (1.0 / (squares / row.len() as f64 + f64::from(eps)).sqrt()) as f32;
        y.extend(row.iter().zip(weight).map(|(x, gain)| x * scale * gain));
    }
    y
}

/// A case of `rows` rows of `width`.
#[must_use]
pub fn case(
    gpu: &super::super::Gpu,
    variant: Variant,
    [rows, width]: [usize; 2],
    seed: u64,
) -> Case {
    const EPS: f32 = 1e-5;
    let mut seeded = Seeded::new(seed);
    let (x, weight) = (seeded.values(rows * width), seeded.values(width));
    let want = plain(&x, &weight, EPS);
    let mut step = StepWords::default();
    let sequence = StepSequence {
        rows,
        position: 0,
        table: &[0],
        ring: &[],
    };
    step.fill(&vec![0; rows], None, &[sequence], 0);
    let extents = Extents {
        rows: step.extents().rows,
        ..Extents::default()
    };
    let step = gpu.storage_of("step", step.words());
    let x = gpu.storage_of("x", &strided(&x, width));
    let weight = gpu.storage_of("weight", &weight);
    Case {
        kernel: format!("rms_norm {variant:?}"),
        description: format!("[{rows}, {width}], seed {seed}"),
        extents,
        rows,
        width,
        want,
        before: None,
        max_nmse: 1e-10,
        record: Box::new(move |recorder, y| {
            let (step, x, weight, eps) = (&step, &x, &weight, EPS);
            let op = RmsNorm {
                step,
                x,
                weight,
                y,
                width,
                eps,
            };
            rms_norm(recorder, variant, &op);
            Ok::<(), GpuError>(())
        }),
    }
}
