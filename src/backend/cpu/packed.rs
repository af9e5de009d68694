//! Weights as the kernels read them: groups of four rows, so that four lanes of a register are
//! four rows and one load of an activation serves them all.
//!
//! A group is taken in blocks of 32 columns. Eight *quads* of four columns make a block; 16
//! bytes hold one quad of the four rows, row after row. Where codes have 4 bits, a byte's low
//! half belongs to quad `i`, its high half to quad `i + 4`. Further bits of a code lie in planes
//! behind: one bit a quad where codes have 5 bits, two where they have 6.

use half::f16;

use crate::backend::BackendError;
use crate::gguf::GgmlType;
use crate::quant::{
    self, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K,
    BlockQ6K, BlockQ8_0,
};

/// Rows of a group.
pub(super) const ROWS: usize = 4;

/// Columns of a block.
pub(super) const COLS: usize = 32;

/// How the elements of a type are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Unsigned codes below 64: an element is `(code - zero) * scale + min`.
    Codes {
        /// Bits beyond four.
        high: usize,
        /// Scales of a block of 32 columns, 1 or 2.
        halves: usize,
        /// Whether there are minima.
        mins: bool,
        /// What is subtracted from each code.
        zero: u8,
    },
    /// Signed bytes: an element is `code * scale`.
    Signed,
}

impl Layout {
    /// The layout of a type, if it has kernels.
    pub(super) fn of(ggml_type: GgmlType) -> Option<Self> {
        let codes = |high, halves, mins, zero| Self::Codes {
            high,
            halves,
            mins,
            zero,
        };
        Some(match ggml_type {
            GgmlType::Q4_0 => codes(0, 1, false, 8),
            GgmlType::Q4_1 | GgmlType::Q4_K => codes(0, 1, true, 0),
            GgmlType::Q5_0 => codes(1, 1, false, 16),
            GgmlType::Q5_1 | GgmlType::Q5_K => codes(1, 1, true, 0),
            GgmlType::Q6_K => codes(2, 2, false, 32),
            GgmlType::Q2_K => codes(0, 2, true, 0),
            GgmlType::Q3_K => codes(0, 2, false, 4),
            GgmlType::Q8_0 => Self::Signed,
            _ => return None,
        })
    }

    /// Bytes of the codes of a block of four rows.
    pub(super) fn code_bytes(self) -> usize {
        match self {
            Self::Codes { high, .. } => 64 + 16 * high,
            Self::Signed => 128,
        }
    }

    /// Scales, then minima, of a block of four rows.
    pub(super) fn factors(self) -> usize {
        match self {
            Self::Codes { halves, mins, .. } => ROWS * halves * (1 + usize::from(mins)),
            Self::Signed => ROWS,
        }
    }
}

/// Rows of one type, packed.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) layout: Layout,
    pub(super) rows: usize,
    /// Blocks of a row.
    pub(super) blocks: usize,
    codes: Vec<u8>,
    factors: Vec<f32>,
    /// Of signed codes: minus 8192 times the sum of each row's codes, `[group, block, 4]`.
    offsets: Vec<i32>,
}

/// One group of four rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    /// [`Layout::code_bytes`] a block.
    pub(super) codes: &'a [u8],
    /// [`Layout::factors`] a block.
    pub(super) factors: &'a [f32],
    /// Four a block where codes are signed.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        expect(dead_code, reason = "the kernels of wasm32 read it")
    )]
    pub(super) offsets: &'a [i32],
}

/// What a block of one row says, whatever its type.
struct Unpacked {
    codes: [u8; COLS],
    scales: [f32; 2],
    mins: [f32; 2],
}

