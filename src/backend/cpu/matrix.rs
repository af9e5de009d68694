//! Weight matrices as row slabs of quantized blocks, multiplied in the precision asked for.
//!
//! Long because packed slabs and candle's lie side by side in one matrix, in both precisions.

use std::borrow::Cow;
use std::ops::Range;

use candle_core::CpuStorage;
use candle_core::quantized::{GgmlDType, QuantizedType};

use super::kernels::{self, Product};
use super::packed::{Layout, Packed, ROWS};
use super::rounded::{Digits, Form, Rounded};
use super::team::Team;
use super::{Precision, math};
use crate::backend::BackendError;
use crate::backend::memory::{allocate, bytes_of};
use crate::backend::parts::RowRange;
use crate::gguf::GgmlType;
use crate::quant;

/// Buffers of products.
#[derive(Debug)]
pub(super) struct ProductScratch {
    /// Activations in the forms that kernels take.
    rounded: [Rounded; Form::ALL.len()],
    /// Products of one slab by candle's kernels.
    slab: Vec<f32>,
}

impl ProductScratch {
    pub(super) fn empty() -> Self {
        Self {
            rounded: Form::ALL.map(|form| Rounded::new(form, kernels::method())),
            slab: Vec::new(),
        }
    }

    /// Buffers for products of up to `rows` rows with these matrices.
    pub(super) fn new(
        matrices: &[Matrix],
        precision: Precision,
        rows: usize,
    ) -> Result<Self, BackendError> {
        let mut scratch = Self::empty();
        let slab = matrices
            .iter()
            .map(|matrix| matrix.scratch_len(precision, rows));
        scratch.slab = allocate("activations", &[slab.max().unwrap_or(0)], f32::NAN)?;
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
        let rounded: u64 = self.rounded.iter().map(Rounded::bytes).sum();
        rounded + bytes_of(&self.slab)
    }
}

/// Rows dequantized at a time in the exact product: small enough that they stay in the
/// nearest cache while all rows of activations pass over them.
const GROUP: usize = 8;

/// Elements of the buffer through which products of several rows go; see
/// [`Matrix::scratch_len`].
const SCRATCH: usize = 1 << 20;

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
    /// Of a type that has kernels.
    Packed(Packed),
    /// Of a type that candle reads.
    Candle(Box<dyn QuantizedType>),
    /// Of another type, as they are in the file.
    File(Vec<u8>),
}

impl Blocks {
    /// Copies the blocks of a file.
    fn copy(ggml_type: GgmlType, bytes: &[u8]) -> Result<Self, BackendError> {
        let out_of_memory = || BackendError::OutOfMemory {
            what: "weights",
            bytes: bytes.len() as u64,
        };
        let Some(candle_type) = candle_type(ggml_type) else {
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.len())
                .map_err(|_| out_of_memory())?;
            copy.extend_from_slice(bytes);
            return Ok(Self::File(copy));
        };
        probe(bytes.len()).map_err(|()| out_of_memory())?;
        if bytes.as_ptr().align_offset(align_of::<u64>()) == 0 {
            return Ok(Self::Candle(candle_type.from_data(Cow::Borrowed(bytes))));
        }
        // `from_data` asserts alignment; bytes that lack it take one more copy.
        let len = bytes.len().div_ceil(size_of::<u64>());
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(len).map_err(|_| out_of_memory())?;
        words.resize(len, 0);
        let copy = &mut bytemuck::cast_slice_mut(&mut words)[..bytes.len()];
        copy.copy_from_slice(bytes);
        Ok(Self::Candle(candle_type.from_data(Cow::Borrowed(copy))))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.bytes(),
            Self::Candle(blocks) => blocks.storage_size_in_bytes(),
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
        let blocks = match Layout::of_rows(ggml_type, self.cols) {
            Some(layout) => {
                let shape = [rows.count, self.cols];
                let kind = (ggml_type, layout, kernels::method());
                Blocks::Packed(Packed::new(kind, shape, bytes)?)
            }
            None => Blocks::copy(ggml_type, bytes)?,
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

    /// Elements of scratch that [`Matrix::product`] needs for `m` rows.
    pub(super) fn scratch_len(&self, precision: Precision, m: usize) -> usize {
        let slabs = self.slabs.iter().filter(|slab| slab.int8(precision));
        slabs
            .map(|slab| match slab.tile(m) {
                1 => 0,
                tile => tile * slab.rows,
            })
            .max()
            .unwrap_or(0)
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
        if let Blocks::Packed(packed) = &slab.blocks {
            packed.read_row(row - slab.first_row, out);
            math::scale(out, scale);
            return Ok(());
        }
        let values = slab.dequantize(&[index(row - slab.first_row)?], self.cols)?;
        for (out, value) in out.iter_mut().zip(values) {
            *out = value * scale;
        }
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
                    rounded.fill(x, self.cols);
                }
            }
        }
        for slab in &self.slabs {
            if let Blocks::Packed(packed) = &slab.blocks {
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
            } else if slab.int8(precision) {
                slab.product_int8(x, out, [m, self.cols, n], &mut scratch.slab)?;
            } else {
                slab.product_exact(x, out, [m, self.cols, n])?;
            }
        }
        Ok(())
    }
}

impl Slab {
    /// Whether products of this slab go through int8 activations.
    fn int8(&self, precision: Precision) -> bool {
        if precision == Precision::Exact || matches!(self.blocks, Blocks::Packed(_)) {
            return false;
        }
        match self.ggml_type {
            // candle would round activations to the type of these weights.
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => false,
            // candle has no product of these.
            GgmlType::IQ4_NL | GgmlType::MXFP4 => false,
            _ => true,
        }
    }

