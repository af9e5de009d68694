//! Codes, scales and minima of K-quants, for those who repack them.

use half::f16;

use super::dequantize::{scale_min_k4, scale_q3_k};
use super::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};

/// 256 elements: `codes[e] * scales[e / 16] + mins[e / 16]`, less what the type subtracts from
/// each code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperBlock {
    pub(crate) codes: [u8; 256],
    pub(crate) scales: [f32; 16],
    pub(crate) mins: [f32; 16],
}

fn float(bits: [u8; 2]) -> f32 {
    f16::from_le_bytes(bits).to_f32()
}

/// Codes 0 to 3.
pub(crate) fn codes_q2_k(block: &BlockQ2K) -> SuperBlock {
    let (d, dmin) = (float(block.d), float(block.dmin));
    SuperBlock {
        codes: std::array::from_fn(|e| {
            block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3
        }),
        scales: block.scales.map(|scale| d * f32::from(scale & 15)),
        mins: block.scales.map(|scale| -(dmin * f32::from(scale >> 4))),
    }
}

/// Codes 0 to 7, 4 too large.
pub(crate) fn codes_q3_k(block: &BlockQ3K) -> SuperBlock {
    let d = float(block.d);
    SuperBlock {
        codes: std::array::from_fn(|e| {
            let low = block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
            low | (block.hmask[e % 32] >> (e / 32) & 1) << 2
        }),
        scales: std::array::from_fn(|group| d * scale_q3_k(&block.scales, group)),
        mins: [0.0; 16],
    }
}

/// Codes 0 to 15.
pub(crate) fn codes_q4_k(block: &BlockQ4K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales, block.d, block.dmin);
    SuperBlock {
        codes: std::array::from_fn(|e| {
            block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15
        }),
        scales,
        mins,
    }
}

/// Codes 0 to 31.
pub(crate) fn codes_q5_k(block: &BlockQ5K) -> SuperBlock {
    let (scales, mins) = pairs(&block.scales, block.d, block.dmin);
    SuperBlock {
        codes: std::array::from_fn(|e| {
            let low = block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
            low | (block.qh[e % 32] >> (e / 32) & 1) << 4
        }),
        scales,
        mins,
    }
}

/// Codes 0 to 63, 32 too large.
pub(crate) fn codes_q6_k(block: &BlockQ6K) -> SuperBlock {
    let d = float(block.d);
    SuperBlock {
        codes: std::array::from_fn(|e| {
            let (half, quarter, i) = (e / 128, e % 128 / 32, e % 32);
            let low = block.ql[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
            low | (block.qh[half * 32 + i] >> (quarter * 2) & 3) << 4
        }),
        scales: block.scales.map(|scale| d * f32::from(scale)),
        mins: [0.0; 16],
    }
}

/// Scales and minima of groups of 32, each twice.
fn pairs(scales: &[u8; 12], d: [u8; 2], dmin: [u8; 2]) -> ([f32; 16], [f32; 16]) {
    let (d, dmin) = (float(d), float(dmin));
    let of = |group: usize| scale_min_k4(scales, group / 2);
    (
        std::array::from_fn(|group| d * of(group).0),
        std::array::from_fn(|group| -(dmin * of(group).1)),
    )
}
