//! Weights as the kernels read them: groups of four rows, so that four lanes of a register are
//! four rows and one load of an activation serves them all.
//!
//! A group is taken in blocks of 32 columns. Eight *quads* of four columns make a block; 16
//! bytes hold one quad of the four rows, row after row. Where codes have 4 bits, a byte's low
//! half belongs to quad `i`, its high half to quad `i + 4`; where they have 2, bits `2 i` belong
//! to quad `i`, and the next 16 bytes to quads `i + 4`. Further bits of a code lie in planes
//! behind: one bit a quad where codes have 3 or 5 bits, two where they have 6.
//!
//! Floats of 16 bits lie in words of 32: the low half of word `c` is column `c` of one row, the
//! high half that of the next, and four words of two rows are followed by those of the others.

use std::ops::Range;

use super::codes::{put_codes, read_floats, spread, widen_codes, widen_signed, widen_table};
use super::kernels::Method;
use super::layout::{Floats, Layout};
use super::unpack::{Nibbles, Unpacked, unpack};
use crate::backend::BackendError;
use crate::gguf::GgmlType;
use crate::quant::{BlockIQ4NL, BlockMXFP4, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1};

/// Rows of a group.
pub(super) const ROWS: usize = 4;

/// Columns of a block.
pub(super) const COLS: usize = 32;

/// Blocks of a block of a K-quant.
pub(super) const WIDE: usize = 8;

/// A block of a group in f32: by quads, rows, columns of the quad.
pub(super) type Values = [[[f32; 4]; ROWS]; 8];

/// Room for one.
pub(super) const NO_VALUES: Values = [[[0.0; 4]; ROWS]; 8];

/// Rows of one type, packed.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) layout: Layout,
    pub(super) rows: usize,
    /// Blocks of a row.
    pub(super) blocks: usize,
    codes: Vec<u8>,
    /// `[group, block / span, scale or minimum, 4]`, or singles, `[group, quad, row, column]`.
    factors: Vec<f32>,
    /// `[group, block, scale or minimum, half, 4]` where factors span blocks.
    steps: Vec<i8>,
    /// Of signed codes, where activations are shifted: the sum of each row's codes,
    /// `[group, block, 4]`.
    sums: Vec<i16>,
    /// Whether halves are neither infinite nor NaN, which takes half the work to read.
    pub(super) finite: bool,
}

/// Blocks of one group of four rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    /// [`Layout::code_bytes`] a block.
    pub(super) codes: &'a [u8],
    /// [`Layout::factors`] for each [`Layout::span`] of blocks.
    pub(super) factors: &'a [f32],
    /// [`Layout::steps`] a block.
    pub(super) steps: &'a [i8],
    /// Four a block where codes are signed and activations are shifted.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        expect(dead_code, reason = "relaxed SIMD alone shifts activations")
    )]
    pub(super) sums: &'a [i16],
}

