//! Weight matrices as row slabs of packed weights, multiplied in the precision asked for.

use std::ops::Range;

use super::kernels::{self, Product};
use super::layout::Layout;
use super::packed::{COLS, Packed, ROWS};
use super::rounded::{Digits, Form, Rounded};
use super::team::Team;
use super::{Precision, math};
use crate::backend::BackendError;
use crate::backend::memory::allocate;
use crate::backend::parts::RowRange;
use crate::gguf::GgmlType;
use crate::quant;

/// Buffers of products.
#[derive(Debug)]
pub(super) struct ProductScratch {
    /// Activations in the forms that kernels take.
    rounded: [Rounded; Form::ALL.len()],
}

impl ProductScratch {
    pub(super) fn empty() -> Self {
        Self {
            rounded: Form::ALL.map(|form| Rounded::new(form, kernels::method())),
        }
    }

    /// Buffers for products of up to `rows` rows with these matrices.
    pub(super) fn new(
        matrices: &[Matrix],
        precision: Precision,
        rows: usize,
    ) -> Result<Self, BackendError> {
        let mut scratch = Self::empty();
        let cols = |form| {
            let using = matrices.iter().filter(move |matrix| {
                [Digits::Few, Digits::Many]
                    .iter()
                    .any(|&digits| matrix.takes(form, digits))
            });
            using.map(Matrix::cols).max().unwrap_or(0)
        };
        if precision == Precision::Fast {
            for rounded in &mut scratch.rounded {
                rounded.reserve(rows, cols(rounded.form()))?;
            }
        }
        Ok(scratch)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.rounded.iter().map(Rounded::bytes).sum()
    }
}

/// `[N, K]`, its slabs sorted by row.
pub(super) struct Matrix {
    cols: usize,
    slabs: Vec<Slab>,
}

/// Consecutive rows of one type.
struct Slab {
    first_row: usize,
    rows: usize,
    ggml_type: GgmlType,
    blocks: Blocks,
}

/// What a slab keeps.
enum Blocks {
    Packed(Packed),
    /// Rows of floats that are no whole blocks, as they are in the file.
    File(Vec<u8>),
}

impl Blocks {
    /// Copies the bytes of a file.
    fn copy(bytes: &[u8]) -> Result<Self, BackendError> {
        let mut copy = Vec::new();
        let reserved = copy.try_reserve_exact(bytes.len());
        reserved.map_err(|_| BackendError::OutOfMemory {
            what: "weights",
            bytes: bytes.len() as u64,
        })?;
        copy.extend_from_slice(bytes);
        Ok(Self::File(copy))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.bytes(),
            Self::File(bytes) => bytes.len(),
        }
    }
}

impl Matrix {
    pub(super) fn new(cols: usize) -> Self {
        Self {
            cols,
            slabs: Vec::new(),
        }
    }

    /// Copies rows in, as they are in the file.
    pub(super) fn write(
        &mut self,
        rows: RowRange,
        ggml_type: GgmlType,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let at = self
            .slabs
            .partition_point(|slab| slab.first_row < rows.first);
        let blocks = if self.cols.is_multiple_of(COLS) {
            let kind = (ggml_type, Layout::of(ggml_type), kernels::method());
            Blocks::Packed(Packed::new(kind, [rows.count, self.cols], bytes)?)
        } else {
            Blocks::copy(bytes)?
        };
        let slab = Slab {
            first_row: rows.first,
            rows: rows.count,
            ggml_type,
            blocks,
        };
        self.slabs.insert(at, slab);
        Ok(())
    }

