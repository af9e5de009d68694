//! Codes, scales and minima of K-quants, for those who repack them.

use half::f16;

use super::dequantize::{scale_min_k4, scale_q3_k};
use super::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};

/// 256 elements: element `e` is `code (scale scales[e / 16]) + min mins[e / 16]`, its code less
/// what the type subtracts from each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperBlock {
    pub(crate) codes: [u8; 256],
    pub(crate) scale: f32,
    pub(crate) min: f32,
    pub(crate) scales: [i8; 16],
    pub(crate) mins: [i8; 16],
}

fn float(bits: [u8; 2]) -> f32 {
    f16::from_le_bytes(bits).to_f32()
}

/// Codes 0 to 3.
pub(crate) fn codes_q2_k(block: &BlockQ2K) -> SuperBlock {
    SuperBlock {
        codes: pairs_of_bits(&block.qs),
        scale: float(block.d),
        min: -float(block.dmin),
        scales: block.scales.map(|both| (both & 15).cast_signed()),
        mins: block.scales.map(|both| (both >> 4).cast_signed()),
    }
}

/// Codes 0 to 7, 4 too large.
pub(crate) fn codes_q3_k(block: &BlockQ3K) -> SuperBlock {
    let mut codes = pairs_of_bits(&block.qs);
    for (bit, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (code, high) in codes.iter_mut().zip(&block.hmask) {
            *code |= (high >> bit & 1) << 2;
        }
    }
    SuperBlock {
        codes,
        scale: float(block.d),
        min: 0.0,
        scales: std::array::from_fn(|group| scale_q3_k(&block.scales, group)),
        mins: [0; 16],
    }
}

/// Codes 0 to 15.
pub(crate) fn codes_q4_k(block: &BlockQ4K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales);
    SuperBlock {
        codes: nibbles(&block.qs),
        scale: float(block.d),
        min: -float(block.dmin),
        scales,
        mins,
    }
}

/// Codes 0 to 31.
pub(crate) fn codes_q5_k(block: &BlockQ5K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales);
    let mut codes = nibbles(&block.qs);
    for (bit, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (code, high) in codes.iter_mut().zip(&block.qh) {
            *code |= (high >> bit & 1) << 4;
        }
    }
    SuperBlock {
        codes,
        scale: float(block.d),
        min: -float(block.dmin),
        scales,
        mins,
    }
}

/// Codes 0 to 63, 32 too large.
pub(crate) fn codes_q6_k(block: &BlockQ6K) -> SuperBlock {
    let mut codes = [0; 256];
    let low = block.ql.as_chunks::<64>().0.iter();
    let halves = low.zip(block.qh.as_chunks::<32>().0);
    for (codes, (low, high)) in codes.as_chunks_mut::<128>().0.iter_mut().zip(halves) {
        for i in 0..32 {
            codes[i] = low[i] & 15 | (high[i] & 3) << 4;
            codes[i + 32] = low[i + 32] & 15 | (high[i] >> 2 & 3) << 4;
            codes[i + 64] = low[i] >> 4 | (high[i] >> 4 & 3) << 4;
            codes[i + 96] = low[i + 32] >> 4 | high[i] >> 6 << 4;
        }
    }
    SuperBlock {
        codes,
        scale: float(block.d),
        min: 0.0,
        scales: block.scales,
        mins: [0; 16],
    }
}

/// Of each 32 bytes the lowest two bits, then the next, up to the highest.
fn pairs_of_bits(bytes: &[u8; 64]) -> [u8; 256] {
    let mut codes = [0; 256];
    let bytes = bytes.as_chunks::<32>().0;
    for (codes, bytes) in codes.as_chunks_mut::<128>().0.iter_mut().zip(bytes) {
        for (place, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, byte) in codes.iter_mut().zip(bytes) {
                *code = byte >> (2 * place) & 3;
            }
        }
    }
    codes
}

/// Of each 32 bytes the low halves, then the high ones.
fn nibbles(bytes: &[u8; 128]) -> [u8; 256] {
    let mut codes = [0; 256];
    let bytes = bytes.as_chunks::<32>().0;
    for (codes, bytes) in codes.as_chunks_mut::<64>().0.iter_mut().zip(bytes) {
        for i in 0..32 {
            codes[i] = bytes[i] & 15;
            codes[i + 32] = bytes[i] >> 4;
        }
    }
    codes
}

/// Scales and minima of groups of 32, below 64, each twice.
fn pairs(scales: &[u8; 12]) -> ([i8; 16], [i8; 16]) {
    let of = |group: usize| scale_min_k4(scales, group / 2);
    (
        std::array::from_fn(|group| of(group).0.cast_signed()),
        std::array::from_fn(|group| of(group).1.cast_signed()),
    )
}
