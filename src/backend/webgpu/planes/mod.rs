//! Weights as the kernels read them: aligned planes instead of a file's packed blocks.
//!
//! A matrix `[N, K]` lies row by row, a row as `ceil(K / 32)` blocks of 32 elements; rows of
//! floats are filled up with zeros. Three planes hold a piece of a matrix:
//!
//! - *codes*, `array<vec4<u32>>`: the low bits of every element (floats: all bits);
//! - *scales*, `array<u32>`: 16-bit scales as the file has them, and the small integer scales
//!   of superblocks, so that dequantization stays exact;
//! - *high bits*, `array<u32>`: what the codes plane has no room for.
//!
//! | format | bits a weight (file) | codes | scales | high bits |
//! |---|---|---|---|---|
//! | Q4_0 | 4.5 (4.5) | 4 | `f16` d a block | – |
//! | Q4_1 | 5 (5) | 4 | `f16` d, m a block | – |
//! | Q5_0 | 5.5 (5.5) | 4 | `f16` d a block | 1 |
//! | Q5_1 | 6 (6) | 4 | `f16` d, m a block | 1 |
//! | Q8_0 | 8.5 (8.5) | 8 | `f16` d a block | – |
//! | Q2_K | 2.625 (2.625) | 2 | superblock | – |
//! | Q3_K | 3.625 (3.4375) | 2 | superblock | 1 |
//! | Q4_K | 4.625 (4.5) | 4 | superblock | – |
//! | Q5_K | 5.625 (5.5) | 4 | superblock | 1 |
//! | Q6_K | 6.625 (6.5625) | 4 | superblock | 2 |
//! | F16, BF16 | 16 (16) | 16 | – | – |
//! | F32 | 32 (32) | 32 | – | – |
//!
//! A row with an odd number of blocks has one `f16` more where only d is stored. The scales of
//! a superblock of 256 are five words: d and dmin, then two bytes for each block of 32. They are
//! scale and minimum of the block (Q4_K, Q5_K), or one byte for each 16 elements: scale and
//! minimum in its halves (Q2_K), or a signed scale (Q3_K, Q6_K).
//!
//! Order of bits in a block, where byte `b` of word `j` stands for element `4 j + b`, the
//! words of the 8 quads being `j` in `0..8`:
//!
//! - 8 bits: words 0..8, biased by 128;
//! - 4 bits: word `j % 4` holds quad `j` in its bytes' low (`j < 4`) or high halves;
//! - 2 bits: word `j / 4`, at bit `2 (j % 4)` of the bytes;
//! - 1 bit: at bit `j` of the bytes of one word.

mod matrix;
mod repack;
mod unpack;

pub use matrix::{Allocations, Matrix, Piece};
pub use repack::{Rows, repack};
pub use unpack::unpack;

use crate::gguf::GgmlType;

/// How a piece of a matrix lies in its planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    non_camel_case_types,
    missing_docs,
    reason = "named after the types of the file, explained by the module's table"
)]
pub enum PlaneFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    F16,
    BF16,
    F32,
}