    /// `K`.
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.slabs
            .iter()
            .map(|slab| slab.blocks.bytes() as u64)
            .sum()
    }

    /// Whether kernels that take activations in this form multiply some of the rows.
    fn takes(&self, form: Form, digits: Digits) -> bool {
        self.slabs.iter().any(|slab| match &slab.blocks {
            Blocks::Packed(packed) => kernels::form(packed.layout, digits) == Some(form),
            _ => false,
        })
    }

    /// Row `row` in f32, exactly, times `scale`: → `out [K]`.
    pub(super) fn read_row(
        &self,
        row: usize,
        scale: f32,
        out: &mut [f32],
    ) -> Result<(), BackendError> {
        let at = self.slabs.partition_point(|slab| slab.first_row <= row);
        let slab = at
            .checked_sub(1)
            .and_then(|at| self.slabs.get(at))
            .ok_or(NO_ROW)?;
        let row = row - slab.first_row;
        match &slab.blocks {
            Blocks::Packed(packed) => packed.read_row(row, out),
            Blocks::File(bytes) => slab.read_file(bytes, row, out)?,
        }
        math::scale(out, scale);
        Ok(())
    }

    /// `y[t, n] = sum_k w[n, k] x[t, k]`: `x [m, K]` → `out [m, N]`.
    pub(super) fn product(
        &self,
        (precision, digits): (Precision, Digits),
        m: usize,
        x: &[f32],
        out: &mut [f32],
        (scratch, team): (&mut ProductScratch, &Team),
    ) -> Result<(), BackendError> {
        let n = out.len() / m;
        if precision == Precision::Fast {
            for rounded in &mut scratch.rounded {
                if self.takes(rounded.form(), digits) {
                    rounded.fill(x, self.cols, team);
                }
            }
        }
        for slab in &self.slabs {
            let packed = match &slab.blocks {
                Blocks::Packed(packed) => packed,
                Blocks::File(bytes) => {
                    slab.product_of_file(bytes, x, out, [self.cols, n])?;
                    continue;
                }
            };
            let form = kernels::form(packed.layout, digits);
            let form = form.filter(|_| precision == Precision::Fast);
            let place = (slab.first_row, n);
            match form.map(|form| &scratch.rounded[form as usize]) {
                Some(x) => {
                    let weights = packed;
                    let product = Product { weights, x };
                    share_out(packed, place, out, team, |ranges, out, stride| {
                        kernels::product(product, ranges, out, stride);
                    });
                }
                None => share_out(packed, place, out, team, |ranges, out, stride| {
                    kernels::exact_product(packed, x, ranges, out, stride);
                }),
            }
        }
        Ok(())
    }
}

impl Slab {
    /// The rows of this slab in `out [m, n]`, one after the other.
    fn product_of_file(
        &self,
        bytes: &[u8],
        x: &[f32],
        out: &mut [f32],
        [k, n]: [usize; 2],
    ) -> Result<(), BackendError> {
        let mut weights = allocate("activations", &[k], 0.0)?;
        for row in 0..self.rows {
            self.read_file(bytes, row, &mut weights)?;
            for (x, out) in x.chunks(k).zip(out.chunks_mut(n)) {
                out[self.first_row + row] = math::dot(&weights, x);
            }
        }
        Ok(())
    }

    /// One row in f32, from the bytes of a file.
    fn read_file(&self, bytes: &[u8], row: usize, out: &mut [f32]) -> Result<(), BackendError> {
        let row_bytes = bytes.len() / self.rows;
        let row = bytes.get(row * row_bytes..(row + 1) * row_bytes);
        quant::dequantize(self.ggml_type, row.ok_or(NO_ROW)?, out).map_err(|_| NO_ROW)
    }
}

/// Columns `first ..` of `out [m, n]` by kernels that are told groups and tokens, where the result
/// goes, and how far apart its rows are: one row is split by its elements, several by rows.
fn share_out(
    weights: &Packed,
    (first, n): (usize, usize),
    out: &mut [f32],
    team: &Team,
    product: impl Fn([Range<usize>; 2], &mut [f32], usize) + Sync,
) {
    let rows = weights.rows;
    let groups = weights.groups();
    let m = out.len() / n;
    if m == 1 {
        // No more parts than threads: memory is read fastest in long pieces.
        let share = groups.div_ceil(team.threads());
        let parts = out[first..first + rows]
            .chunks_mut(share * ROWS)
            .enumerate();
        let mut parts: Vec<_> = parts.collect();
        team.run(&mut parts, |(i, out)| {
            let groups = *i * share..((*i + 1) * share).min(groups);
            product([groups, 0..1], out, rows);
        });
        return;
    }
    // Whole tiles for all but the last.
    let share = m.div_ceil(team.size()).next_multiple_of(kernels::TOKENS);
    let mut parts: Vec<_> = out.chunks_mut(share * n).enumerate().collect();
    team.run(&mut parts, |(i, out)| {
        let tokens = *i * share..*i * share + out.len() / n;
        product([0..groups, tokens], &mut out[first..], n);
    });
}

const NO_ROW: BackendError = BackendError::Usage {
    op: "matrix",
    why: "a row beyond the matrix",
};
