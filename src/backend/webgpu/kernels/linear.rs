//! Products of activations with a matrix: `y[t, n] = sum_k x[t, k] w[n, k]`.

mod case;
mod params;
mod shaders;
mod timed;
mod variant;

pub use case::{Shape, case, case_in, plain, random_blocks, weights};
pub(super) use shaders::activation_part;
pub use timed::Timed;
pub use variant::Variant;

use super::super::planes::{Matrix, Piece, PlaneFormat};
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::shader::Shader;
use super::super::{GpuError, row_stride};
use super::gate::{Gate, gate};
use crate::backend::ops::Activation;
use params::Params;

/// Lanes of a workgroup: small, so that matrices of a few hundred rows occupy every core.
const WG_SIZE: u32 = 16;

/// Lanes of what is computed of the activations first: rows of most models are one workgroup.
const FIRST_WG_SIZE: u32 = 64;

/// Root-mean-square norm of the activations before the products.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Gains, `[K]`, filled up with zeros to whole blocks of 32.
    pub weight: &'a wgpu::Buffer,
    /// Added to the mean square.
    pub eps: f32,
}

/// Which rows of activations are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All `T`.
    All,
    /// Those from the step's first logit row on; the first of them is row 0 of `y`.
    Logits,
}

/// What happens to products.
#[derive(Clone, Copy, Debug)]
pub enum Epilogue<'a> {
    /// `y[t, column + n] = product + bias[n]`.
    Store {
        /// First column of `y`.
        column: usize,
        /// `[N]`.
        bias: Option<&'a wgpu::Buffer>,
    },
    /// `y[t, n] += scale * (product + bias[n])`.
    Add {
        /// Factor on what is added.
        scale: f32,
        /// `[N]`.
        bias: Option<&'a wgpu::Buffer>,
    },
    /// `y[t, f] = activation(product[f]) * product[F + f]`, where `N = 2 F`.
    Gate {
        /// Of the gate.
        activation: Activation,
        /// `[T, 2 F]`, used where gate and up are not in one piece.
        products: &'a wgpu::Buffer,
    },
    /// `y[t, n] = cap * tanh(scale * product / cap)`.
    Logits {
        /// Factor on the products.
        scale: f32,
        /// `None`: `y[t, n] = scale * product`.
        soft_cap: Option<f32>,
    },
}

/// Arguments of [`linear`].
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// `[T, K]`.
    pub x: &'a wgpu::Buffer,
    /// `w`, all of its rows written.
    pub matrix: &'a Matrix,
    /// Norm of the rows of `x`, for variants of which [`Variant::fuses_norm`] is true.
    pub norm: Option<Norm<'a>>,
    /// Rows of `x`.
    pub rows: Rows,
    /// What becomes of the products.
    pub epilogue: Epilogue<'a>,
    /// The output.
    pub y: &'a wgpu::Buffer,
    /// Elements of a row of `y`: `N` plus other columns, or `F`.
    pub y_width: usize,
    /// Room for what is computed of `x` first: [`scratch_bytes`]. Overwritten.
    pub scratch: &'a wgpu::Buffer,
}

/// Bytes that [`Linear::scratch`] needs for `rows` rows of `cols` activations.
#[must_use]
pub fn scratch_bytes(rows: usize, cols: usize) -> u64 {
    // What the fast variants make of a block: 16 words of pairs, a scale, two sums, one unused.
    80 * cols.div_ceil(32) as u64 * rows as u64
}

/// Every text of these kernels, for a look at what a compiler says of them.
#[must_use]
pub fn shaders() -> Vec<Shader> {
    shaders::all()
}

/// Whether gate and up rows come in one piece, so that a product may finish both.
fn gate_is_fused(matrix: &Matrix) -> bool {
    matrix.pieces().len() == 1
}

/// Records the products of `x` with every piece of the matrix, all in one variant.
///
/// # Errors
/// [`GpuError::Validation`] where the matrix has no rows yet, or where a norm is asked of a
/// variant that has none.
pub fn linear(
    recorder: &mut Recorder<'_>,
    variant: Variant,
    op: &Linear<'_>,
) -> Result<(), GpuError> {
    linear_by(recorder, &|_| variant, op)
}

