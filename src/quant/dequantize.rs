use bytemuck::Pod;
use half::{bf16, f16};
use thiserror::Error;

use super::block::{
    BlockIQ4NL, BlockMXFP4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, BlockQ8K,
};
use crate::gguf::GgmlType;

/// Why blocks could not be turned into floats.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantError {
    /// The bytes are no whole number of blocks.
    #[error("{bytes} bytes are no whole number of {ty} blocks of {block_bytes} bytes")]
    PartialBlock {
        /// Type of the blocks.
        ty: GgmlType,
        /// Bytes given.
        bytes: usize,
        /// Bytes of one block.
        block_bytes: u64,
    },
    /// The output does not have one place for each element.
    #[error("the output has {found} elements, {expected} are in the {ty} blocks")]
    Length {
        /// Type of the blocks.
        ty: GgmlType,
        /// Elements in the blocks.
        expected: u64,
        /// Elements of the output.
        found: usize,
    },
}

/// Turns blocks of type `ty` into floats: `out` gets every element, in order.
///
/// All arithmetic is f32, in the order of ggml's reference code, so that results are equal to
/// it bit by bit.
///
/// # Errors
/// [`QuantError`] where `blocks` is no whole number of blocks or `out` has another length.
///
/// # Source
/// `dequantize_row_*` of `ggml-quants.c`, <https://github.com/ggml-org/ggml>.
pub fn dequantize(ty: GgmlType, blocks: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let bytes = blocks.len() as u64;
    if !bytes.is_multiple_of(ty.block_bytes()) {
        let block_bytes = ty.block_bytes();
        return Err(QuantError::PartialBlock {
            ty,
            bytes: blocks.len(),
            block_bytes,
        });
    }
    let expected = (bytes / ty.block_bytes()).saturating_mul(ty.block_elements());
    if expected != out.len() as u64 {
        return Err(QuantError::Length {
            ty,
            expected,
            found: out.len(),
        });
    }
    match ty {
        GgmlType::F32 => each(blocks, out, |b: &[u8; 4], y: &mut [f32; 1]| {
            *y = [f32::from_le_bytes(*b)];
        }),
        GgmlType::F16 => each(blocks, out, |b: &[u8; 2], y: &mut [f32; 1]| {
            *y = [scale(*b)]
        }),
        GgmlType::BF16 => each(blocks, out, |b: &[u8; 2], y: &mut [f32; 1]| {
            *y = [bf16::from_le_bytes(*b).to_f32()];
        }),
        GgmlType::Q4_0 => each(blocks, out, q4_0),
        GgmlType::Q4_1 => each(blocks, out, q4_1),
        GgmlType::Q5_0 => each(blocks, out, q5_0),
        GgmlType::Q5_1 => each(blocks, out, q5_1),
        GgmlType::Q8_0 => each(blocks, out, |b: &BlockQ8_0, y| q8(scale(b.d), &b.qs, y)),
        GgmlType::Q8_1 => each(blocks, out, |b: &BlockQ8_1, y| q8(scale(b.d), &b.qs, y)),
        GgmlType::Q2_K => each(blocks, out, q2_k),
        GgmlType::Q3_K => each(blocks, out, q3_k),
        GgmlType::Q4_K => each(blocks, out, q4_k),
        GgmlType::Q5_K => each(blocks, out, q5_k),
        GgmlType::Q6_K => each(blocks, out, q6_k),
        GgmlType::Q8_K => each(blocks, out, |b: &BlockQ8K, y| {
            q8(f32::from_le_bytes(b.d), &b.qs, y);
        }),
        GgmlType::IQ4_NL => each(blocks, out, |b: &BlockIQ4NL, y| {
            codebook(scale(b.d), &IQ4_NL_VALUES, b.qs, y);
        }),
        GgmlType::MXFP4 => each(blocks, out, |b: &BlockMXFP4, y| {
            codebook(half_scale(b.e), &MXFP4_VALUES, b.qs, y);
        }),
    }
    Ok(())
}