impl Packed {
    /// Packs whole rows of GGUF blocks; the bytes are whole rows of `cols` elements.
    pub(super) fn new(
        (ggml_type, layout, method): (GgmlType, Layout, Method),
        [rows, cols]: [usize; 2],
        bytes: &[u8],
    ) -> Result<Self, BackendError> {
        let blocks = cols / COLS;
        let groups = rows.div_ceil(ROWS);
        let sums = if layout.has_sums(method) { ROWS } else { 0 };
        let mut packed = Self {
            layout,
            rows,
            blocks,
            codes: zeros(&[groups, blocks, layout.code_bytes()])?,
            factors: zeros(&[groups, blocks / layout.span(), layout.factors()])?,
            steps: zeros(&[groups, blocks, layout.steps()])?,
            sums: zeros(&[groups, blocks, sums])?,
            finite: true,
        };
        let row_bytes = bytes.len() / rows;
        let mut unpacked = Vec::new();
        for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            match ggml_type {
                GgmlType::Q4_0 => packed.put_nibbles::<BlockQ4_0>(row, bytes),
                GgmlType::Q4_1 => packed.put_nibbles::<BlockQ4_1>(row, bytes),
                GgmlType::Q5_0 => packed.put_nibbles::<BlockQ5_0>(row, bytes),
                GgmlType::Q5_1 => packed.put_nibbles::<BlockQ5_1>(row, bytes),
                GgmlType::IQ4_NL => packed.put_nibbles::<BlockIQ4NL>(row, bytes),
                GgmlType::MXFP4 => packed.put_nibbles::<BlockMXFP4>(row, bytes),
                GgmlType::F32 => packed.put_singles(row, bytes),
                GgmlType::F16 | GgmlType::BF16 => packed.put_halves(row, bytes),
                _ => {
                    unpacked.clear();
                    unpack(ggml_type, bytes, &mut unpacked);
                    packed.put(row, &unpacked);
                }
            }
        }
        Ok(packed)
    }

    /// Groups, the last of which may have rows of zeros.
    pub(super) fn groups(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    #[inline]
    pub(super) fn group(&self, group: usize) -> Group<'_> {
        self.part(group, 0..self.blocks)
    }

    /// Some blocks of a group, their first a multiple of [`WIDE`].
    #[inline]
    pub(super) fn part(&self, group: usize, blocks: Range<usize>) -> Group<'_> {
        let first = group * self.blocks + blocks.start;
        let part = |len: usize| first * len..(first + blocks.len()) * len;
        let span = self.layout.span();
        let factors = self.layout.factors();
        let spans = first / span * factors..(first + blocks.len()) / span * factors;
        let sums = if self.sums.is_empty() { 0 } else { ROWS };
        Group {
            codes: &self.codes[part(self.layout.code_bytes())],
            factors: &self.factors[spans],
            steps: &self.steps[part(self.layout.steps())],
            sums: &self.sums[part(sums)],
        }
    }

    /// All of them, one behind the other.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn all(&self) -> Group<'_> {
        Group {
            codes: &self.codes,
            factors: &self.factors,
            steps: &self.steps,
            sums: &self.sums,
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.codes.len() + self.steps.len() + 4 * self.factors.len() + 2 * self.sums.len()
    }

    /// Writes the blocks of one row, whose nibbles already lie as a group's do: a byte's low half
    /// is 16 columns before its high half.
    fn put_nibbles<B: Nibbles>(&mut self, row: usize, bytes: &[u8]) {
        let (group, lane) = (row / ROWS, row % ROWS);
        let (code_bytes, factors) = (self.layout.code_bytes(), self.layout.factors());
        let first = group * self.blocks;
        let codes = self.codes[first * code_bytes..].chunks_exact_mut(code_bytes);
        let factors = self.factors[first * factors..].chunks_exact_mut(factors);
        let blocks = bytemuck::cast_slice::<u8, B>(bytes);
        for ((block, codes), factors) in blocks.iter().zip(codes).zip(factors) {
            for (place, factor) in factors.chunks_exact_mut(ROWS).zip(block.factors()) {
                place[lane] = factor;
            }
            let words = codes.as_chunks_mut::<4>().0;
            let own = words.iter_mut().skip(lane).step_by(ROWS);
            for (place, word) in own.zip(block.nibbles().as_chunks::<4>().0) {
                *place = *word;
            }
            if let Some(place) = words.get_mut(4 * ROWS + lane) {
                *place = spread(block.fifth_bits()).to_le_bytes();
            }
        }
        if let Layout::Table(table) = self.layout {
            let sums = self.sums.get_mut(first * ROWS..).unwrap_or_default();
            for (block, sums) in blocks.iter().zip(sums.as_chunks_mut::<ROWS>().0) {
                let value = |code: u8| i16::from(table.values()[usize::from(code)]);
                let codes = block.nibbles().iter();
                sums[lane] = codes.map(|code| value(code & 15) + value(code >> 4)).sum();
            }
        }
    }

    /// Writes one row of floats of 32 bits.
    fn put_singles(&mut self, row: usize, bytes: &[u8]) {
        let quads = self.blocks * 8;
        let group = &mut self.factors.as_chunks_mut::<4>().0[row / ROWS * quads * ROWS..];
        let own = group.iter_mut().skip(row % ROWS).step_by(ROWS);
        for (place, values) in own.zip(bytes.as_chunks::<4>().0.as_chunks::<4>().0) {
            *place = values.map(f32::from_le_bytes);
        }
    }

    /// Writes one row of floats of 16 bits.
    fn put_halves(&mut self, row: usize, bytes: &[u8]) {
        let quads = self.blocks * 8;
        let pairs = self.codes.as_chunks_mut::<16>().0;
        let pairs = &mut pairs[row / ROWS * quads * 2..];
        let own = pairs.iter_mut().skip(row % ROWS / 2).step_by(2);
        let mut largest = 0;
        for (place, values) in own.zip(bytes.as_chunks::<2>().0.as_chunks::<4>().0) {
            let words = place.as_chunks_mut::<2>().0;
            for (word, value) in words.iter_mut().skip(row % 2).step_by(2).zip(values) {
                *word = *value;
                largest = largest.max(u16::from_le_bytes(*value) & 0x7fff);
            }
        }
        self.finite &= self.layout != Layout::Floats(Floats::Half) || largest < 0x7c00;
    }

    /// Writes the blocks of one row.
    fn put(&mut self, row: usize, unpacked: &[Unpacked]) {
        let (group, lane) = (row / ROWS, row % ROWS);
        let (code_bytes, factors) = (self.layout.code_bytes(), self.layout.factors());
        let (span, steps) = (self.layout.span(), self.layout.steps());
        for (b, block) in unpacked.iter().enumerate() {
            let at = group * self.blocks + b;
            let codes = &mut self.codes[at * code_bytes..][..code_bytes];
            let place = self.factors[at / span * factors..][..factors].chunks_mut(ROWS);
            for (place, factor) in place.zip(block.factors) {
                place[lane] = factor;
            }
            match self.layout {
                Layout::Codes {
                    low, high, halves, ..
                } => {
                    put_codes([low, high], lane, &block.codes, codes);
                    let place = self.steps[at * steps..][..steps].chunks_mut(ROWS * halves);
                    for (place, steps) in place.zip(block.steps) {
                        for (place, step) in place.chunks_mut(ROWS).zip(steps) {
                            place[lane] = step;
                        }
                    }
                }
                Layout::Signed => {
                    let words = codes.as_chunks_mut::<4>().0.iter_mut();
                    let words = words.skip(lane).step_by(ROWS);
                    for (word, quad) in words.zip(block.codes.as_chunks::<4>().0) {
                        *word = *quad;
                    }
                    if let Some(place) = self.sums.get_mut(at * ROWS + lane) {
                        let codes = block.codes.iter().map(|code| code.cast_signed());
                        *place = codes.map(i16::from).sum();
                    }
                }
                // Written as they lie in the file.
                Layout::Table(_) | Layout::Floats(_) => {}
            }
        }
    }

    /// One row in f32, exactly as the plain dequantizer gives it.
    pub(super) fn read_row(&self, row: usize, out: &mut [f32]) {
        let group = self.group(row / ROWS);
        let lane = row % ROWS;
        let mut values = NO_VALUES;
        for (b, out) in out.as_chunks_mut::<COLS>().0.iter_mut().enumerate() {
            self.dequantize_block(group, b, &mut values);
            for (out, quad) in out.as_chunks_mut::<4>().0.iter_mut().zip(&values) {
                *out = quad[lane];
            }
        }
    }

    /// Blocks of a group in f32, in the order in which they are packed; the plain twin of
    /// [`kernels::dequantize`](super::kernels::dequantize).
    pub(super) fn dequantize(&self, group: Group<'_>, out: &mut [Values]) {
        for (b, out) in out.iter_mut().enumerate() {
            self.dequantize_block(group, b, out);
        }
    }

    #[inline]
    fn dequantize_block(&self, group: Group<'_>, b: usize, out: &mut Values) {
        let code_bytes = self.layout.code_bytes();
        let codes = &group.codes[b * code_bytes..][..code_bytes];
        let mut wide = [0_i16; 128];
        let (halves, mins, spans, zero) = match self.layout {
            Layout::Floats(kind) => return read_floats(kind, group, b, out),
            Layout::Codes {
                low,
                high,
                halves,
                mins,
                wide: spans,
                zero,
            } => {
                widen_codes([low, high], codes, &mut wide);
                (halves, mins, spans, zero)
            }
            Layout::Table(table) => {
                widen_table(table.values(), codes, &mut wide);
                (1, false, false, 0)
            }
            Layout::Signed => {
                widen_signed(codes, &mut wide);
                (1, false, false, 0)
            }
        };
        let factors = group.scales(b, halves, mins, spans);
        let quads = wide.as_chunks::<4>().0.as_chunks::<ROWS>().0;
        for (quad, (codes, out)) in quads.iter().zip(out).enumerate() {
            let [scales, minima] = factors.map(|factor| factor[quad / 4 * (halves - 1)]);
            for lane in 0..ROWS {
                for col in 0..4 {
                    let code = f32::from(codes[lane][col].wrapping_sub(i16::from(zero)));
                    out[lane][col] = code * scales[lane];
                    // Without a minimum, not even a zero's sign is changed.
                    if mins {
                        out[lane][col] += minima[lane];
                    }
                }
            }
        }
    }
}