/// [`linear`] with the variant that `variant_of` names for the format of each piece.
///
/// # Errors
/// As [`linear`].
pub fn linear_by(
    recorder: &mut Recorder<'_>,
    variant_of: &dyn Fn(PlaneFormat) -> Variant,
    op: &Linear<'_>,
) -> Result<(), GpuError> {
    if let Epilogue::Gate {
        activation,
        products,
    } = op.epilogue
        && !gate_is_fused(op.matrix)
    {
        let store = Linear {
            epilogue: Epilogue::Store {
                column: 0,
                bias: None,
            },
            y: products,
            y_width: op.matrix.rows(),
            ..*op
        };
        linear_by(recorder, variant_of, &store)?;
        let (width, y) = (op.matrix.rows() / 2, op.y);
        gate(
            recorder,
            &Gate {
                products,
                activation,
                width,
                y,
            },
        );
        return Ok(());
    }
    let pieces = op.matrix.pieces();
    if pieces.is_empty() {
        return Err(no_contents());
    }
    // Pieces of floats are multiplied exactly all the same.
    let variant_of = |piece: &Piece| match piece.format.is_quantized() {
        true => variant_of(piece.format),
        false => variant_of(piece.format).exact(),
    };
    for first in FirstStep::ALL {
        let wants = |piece: &&Piece| FirstStep::of(variant_of(piece)) == first;
        if pieces.iter().any(|piece| wants(&piece)) {
            prepare(recorder, op, first);
        }
        for piece in pieces.iter().filter(wants) {
            record_piece(recorder, variant_of(piece), op, piece)?;
        }
    }
    Ok(())
}

/// What is made of the activations before a variant multiplies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstStep {
    Nothing,
    Sums,
    Pairs,
    Bytes,
}

impl FirstStep {
    const ALL: [Self; 4] = [Self::Nothing, Self::Sums, Self::Pairs, Self::Bytes];

    fn of(variant: Variant) -> Self {
        match (variant.is_fast(), variant.needs_packed_dot()) {
            (true, true) => Self::Bytes,
            (true, false) => Self::Pairs,
            (false, _) if variant.wants_sums() => Self::Sums,
            (false, _) => Self::Nothing,
        }
    }

    fn shader(self, rows: Rows) -> Option<Shader> {
        match self {
            Self::Nothing => None,
            Self::Sums => Some(shaders::block_sums(rows, FIRST_WG_SIZE)),
            Self::Pairs => Some(shaders::quantize(false, rows, FIRST_WG_SIZE)),
            Self::Bytes => Some(shaders::quantize(true, rows, FIRST_WG_SIZE)),
        }
    }
}

fn no_contents() -> GpuError {
    GpuError::Validation {
        what: "linear".to_owned(),
        why: "a matrix without contents".to_owned(),
    }
}

/// Grid extents over rows of activations, `per_group` of `times` each.
fn row_extent(rows: Rows, times: u32, per_group: u32) -> Extent {
    match rows {
        Rows::All => Extent::Rows { times, per_group },
        Rows::Logits => Extent::LogitRows { times, per_group },
    }
}

/// Records what is computed of the activations first.
fn prepare(recorder: &mut Recorder<'_>, op: &Linear<'_>, first: FirstStep) {
    let Some(shader) = first.shader(op.rows) else {
        return;
    };
    let params = Params::of(op, None);
    recorder.dispatch(
        &shader,
        &[
            Bind::Read(op.step),
            Bind::Params(bytemuck::bytes_of(&params)),
            Bind::Read(op.x),
            Bind::Write(op.scratch),
        ],
        [
            row_extent(op.rows, params.blocks, FIRST_WG_SIZE),
            Extent::Fixed(1),
            Extent::Fixed(1),
        ],
        Cost::default(),
    );
}

fn record_piece(
    recorder: &mut Recorder<'_>,
    variant: Variant,
    op: &Linear<'_>,
    piece: &Piece,
) -> Result<(), GpuError> {
    let Some([codes, scales, high]) = piece.planes() else {
        return Err(no_contents());
    };
    if op.norm.is_some() && !variant.fuses_norm() {
        return Err(GpuError::Validation {
            what: format!("linear {variant:?}"),
            why: "this variant has no norm".to_owned(),
        });
    }
    let params = Params::of(op, Some(piece));
    let bias = match op.epilogue {
        Epilogue::Store { bias, .. } | Epilogue::Add { bias, .. } => bias,
        Epilogue::Gate { .. } | Epilogue::Logits { .. } => None,
    };
    let binds = [
        Bind::Read(op.step),
        Bind::Read(codes),
        Bind::Read(scales),
        Bind::Read(high),
        Bind::Read(op.x),
        Bind::Read(op.norm.map_or(op.scratch, |norm| norm.weight)),
        Bind::Write(op.y),
        Bind::Read(bias.unwrap_or(codes)),
        Bind::Params(bytemuck::bytes_of(&params)),
    ];
    let grid = [
        Extent::Fixed(params.quarter.div_ceil(variant.fours())),
        row_extent(op.rows, 1, variant.tokens()),
        Extent::Fixed(1),
    ];
    let cols = op.matrix.cols();
    let cost = Cost {
        weight_bytes: piece.rows as u64 * piece.format.row_bytes(cols),
        rows_a_read: variant.tokens(),
        macs: piece.rows as u64 * cols as u64,
        ..Cost::default()
    };
    let kind = shaders::Kind::of(op);
    let shader = shaders::product(variant, kind, piece.format, variant.lanes(params.blocks));
    recorder.dispatch(&shader, &binds, grid, cost);
    Ok(())
}
