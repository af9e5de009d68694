//! Gather of embedding rows.

use super::super::check::{Case, Seeded};
use super::super::planes::{Allocations, Matrix, PlaneFormat};
use super::super::recorder::{Bind, Cost, Extent, Extents, Recorder};
use super::super::shader::{Constant, Needs, Shader};
use super::super::step::{StepSequence, StepWords};
use super::super::{Gpu, GpuError, row_stride};
use super::linear::weights;
use crate::gguf::GgmlType;

/// Lanes of a workgroup.
const WG_SIZE: u32 = 32;

/// Uniform of the shader.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    blocks: u32,
    rows: u32,
    first_row: u32,
    width: u32,
    y_stride: u32,
    scale: f32,
    padding: [u32; 2],
}

/// Arguments of [`embed`].
#[derive(Clone, Copy, Debug)]
pub struct Embed<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// The ring of tokens, 64 words a slot: word 0 is the id.
    pub ring: &'a wgpu::Buffer,
    /// `[V, C]`.
    pub table: &'a Matrix,
    /// Factor on every element.
    pub scale: f32,
    /// `[T, C]`.
    pub y: &'a wgpu::Buffer,
}

/// Records `y[t] = scale * table[id[t]]`, one dispatch for each piece of the table.
///
/// # Errors
/// [`GpuError::Validation`] where the table has no rows yet.
pub fn embed(recorder: &mut Recorder<'_>, op: &Embed<'_>) -> Result<(), GpuError> {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let width = op.table.cols();
    for piece in op.table.pieces() {
        let Some([codes, scales, high]) = piece.planes() else {
            return Err(GpuError::Validation {
                what: "embed".to_owned(),
                why: "a matrix without contents".to_owned(),
            });
        };
        let params = Params {
            blocks: word(width.div_ceil(32)),
            rows: word(piece.rows),
            first_row: word(piece.first_row),
            width: word(width),
            y_stride: word(row_stride(width)),
            scale: op.scale,
            padding: [0; 2],
        };
        let binds = [
            Bind::Read(op.step),
            Bind::Read(codes),
            Bind::Read(scales),
            Bind::Read(high),
            Bind::Read(op.ring),
            Bind::Write(op.y),
            Bind::Params(bytemuck::bytes_of(&params)),
        ];
        let grid = [
            Extent::Fixed(params.blocks.div_ceil(WG_SIZE)),
            Extent::Rows {
                times: 1,
                per_group: 1,
            },
            Extent::Fixed(1),
        ];
        let cost = Cost {
            weight_bytes: piece.format.row_bytes(width),
            ..Cost::default()
        };
        recorder.dispatch(&shader(piece.format), &binds, grid, cost);
    }
    Ok(())
}

/// The text for a format.
#[must_use]
pub fn shader(format: PlaneFormat) -> Shader {
    let mut parts = vec![include_str!("common/step.wgsl")];
    parts.extend(format.parts());
    parts.push(include_str!("embed.wgsl"));
    Shader {
        name: "embed",
        parts,
        constants: vec![
            ("WG_SIZE", Constant::U32(WG_SIZE)),
            // The step's tables are not read here.
            ("BLOCK_TOKENS", Constant::U32(1)),
            ("ZERO", Constant::F32(format.zero())),
        ],
        needs: Needs::default(),
    }
}

/// The twin: rows `ids` of `table [V, C]`, times `scale`.
#[must_use]
pub fn plain(table: &[f32], width: usize, ids: &[u32], scale: f32) -> Vec<f32> {
    let row = |&id: &u32| &table[id as usize * width..][..width];
    ids.iter()
        .flat_map(row)
        .map(|value| value * scale)
        .collect()
}

/// A case of `rows` tokens from a table whose parts have these types and rows. With a ring
/// slot, the first id is there and not in the step.
///
/// # Errors
/// The device's.
pub fn case(
    gpu: &Gpu,
    parts: &[(GgmlType, usize)],
    [rows, width]: [usize; 2],
    ring_slot: Option<u32>,
    seed: u64,
) -> Result<Case, GpuError> {
    let whole = (gpu, Allocations::default());
    case_in(whole, parts, [rows, width], ring_slot, seed)
}

/// [`case`] in memory of one's own: one with less room in a buffer makes more pieces.
///
/// # Errors
/// The device's.
pub fn case_in(
    (gpu, mut allocations): (&Gpu, Allocations),
    parts: &[(GgmlType, usize)],
    [rows, width]: [usize; 2],
    ring_slot: Option<u32>,
    seed: u64,
) -> Result<Case, GpuError> {
    const SCALE: f32 = 1.75;
    let mut seeded = Seeded::new(seed);
    let (table, values) = weights(gpu, &mut allocations, parts, width, &mut seeded)?;
    let count = table.rows() as u64;
    let mut ids: Vec<u32> = (0..rows)
        .map(|_| u32::try_from(seeded.bits() % count).unwrap_or(0))
        .collect();
    let want = plain(&values, width, &ids, SCALE);
    let mut ring = vec![u32::MAX; 64 * 64];
    if let Some(slot) = ring_slot {
        ring[64 * slot as usize] = ids[0];
        // What must not be looked at.
        ids.clear();
        ids.push((ring[64 * slot as usize] + 1) % u32::try_from(count).unwrap_or(u32::MAX));
    }
    let mut step = StepWords::default();
    let sequence = StepSequence {
        rows,
        position: 0,
        table: &[0],
        ring: &[],
    };
    step.fill(&ids, ring_slot, &[sequence], 0);
    let extents = Extents {
        rows: step.extents().rows,
        ..Extents::default()
    };
    let (step, ring) = (
        gpu.storage_of("step", step.words()),
        gpu.storage_of("ring", &ring),
    );
    Ok(Case {
        kernel: "embed".to_owned(),
        description: format!("[{rows}, {width}] of {parts:?}, ring {ring_slot:?}, seed {seed}"),
        extents,
        rows,
        width,
        want,
        before: None,
        max_nmse: 1e-12,
        record: Box::new(move |recorder, y| {
            let op = Embed {
                step: &step,
                ring: &ring,
                table: &table,
                scale: SCALE,
                y,
            };
            embed(recorder, &op)
        }),
    })
}