    /// Rows of activations taken at a time, so that their products fit the scratch.
    fn tile(&self, m: usize) -> usize {
        m.min((SCRATCH / self.rows).max(1))
    }

    /// Columns `first_row .. first_row + rows` of `out [m, n]`, by candle's kernels.
    fn product_int8(
        &self,
        x: &[f32],
        out: &mut [f32],
        [m, k, n]: [usize; 3],
        scratch: &mut [f32],
    ) -> Result<(), BackendError> {
        let Blocks::Candle(blocks) = &self.blocks else {
            return Err(CANDLE);
        };
        let columns = self.first_row..self.first_row + self.rows;
        let tile = self.tile(m);
        for (x, out) in x.chunks(tile * k).zip(out.chunks_mut(tile * n)) {
            let rows = x.len() / k;
            if rows == 1 {
                let target = &mut out[columns.clone()];
                blocks
                    .matmul_t((1, k, self.rows), x, target)
                    .map_err(|_| CANDLE)?;
                continue;
            }
            let products = &mut scratch[..rows * self.rows];
            blocks
                .matmul_t((rows, k, self.rows), x, products)
                .map_err(|_| CANDLE)?;
            for (products, out) in products.chunks(self.rows).zip(out.chunks_mut(n)) {
                out[columns.clone()].copy_from_slice(products);
            }
        }
        Ok(())
    }

    /// The same columns with f32 activations and weights; each group of weights is
    /// dequantized once for all rows.
    fn product_exact(
        &self,
        x: &[f32],
        out: &mut [f32],
        [_, k, n]: [usize; 3],
    ) -> Result<(), BackendError> {
        let mut ids = [0_u32; GROUP];
        for first in (0..self.rows).step_by(GROUP) {
            let count = GROUP.min(self.rows - first);
            for (i, id) in ids[..count].iter_mut().enumerate() {
                *id = index(first + i)?;
            }
            let weights = self.dequantize(&ids[..count], k)?;
            let column = self.first_row + first;
            for (x, out) in x.chunks(k).zip(out.chunks_mut(n)) {
                let out = &mut out[column..column + count];
                for (rows, out) in weights.chunks(4 * k).zip(out.chunks_mut(4)) {
                    multiply(rows, x, out);
                }
            }
        }
        Ok(())
    }

    /// Rows of this slab in f32, `[ids, K]`.
    fn dequantize(&self, ids: &[u32], cols: usize) -> Result<Vec<f32>, BackendError> {
        match &self.blocks {
            // What is packed is read by groups.
            Blocks::Packed(_) => Err(CANDLE),
            Blocks::Candle(blocks) => match blocks.embedding(ids, self.rows, cols) {
                Ok(CpuStorage::F32(values)) => Ok(values),
                _ => Err(CANDLE),
            },
            Blocks::File(bytes) => self.dequantize_file(bytes, ids, cols),
        }
    }

    /// The same by the plain dequantizer, for types that candle does not read.
    fn dequantize_file(
        &self,
        bytes: &[u8],
        ids: &[u32],
        cols: usize,
    ) -> Result<Vec<f32>, BackendError> {
        let row_bytes = bytes.len() / self.rows;
        let mut values = vec![0.0; ids.len() * cols];
        for (&id, values) in ids.iter().zip(values.chunks_mut(cols)) {
            let first = id as usize * row_bytes;
            let row = bytes.get(first..first + row_bytes).ok_or(NO_ROW)?;
            quant::dequantize(self.ggml_type, row, values).map_err(|_| NO_ROW)?;
        }
        Ok(values)
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
        let share = groups.div_ceil(team.size());
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

/// Products of up to four rows `w [out, K]` with `x [K]`.
fn multiply(w: &[f32], x: &[f32], out: &mut [f32]) {
    let k = x.len();
    if let Ok(out) = <&mut [f32; 4]>::try_from(&mut *out) {
        let row = |i: usize| &w[i * k..(i + 1) * k];
        *out = math::dot_4([row(0), row(1), row(2), row(3)], x);
        return;
    }
    for (row, out) in w.chunks(k).zip(out) {
        *out = math::dot(row, x);
    }
}

/// Whether an allocation of this size succeeds. candle's copy aborts where memory is short;
/// this finds out first, and the allocator hands the same bytes out again.
fn probe(bytes: usize) -> Result<(), ()> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| ())
}

fn index(row: usize) -> Result<u32, BackendError> {
    u32::try_from(row).map_err(|_| NO_ROW)
}

const NO_ROW: BackendError = BackendError::Usage {
    op: "matrix",
    why: "a row beyond the matrix",
};
const CANDLE: BackendError = BackendError::Usage {
    op: "matrix",
    why: "the quantized product refused its shapes",
};

/// The name that candle gives to a type, if it reads it.
pub(crate) fn candle_type(ggml_type: GgmlType) -> Option<GgmlDType> {
    let candle_type = match ggml_type {
        GgmlType::F32 => GgmlDType::F32,
        GgmlType::F16 => GgmlDType::F16,
        GgmlType::BF16 => GgmlDType::BF16,
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q8_1 => GgmlDType::Q8_1,
        GgmlType::Q2_K => GgmlDType::Q2K,
        GgmlType::Q3_K => GgmlDType::Q3K,
        GgmlType::Q4_K => GgmlDType::Q4K,
        GgmlType::Q5_K => GgmlDType::Q5K,
        GgmlType::Q6_K => GgmlDType::Q6K,
        GgmlType::Q8_K => GgmlDType::Q8K,
        GgmlType::IQ4_NL | GgmlType::MXFP4 => return None,
    };
    Some(candle_type)
}