/// Runs `one` over every block and its elements; the lengths were checked.
fn each<B: Pod, const N: usize>(blocks: &[u8], out: &mut [f32], one: fn(&B, &mut [f32; N])) {
    let (elements, _) = out.as_chunks_mut::<N>();
    for (block, y) in bytemuck::cast_slice::<u8, B>(blocks).iter().zip(elements) {
        one(block, y);
    }
}

fn scale(bits: [u8; 2]) -> f32 {
    f16::from_le_bytes(bits).to_f32()
}

fn q4_0(block: &BlockQ4_0, y: &mut [f32; 32]) {
    let d = scale(block.d);
    for (i, &q) in block.qs.iter().enumerate() {
        y[i] = (f32::from(q & 15) - 8.0) * d;
        y[i + 16] = (f32::from(q >> 4) - 8.0) * d;
    }
}

fn q4_1(block: &BlockQ4_1, y: &mut [f32; 32]) {
    let (d, m) = (scale(block.d), scale(block.m));
    for (i, &q) in block.qs.iter().enumerate() {
        y[i] = f32::from(q & 15) * d + m;
        y[i + 16] = f32::from(q >> 4) * d + m;
    }
}

/// The 5-bit codes of elements `i` and `i + 16`.
fn codes5(qh: [u8; 4], qs: [u8; 16], i: usize) -> [f32; 2] {
    let high = u32::from_le_bytes(qh);
    let fifth = |bit: usize| if high >> bit & 1 == 1 { 16 } else { 0 };
    [
        f32::from(qs[i] & 15 | fifth(i)),
        f32::from(qs[i] >> 4 | fifth(i + 16)),
    ]
}

fn q5_0(block: &BlockQ5_0, y: &mut [f32; 32]) {
    let d = scale(block.d);
    for i in 0..16 {
        let [low, high] = codes5(block.qh, block.qs, i);
        y[i] = (low - 16.0) * d;
        y[i + 16] = (high - 16.0) * d;
    }
}

fn q5_1(block: &BlockQ5_1, y: &mut [f32; 32]) {
    let (d, m) = (scale(block.d), scale(block.m));
    for i in 0..16 {
        let [low, high] = codes5(block.qh, block.qs, i);
        y[i] = low * d + m;
        y[i + 16] = high * d + m;
    }
}

fn q8<const N: usize>(d: f32, qs: &[i8; N], y: &mut [f32; N]) {
    for (y, &q) in y.iter_mut().zip(qs) {
        *y = f32::from(q) * d;
    }
}

/// Element `128 h + 32 s + i` is bits `2 s` and up of byte `32 h + i`; each 16 elements share a
/// scale.
fn q2_k(block: &BlockQ2K, y: &mut [f32; 256]) {
    let (d, dmin) = (scale(block.d), scale(block.dmin));
    for (e, y) in y.iter_mut().enumerate() {
        let group = block.scales[e / 16];
        let q = block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
        *y = d * f32::from(group & 15) * f32::from(q) - dmin * f32::from(group >> 4);
    }
}

/// Low bits as in Q2_K; the third bit of element `32 k + i` is bit `k` of `hmask[i]`, and means
/// that nothing is subtracted.
fn q3_k(block: &BlockQ3K, y: &mut [f32; 256]) {
    let d = scale(block.d);
    for (e, y) in y.iter_mut().enumerate() {
        let dl = d * f32::from(scale_q3_k(&block.scales, e / 16));
        let q = block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
        let third = block.hmask[e % 32] >> (e / 32) & 1;
        *y = dl * (f32::from(q) - if third == 1 { 0.0 } else { 4.0 });
    }
}

