//! Codes, scales and minima of K-quants, for those who repack them.

use half::f16;

use super::dequantize::scale_min_k4;
use super::{BlockQ4K, BlockQ5K, BlockQ6K};

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

/// Codes 0 to 15.
pub(crate) fn codes_q4_k(block: &BlockQ4K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales);
    SuperBlock {
        codes: std::array::from_fn(|e| block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15),
        scale: float(block.d),
        min: -float(block.dmin),
        scales,
        mins,
    }
}

/// Codes 0 to 31.
pub(crate) fn codes_q5_k(block: &BlockQ5K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales);
    SuperBlock {
        codes: std::array::from_fn(|e| {
            let low = block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
            low | (block.qh[e % 32] >> (e / 32) & 1) << 4
        }),
        scale: float(block.d),
        min: -float(block.dmin),
        scales,
        mins,
    }
}

/// Codes 0 to 63, 32 too large.
pub(crate) fn codes_q6_k(block: &BlockQ6K) -> SuperBlock {
    SuperBlock {
        codes: std::array::from_fn(|e| {
            let (half, quarter, i) = (e / 128, e % 128 / 32, e % 32);
            let low = block.ql[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
            low | (block.qh[half * 32 + i] >> (quarter * 2) & 3) << 4
        }),
        scale: float(block.d),
        min: 0.0,
        scales: block.scales,
        mins: [0; 16],
    }
}

/// Scales and minima of groups of 32, below 64, each twice.
fn pairs(scales: &[u8; 12]) -> ([i8; 16], [i8; 16]) {
    let of = |group: usize| scale_min_k4(scales, group / 2);
    (
        std::array::from_fn(|group| of(group).0.cast_signed()),
        std::array::from_fn(|group| of(group).1.cast_signed()),
    )
}