impl PlaneFormat {
    /// Every format.
    pub const ALL: [Self; 13] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::F16,
        Self::BF16,
        Self::F32,
    ];

    /// The format that a file's type is repacked to. Types without planes of their own go to
    /// the smallest that holds them exactly: `Q8_1` and `IQ4_NL` are signed bytes times an
    /// `f16`, so they become `Q8_0`; every value of `MXFP4` is a `bf16`; `Q8_K` has `f32`
    /// scales and becomes `F32`.
    #[must_use]
    pub fn of(ty: GgmlType) -> Self {
        match ty {
            GgmlType::F32 | GgmlType::Q8_K => Self::F32,
            GgmlType::F16 => Self::F16,
            GgmlType::BF16 | GgmlType::MXFP4 => Self::BF16,
            GgmlType::Q4_0 => Self::Q4_0,
            GgmlType::Q4_1 => Self::Q4_1,
            GgmlType::Q5_0 => Self::Q5_0,
            GgmlType::Q5_1 => Self::Q5_1,
            GgmlType::Q8_0 | GgmlType::Q8_1 | GgmlType::IQ4_NL => Self::Q8_0,
            GgmlType::Q2_K => Self::Q2_K,
            GgmlType::Q3_K => Self::Q3_K,
            GgmlType::Q4_K => Self::Q4_K,
            GgmlType::Q5_K => Self::Q5_K,
            GgmlType::Q6_K => Self::Q6_K,
        }
    }

    /// Words of the three planes (codes, scales, high bits) of a row of `blocks` blocks of 32.
    #[must_use]
    pub fn row_words(self, blocks: usize) -> [usize; 3] {
        let (one, both, super_block) = (blocks.div_ceil(2), blocks, blocks.div_ceil(8) * 5);
        match self {
            Self::Q4_0 => [4 * blocks, one, 0],
            Self::Q4_1 => [4 * blocks, both, 0],
            Self::Q5_0 => [4 * blocks, one, blocks],
            Self::Q5_1 => [4 * blocks, both, blocks],
            Self::Q8_0 => [8 * blocks, one, 0],
            Self::Q2_K => [2 * blocks, super_block, 0],
            Self::Q3_K => [2 * blocks, super_block, blocks],
            Self::Q4_K => [4 * blocks, super_block, 0],
            Self::Q5_K => [4 * blocks, super_block, blocks],
            Self::Q6_K => [4 * blocks, super_block, 2 * blocks],
            Self::F16 | Self::BF16 => [16 * blocks, 0, 0],
            Self::F32 => [32 * blocks, 0, 0],
        }
    }

    /// Bytes of a row of `cols` elements.
    #[must_use]
    pub fn row_bytes(self, cols: usize) -> u64 {
        let words = self.row_words(cols.div_ceil(32));
        4 * words.iter().map(|&words| words as u64).sum::<u64>()
    }

    /// Bytes of what takes `bytes` in the blocks of a file.
    #[must_use]
    pub fn held_bytes(self, ty: GgmlType, bytes: u64) -> u64 {
        // Of a superblock, the longest unit that any format has.
        let elements = bytes / ty.block_bytes().max(1) * ty.block_elements();
        elements.div_ceil(256).saturating_mul(self.row_bytes(256))
    }

    /// Whether elements are small integers with scales.
    #[must_use]
    pub fn is_quantized(self) -> bool {
        !matches!(self, Self::F16 | Self::BF16 | Self::F32)
    }

    /// WGSL that reads blocks of the format.
    pub(super) fn parts(self) -> Vec<&'static str> {
        let codes = match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4_K => include_str!("codes_4.wgsl"),
            Self::Q5_0 | Self::Q5_1 | Self::Q5_K => include_str!("codes_5.wgsl"),
            Self::Q8_0 => include_str!("codes_8.wgsl"),
            Self::Q2_K => include_str!("codes_2.wgsl"),
            Self::Q3_K => include_str!("codes_3.wgsl"),
            Self::Q6_K => include_str!("codes_6.wgsl"),
            Self::F16 => return vec![include_str!("floats.wgsl"), include_str!("floats_f16.wgsl")],
            Self::BF16 => {
                return vec![
                    include_str!("floats.wgsl"),
                    include_str!("floats_bf16.wgsl"),
                ];
            }
            Self::F32 => return vec![include_str!("floats.wgsl"), include_str!("floats_f32.wgsl")],
        };
        let scales = match self {
            Self::Q4_0 | Self::Q5_0 | Self::Q8_0 => include_str!("scales_one.wgsl"),
            Self::Q4_1 | Self::Q5_1 => include_str!("scales_both.wgsl"),
            Self::Q2_K => include_str!("scales_q2_k.wgsl"),
            Self::Q3_K | Self::Q6_K => include_str!("scales_signed.wgsl"),
            _ => include_str!("scales_min.wgsl"),
        };
        let block = match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4_K => include_str!("block_nibbles.wgsl"),
            _ => include_str!("block_bytes.wgsl"),
        };
        vec![include_str!("codes.wgsl"), block, codes, scales]
    }

    /// What is subtracted from codes where a format has no minimum.
    pub(super) fn zero(self) -> f32 {
        match self {
            Self::Q4_0 => 8.0,
            Self::Q5_0 => 16.0,
            Self::Q8_0 => 128.0,
            Self::Q3_K => 4.0,
            Self::Q6_K => 32.0,
            _ => 0.0,
        }
    }
}