/// The signed 6-bit scale of group `group` of 16.
pub(super) fn scale_q3_k(scales: &[u8; 12], group: usize) -> i8 {
    // Four low bits of the 16 scales in 8 bytes, then four times two high bits a byte.
    let low = scales[group % 8] >> (group / 8 * 4) & 15;
    let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    (low | high << 4).cast_signed() - 32
}

/// The 6-bit scale and minimum of group `j` of 8: the first four groups have their own bytes,
/// the others share the top bits of those and the nibbles of the last four bytes.
pub(super) fn scale_min_k4(scales: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        (scales[j] & 63, scales[j + 4] & 63)
    } else {
        let shared = scales[j + 4];
        (
            shared & 15 | scales[j - 4] >> 6 << 4,
            shared >> 4 | scales[j] >> 6 << 4,
        )
    }
}

/// Groups come in pairs over 32 bytes: the low halves are one group, the high halves the next.
fn q4_k(block: &BlockQ4K, y: &mut [f32; 256]) {
    let (d, dmin) = (scale(block.d), scale(block.dmin));
    for (e, y) in y.iter_mut().enumerate() {
        let group = e / 32;
        let (scale, min) = scale_min_k4(&block.scales, group);
        let q = block.qs[group / 2 * 32 + e % 32] >> (group % 2 * 4) & 15;
        *y = d * f32::from(scale) * f32::from(q) - dmin * f32::from(min);
    }
}

/// As Q4_K; the fifth bit of element `i` of group `j` is bit `j` of `qh[i]`.
fn q5_k(block: &BlockQ5K, y: &mut [f32; 256]) {
    let (d, dmin) = (scale(block.d), scale(block.dmin));
    for (e, y) in y.iter_mut().enumerate() {
        let group = e / 32;
        let (scale, min) = scale_min_k4(&block.scales, group);
        let low = block.qs[group / 2 * 32 + e % 32] >> (group % 2 * 4) & 15;
        let fifth = block.qh[e % 32] >> group & 1;
        *y = d * f32::from(scale) * f32::from(low | fifth << 4) - dmin * f32::from(min);
    }
}

/// In each half of 128, quarter `k` takes its low bits from byte `32 (k % 2) + i` of 64, low
/// nibble for the first two quarters, and its high bits from bits `2 k` of `qh[i]`.
fn q6_k(block: &BlockQ6K, y: &mut [f32; 256]) {
    let d = scale(block.d);
    for (e, y) in y.iter_mut().enumerate() {
        let (half, quarter, i) = (e / 128, e % 128 / 32, e % 32);
        let low = block.ql[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        let high = block.qh[half * 32 + i] >> (quarter * 2) & 3;
        *y = d * f32::from(block.scales[e / 16]) * (f32::from(low | high << 4) - 32.0);
    }
}

/// What the codes of IQ4_NL mean: `kvalues_iq4nl` of ggml.
pub(crate) const IQ4_NL_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice what the codes of MXFP4 mean, so that they are whole numbers: `kvalues_mxfp4` of ggml,
/// in which the code of -0 is 0. Source of the format: OCP Microscaling Formats 1.0, section 5.3.
pub(crate) const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn codebook(d: f32, values: &[i8; 16], qs: [u8; 16], y: &mut [f32; 32]) {
    let value = |code: u8| f32::from(values[usize::from(code)]) * d;
    for (i, &q) in qs.iter().enumerate() {
        y[i] = value(q & 15);
        y[i + 16] = value(q >> 4);
    }
}

/// `2^(e - 128)`: half of what the E8M0 scale `e` means, because [`MXFP4_VALUES`] are doubled.
/// As in ggml, 255 is the next power of two rather than a NaN.
pub(crate) fn half_scale(e: u8) -> f32 {
    let bits = match e {
        // Below the smallest normal number, 2^-126, the exponent is a bit of the mantissa.
        0 | 1 => 0x0020_0000 << e,
        _ => u32::from(e - 1) << 23,
    };
    f32::from_bits(bits)
}
