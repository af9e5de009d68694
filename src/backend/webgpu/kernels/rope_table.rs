//! Rotations of a pass: cosine and sine of each row's position times each frequency.
//!
//! One dispatch a pass and rope; the layers read its table.

use super::super::check::Case;
use super::super::recorder::{Bind, Cost, Extent, Extents, Recorder};
use super::super::shader::{Constant, Needs, Shader};
use super::super::step::{StepSequence, StepWords};
use super::super::{Gpu, GpuError};

/// Lanes of a workgroup.
const WG_SIZE: u32 = 64;

/// Uniform of the shader.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    magnitude: f32,
    padding: [u32; 3],
}

/// Arguments of [`rope_table`].
#[derive(Clone, Copy, Debug)]
pub struct RopeTable<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// `[pairs]`, radians a position, not negative.
    pub frequencies: &'a wgpu::Buffer,
    /// `[T, pairs]` of cosine and sine, without gaps.
    pub rotations: &'a wgpu::Buffer,
    /// Frequencies.
    pub pairs: usize,
    /// Factor on both.
    pub magnitude: f32,
}

/// Bytes of a table for `rows` rows.
#[must_use]
pub fn table_bytes(rows: usize, pairs: usize) -> u64 {
    rows as u64 * pairs as u64 * 8
}

fn shader(pairs: u32) -> Shader {
    Shader {
        name: "rope_table",
        parts: vec![
            include_str!("common/step.wgsl"),
            include_str!("rope_table.wgsl"),
        ],
        constants: vec![
            ("WG_SIZE", Constant::U32(WG_SIZE)),
            ("PAIRS", Constant::U32(pairs)),
            // The step's tables are not read here.
            ("BLOCK_TOKENS", Constant::U32(1)),
        ],
        needs: Needs::default(),
    }
}

/// Records `rotations[t, i] = magnitude (cos, sin)(position(t) frequencies[i])`.
pub fn rope_table(recorder: &mut Recorder<'_>, op: &RopeTable<'_>) {
    let pairs = u32::try_from(op.pairs.max(1)).unwrap_or(u32::MAX);
    let params = Params {
        magnitude: op.magnitude,
        padding: [0; 3],
    };
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.frequencies),
        Bind::Write(op.rotations),
    ];
    let all = Extent::Rows {
        times: pairs,
        per_group: WG_SIZE,
    };
    let grid = [all, Extent::Fixed(1), Extent::Fixed(1)];
    recorder.dispatch(&shader(pairs), &binds, grid, Cost::default());
}

/// The twin: `[positions, frequencies, 2]`, the angle rounded to `f32`.
#[must_use]
pub fn plain(positions: &[usize], frequencies: &[f32], magnitude: f32) -> Vec<f32> {
    let mut rotations = Vec::new();
    for &position in positions {
        for frequency in frequencies {
            let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
            rotations.extend([cos, sin].map(|value| value as f32 * magnitude));
        }
    }
    rotations
}

/// A case of `rows` rows from `position`, with `pairs` frequencies of base 10000. The table has
/// no gaps, so it is judged as one row.
#[must_use]
pub fn case(gpu: &Gpu, [rows, position, pairs]: [usize; 3]) -> Case {
    const MAGNITUDE: f32 = 1.25;
    let frequencies: Vec<f32> = (0..pairs)
        .map(|i| 10000_f32.powf(-(i as f32) / pairs as f32))
        .collect();
    let positions: Vec<usize> = (position..position + rows).collect();
    let want = plain(&positions, &frequencies, MAGNITUDE);
    let mut step = StepWords::default();
    let sequence = StepSequence {
        rows,
        position,
        table: &[],
        ring: &[],
    };
    step.fill(&vec![0; rows], None, &[sequence], 0);
    let extents: Extents = step.extents();
    let step = gpu.storage_of("step", step.words());
    let frequencies = gpu.storage_of("frequencies", &frequencies);
    Case {
        kernel: "rope_table".to_owned(),
        description: format!("{rows} rows from position {position}, {pairs} pairs"),
        extents,
        rows: 1,
        width: want.len(),
        want,
        before: None,
        // Errors of 2e-7 on values around 1.
        max_nmse: 1e-13,
        record: Box::new(move |recorder, rotations| {
            let op = RopeTable {
                step: &step,
                frequencies: &frequencies,
                rotations,
                pairs,
                magnitude: MAGNITUDE,
            };
            rope_table(recorder, &op);
            Ok::<(), GpuError>(())
        }),
    }
}
