//! Products to be timed: a matrix of the device's own, without a twin.

use super::case::random_blocks;
use super::{Epilogue, Linear, Rows, Variant, linear, scratch_bytes};
use crate::backend::webgpu::check::Seeded;
use crate::backend::webgpu::planes::{Allocations, Matrix};
use crate::backend::webgpu::recorder::{Extents, Recorder};
use crate::backend::webgpu::step::{StepSequence, StepWords};
use crate::backend::webgpu::{Gpu, GpuError, row_stride};
use crate::gguf::GgmlType;

/// Rows of random weights; a matrix repeats them.
const RANDOM_ROWS: usize = 32;

/// Buffers of one product.
#[derive(Debug)]
pub struct Timed {
    matrix: Matrix,
    step: wgpu::Buffer,
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    scratch: wgpu::Buffer,
    extents: Extents,
}

impl Timed {
    /// `t` rows of activations, by `n` rows of weights of a type, `cols` long.
    ///
    /// # Errors
    /// The device's.
    pub fn new(gpu: &Gpu, ty: GgmlType, [t, cols, n]: [usize; 3]) -> Result<Self, GpuError> {
        let mut seeded = Seeded::new(7);
        let mut matrix = Matrix::new(cols, &[n]);
        let blocks = random_blocks(ty, RANDOM_ROWS.min(n) * cols, &mut seeded);
        let row_bytes = blocks.len() / RANDOM_ROWS.min(n);
        let mut allocations = Allocations::default();
        for first_row in (0..n).step_by(RANDOM_ROWS) {
            let rows = RANDOM_ROWS.min(n - first_row);
            let write = (ty, first_row, &blocks[..rows * row_bytes]);
            matrix.write(gpu, &mut allocations, 0, write)?;
        }
        let mut step = StepWords::default();
        let sequence = StepSequence {
            rows: t,
            position: 0,
            table: &[0],
            ring: &[],
        };
        step.fill(&vec![0; t], None, &[sequence], 0);
        Ok(Self {
            matrix,
            extents: step.extents(),
            step: gpu.storage_of("step", step.words()),
            x: gpu.storage_of("x", &seeded.values(t * row_stride(cols))),
            y: gpu.storage("y", 4 * (t * row_stride(n)) as u64),
            scratch: gpu.storage("scratch", scratch_bytes(t, cols)),
        })
    }

    /// What grids depend on.
    #[must_use]
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// Records the products in a variant.
    ///
    /// # Errors
    /// As [`linear`].
    pub fn record(&self, recorder: &mut Recorder<'_>, variant: Variant) -> Result<(), GpuError> {
        let op = Linear {
            step: &self.step,
            x: &self.x,
            matrix: &self.matrix,
            norm: None,
            rows: Rows::All,
            epilogue: Epilogue::Store {
                column: 0,
                bias: None,
            },
            y: &self.y,
            y_width: self.matrix.rows(),
            scratch: &self.scratch,
        };
        linear(recorder, variant, &op)
    }
}
