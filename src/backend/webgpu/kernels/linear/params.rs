//! Uniform of the products.

use super::{Epilogue, Linear, row_stride};
use crate::backend::webgpu::planes::Piece;

/// `Params` of params.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Params {
    pub(super) blocks: u32,
    pub(super) rows: u32,
    pub(super) quarter: u32,
    pub(super) half: u32,
    pub(super) x_stride: u32,
    pub(super) y_stride: u32,
    pub(super) column: u32,
    pub(super) first_row: u32,
    pub(super) scale: f32,
    pub(super) cap: f32,
    pub(super) width: f32,
    pub(super) eps: f32,
}

impl Params {
    /// For a piece of the matrix, or for what comes before the pieces.
    pub(super) fn of(op: &Linear<'_>, piece: Option<&Piece>) -> Self {
        let (first_row, rows) = piece.map_or((0, 0), |piece| (piece.first_row, piece.rows));
        let (column, scale, cap) = match op.epilogue {
            Epilogue::Store { column, .. } => (column + first_row, 1.0, 0.0),
            Epilogue::Add { scale, .. } => (first_row, scale, 0.0),
            Epilogue::Gate { .. } => (0, 1.0, 0.0),
            Epilogue::Logits { scale, soft_cap } => (first_row, scale, soft_cap.unwrap_or(0.0)),
        };
        // The rows of an invocation are n, n + quarter, n + half, n + half + quarter.
        let (quarter, half) = match op.epilogue {
            Epilogue::Gate { .. } => ((rows / 2).div_ceil(2), rows / 2),
            _ => (rows.div_ceil(4), 2 * rows.div_ceil(4)),
        };
        let cols = op.matrix.cols();
        Self {
            blocks: word(cols.div_ceil(32)),
            rows: word(rows),
            quarter: word(quarter),
            half: word(half),
            x_stride: word(row_stride(cols)),
            y_stride: word(row_stride(op.y_width)),
            column: word(column),
            first_row: word(first_row),
            scale,
            cap,
            width: cols as f32,
            eps: op.norm.map_or(0.0, |norm| norm.eps),
        }
    }
}

/// Sizes of matrices are bounded by what a buffer holds long before a word is full.
pub(super) fn word(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