impl Group<'_> {
    /// Scales and minima of the halves of a block; 0 where there are none.
    #[inline(always)]
    pub(super) fn scales(
        &self,
        b: usize,
        halves: usize,
        mins: bool,
        wide: bool,
    ) -> [[[f32; ROWS]; 2]; 2] {
        let kinds = 1 + usize::from(mins);
        let span = if wide { WIDE } else { 1 };
        let factors = &self.factors.as_chunks::<ROWS>().0[b / span * kinds..][..kinds];
        let steps = self.steps.as_chunks::<ROWS>().0;
        let mut scales = [[[0.0; ROWS]; 2]; 2];
        for (kind, factor) in factors.iter().enumerate() {
            for half in 0..halves {
                scales[kind][half] = *factor;
                if wide {
                    let steps = &steps[(b * kinds + kind) * halves + half];
                    for (scale, step) in scales[kind][half].iter_mut().zip(steps) {
                        *scale *= f32::from(*step);
                    }
                }
            }
        }
        scales
    }
}

/// A vector of zeros of the product of `dims`.
fn zeros<T: bytemuck::Zeroable + Clone>(dims: &[usize]) -> Result<Vec<T>, BackendError> {
    let out_of_memory = |bytes| BackendError::OutOfMemory {
        what: "weights",
        bytes,
    };
    let len = dims
        .iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(dim))
        .ok_or_else(|| out_of_memory(u64::MAX))?;
    let mut values = Vec::new();
    values
        .try_reserve_exact(len)
        .map_err(|_| out_of_memory((len as u64).saturating_mul(size_of::<T>() as u64)))?;
    values.resize(len, T::zeroed());
    Ok(values)
}