impl Packed {
    /// Packs whole rows of GGUF blocks; the bytes are whole rows of `cols` elements.
    pub(super) fn new(
        ggml_type: GgmlType,
        layout: Layout,
        [rows, cols]: [usize; 2],
        bytes: &[u8],
    ) -> Result<Self, BackendError> {
        let blocks = cols / COLS;
        let groups = rows.div_ceil(ROWS);
        let offsets = if layout == Layout::Signed { ROWS } else { 0 };
        let mut packed = Self {
            layout,
            rows,
            blocks,
            codes: zeros(&[groups, blocks, layout.code_bytes()])?,
            factors: zeros(&[groups, blocks, layout.factors()])?,
            offsets: zeros(&[groups, blocks, offsets])?,
        };
        let row_bytes = bytes.len() / rows;
        let mut unpacked = Vec::new();
        for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            unpacked.clear();
            unpack(ggml_type, bytes, &mut unpacked);
            packed.put(row, &unpacked);
        }
        Ok(packed)
    }

    /// Groups, the last of which may have rows of zeros.
    pub(super) fn groups(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    pub(super) fn group(&self, group: usize) -> Group<'_> {
        let part = |len: usize| group * self.blocks * len..(group + 1) * self.blocks * len;
        let offsets = if self.offsets.is_empty() { 0 } else { ROWS };
        Group {
            codes: &self.codes[part(self.layout.code_bytes())],
            factors: &self.factors[part(self.layout.factors())],
            offsets: &self.offsets[part(offsets)],
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.codes.len() + 4 * (self.factors.len() + self.offsets.len())
    }

    /// Writes the blocks of one row.
    fn put(&mut self, row: usize, unpacked: &[Unpacked]) {
        let (group, lane) = (row / ROWS, row % ROWS);
        let (code_bytes, factors) = (self.layout.code_bytes(), self.layout.factors());
        for (b, block) in unpacked.iter().enumerate() {
            let at = group * self.blocks + b;
            let codes = &mut self.codes[at * code_bytes..][..code_bytes];
            let place = &mut self.factors[at * factors..][..factors];
            place[lane] = block.scales[0];
            match self.layout {
                Layout::Codes {
                    high, halves, mins, ..
                } => {
                    put_codes(high, lane, &block.codes, codes);
                    if halves == 2 {
                        place[ROWS + lane] = block.scales[1];
                    }
                    if mins {
                        for (half, min) in block.mins[..halves].iter().enumerate() {
                            place[ROWS * (halves + half) + lane] = *min;
                        }
                    }
                }
                Layout::Signed => {
                    let mut sum = 0;
                    for (col, &code) in block.codes.iter().enumerate() {
                        codes[col / 4 * 16 + lane * 4 + col % 4] = code;
                        sum += i32::from(code.cast_signed());
                    }
                    self.offsets[at * ROWS + lane] = -8192 * sum;
                }
            }
        }
    }

    /// One row in f32, exactly as the plain dequantizer gives it.
    pub(super) fn read_row(&self, row: usize, out: &mut [f32]) {
        let group = self.group(row / ROWS);
        let lane = row % ROWS;
        let mut values = [[0.0; ROWS]; COLS];
        for (b, out) in out.chunks_exact_mut(COLS).enumerate() {
            self.dequantize_block(group, b, &mut values);
            for (out, value) in out.iter_mut().zip(&values) {
                *out = value[lane];
            }
        }
    }

    /// A group in f32, `[K, 4]`.
    pub(super) fn dequantize(&self, group: usize, out: &mut [[f32; ROWS]]) {
        let group = self.group(group);
        let (blocks, _) = out.as_chunks_mut::<COLS>();
        for (b, out) in blocks.iter_mut().enumerate() {
            self.dequantize_block(group, b, out);
        }
    }

    fn dequantize_block(&self, group: Group<'_>, b: usize, out: &mut [[f32; ROWS]; COLS]) {
        let code_bytes = self.layout.code_bytes();
        let codes = &group.codes[b * code_bytes..][..code_bytes];
        let factors = self.layout.factors();
        let factors = &group.factors[b * factors..][..factors];
        let mut scales = [[0.0_f32; ROWS]; 2];
        let mut minima = [[0.0_f32; ROWS]; 2];
        let mut wide = [0_i16; 128];
        match self.layout {
            Layout::Codes {
                high,
                halves,
                mins,
                zero,
            } => {
                widen_codes(high, codes, &mut wide);
                wide.iter_mut().for_each(|code| *code -= i16::from(zero));
                for half in 0..2 {
                    let at = ROWS * half.min(halves - 1);
                    scales[half].copy_from_slice(&factors[at..at + ROWS]);
                    if mins {
                        let at = at + ROWS * halves;
                        minima[half].copy_from_slice(&factors[at..at + ROWS]);
                    }
                }
            }
            Layout::Signed => {
                widen_signed(codes, &mut wide);
                scales.fill([factors[0], factors[1], factors[2], factors[3]]);
            }
        }
        for (col, out) in out.iter_mut().enumerate() {
            for (lane, out) in out.iter_mut().enumerate() {
                let code = f32::from(wide[col / 4 * 16 + lane * 4 + col % 4]);
                *out = code * scales[col / 16][lane] + minima[col / 16][lane];
            }
        }
    }
}

/// Codes of one row into a block of four.
fn put_codes(high: usize, lane: usize, codes: &[u8; COLS], out: &mut [u8]) {
    for (col, &code) in codes.iter().enumerate() {
        let (quad, byte) = (col / 4, lane * 4 + col % 4);
        out[quad % 4 * 16 + byte] |= (code & 15) << (quad / 4 * 4);
        match high {
            1 => out[64 + byte] |= (code >> 4 & 1) << quad,
            2 => out[64 + quad / 4 * 16 + byte] |= (code >> 4 & 3) << (quad % 4 * 2),
            _ => {}
        }
    }
}

/// Codes of a block, `[8 quads, 4 rows, 4 columns]`.
pub(super) fn widen_codes(high: usize, codes: &[u8], out: &mut [i16; 128]) {
    let (low, planes) = codes.split_at(64);
    for (i, &byte) in low.iter().enumerate() {
        out[i] = i16::from(byte & 15);
        out[i + 64] = i16::from(byte >> 4);
    }
    for (quad, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        match high {
            1 => {
                for (out, plane) in out.iter_mut().zip(planes) {
                    *out |= i16::from(plane >> quad & 1) << 4;
                }
            }
            2 => {
                for (out, plane) in out.iter_mut().zip(&planes[quad / 4 * 16..]) {
                    *out |= i16::from(plane >> (quad % 4 * 2) & 3) << 4;
                }
            }
            _ => {}
        }
    }
}

/// Signed codes of a block.
pub(super) fn widen_signed(codes: &[u8], out: &mut [i16; 128]) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = i16::from(code.cast_signed());
    }
}

/// The blocks of 32 columns of one row.
fn unpack(ggml_type: GgmlType, bytes: &[u8], out: &mut Vec<Unpacked>) {
    match ggml_type {
        GgmlType::Q4_0 => each(bytes, |b: &BlockQ4_0| {
            out.push(plain(b.d, [0; 2], nibbles(&b.qs)));
        }),
        GgmlType::Q4_1 => each(bytes, |b: &BlockQ4_1| {
            out.push(plain(b.d, b.m, nibbles(&b.qs)));
        }),
        GgmlType::Q5_0 => each(bytes, |b: &BlockQ5_0| {
            out.push(plain(b.d, [0; 2], five_bits(b.qh, &b.qs)));
        }),
        GgmlType::Q5_1 => each(bytes, |b: &BlockQ5_1| {
            out.push(plain(b.d, b.m, five_bits(b.qh, &b.qs)));
        }),
        GgmlType::Q8_0 => each(bytes, |b: &BlockQ8_0| {
            out.push(plain(b.d, [0; 2], b.qs.map(i8::cast_unsigned)));
        }),
        GgmlType::Q2_K => each(bytes, |b: &BlockQ2K| super_block(out, quant::codes_q2_k(b))),
        GgmlType::Q3_K => each(bytes, |b: &BlockQ3K| super_block(out, quant::codes_q3_k(b))),
        GgmlType::Q4_K => each(bytes, |b: &BlockQ4K| super_block(out, quant::codes_q4_k(b))),
        GgmlType::Q5_K => each(bytes, |b: &BlockQ5K| super_block(out, quant::codes_q5_k(b))),
        GgmlType::Q6_K => each(bytes, |b: &BlockQ6K| super_block(out, quant::codes_q6_k(b))),
        // Layout::of names no other.
        _ => {}
    }
}

fn each<B: bytemuck::Pod>(bytes: &[u8], one: impl FnMut(&B)) {
    bytemuck::cast_slice::<u8, B>(bytes).iter().for_each(one);
}

fn plain(scale: [u8; 2], min: [u8; 2], codes: [u8; COLS]) -> Unpacked {
    Unpacked {
        codes,
        scales: [f16::from_le_bytes(scale).to_f32(); 2],
        mins: [f16::from_le_bytes(min).to_f32(); 2],
    }
}

fn nibbles(qs: &[u8; 16]) -> [u8; COLS] {
    std::array::from_fn(|i| qs[i % 16] >> (i / 16 * 4) & 15)
}

fn five_bits(qh: [u8; 4], qs: &[u8; 16]) -> [u8; COLS] {
    let mut codes = nibbles(qs);
    let high = u32::from_le_bytes(qh);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= u8::from(high >> i & 1 == 1) << 4;
    }
    codes
}

/// Eight blocks of a K-quant.
fn super_block(out: &mut Vec<Unpacked>, block: quant::SuperBlock) {
    let (codes, _) = block.codes.as_chunks::<COLS>();
    for (b, codes) in codes.iter().enumerate() {
        let pair = |values: &[f32; 16]| [values[2 * b], values[2 * b + 1]];
        out.push(Unpacked {
            codes: *codes,
            scales: pair(&block.scales),
            mins: pair(&block.mins),
        });
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
