//! Blocks of a file as codes, scales and minima.

use bytemuck::Pod;

use super::packed::COLS;
use crate::gguf::GgmlType;
use crate::quant::{
    self, BlockIQ4NL, BlockMXFP4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, BlockQ8K,
};

/// What a block of one row says, whatever its type.
pub(super) struct Unpacked {
    pub(super) codes: [u8; COLS],
    /// Of the scale and of the minimum.
    pub(super) factors: [f32; 2],
    /// What those of the two halves are multiplied by, where blocks share factors.
    pub(super) steps: [[i8; 2]; 2],
}

/// The blocks of 32 columns of one row.
pub(super) fn unpack(ggml_type: GgmlType, bytes: &[u8], out: &mut Vec<Unpacked>) {
    match ggml_type {
        GgmlType::Q8_0 => each(bytes, |b: &BlockQ8_0| out.push(signed(&b.qs, float(b.d)))),
        GgmlType::Q8_1 => each(bytes, |b: &BlockQ8_1| out.push(signed(&b.qs, float(b.d)))),
        GgmlType::Q8_K => each(bytes, |b: &BlockQ8K| {
            let blocks = b.qs.as_chunks::<COLS>().0.iter();
            out.extend(blocks.map(|codes| signed(codes, f32::from_le_bytes(b.d))));
        }),
        GgmlType::Q2_K => each(bytes, |b: &BlockQ2K| super_block(out, quant::codes_q2_k(b))),
        GgmlType::Q3_K => each(bytes, |b: &BlockQ3K| super_block(out, quant::codes_q3_k(b))),
        GgmlType::Q4_K => each(bytes, |b: &BlockQ4K| super_block(out, quant::codes_q4_k(b))),
        GgmlType::Q5_K => each(bytes, |b: &BlockQ5K| super_block(out, quant::codes_q5_k(b))),
        GgmlType::Q6_K => each(bytes, |b: &BlockQ6K| super_block(out, quant::codes_q6_k(b))),
        // Others are packed as they lie in the file.
        _ => {}
    }
}

fn signed(codes: &[i8; COLS], scale: f32) -> Unpacked {
    Unpacked {
        codes: codes.map(i8::cast_unsigned),
        factors: [scale, 0.0],
        steps: [[0; 2]; 2],
    }
}

fn each<B: Pod>(bytes: &[u8], one: impl FnMut(&B)) {
    bytemuck::cast_slice::<u8, B>(bytes).iter().for_each(one);
}

/// A float of 16 bits, without a branch.
#[inline]
pub(super) fn float(bits: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bits));
    // Scaled by 2^112, a small exponent of 5 bits is one of 8, subnormal numbers included.
    let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let beyond = if bits & 0x7c00 == 0x7c00 {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(scaled.to_bits() | beyond | (bits & 0x8000) << 16)
}

/// A block of 32 codes whose lower four bits lie in 16 bytes, column `i` beside `i + 16`.
pub(super) trait Nibbles: Pod {
    fn nibbles(&self) -> &[u8; 16];
    /// Of column `i` in bit `i`.
    fn fifth_bits(&self) -> u32;
    /// The scale and the minimum, 0 where there is none.
    fn factors(&self) -> [f32; 2];
}

macro_rules! nibbles {
    ($($block:ident: $high:expr, $factors:expr;)*) => {
        $(impl Nibbles for $block {
            fn nibbles(&self) -> &[u8; 16] {
                &self.qs
            }

            fn fifth_bits(&self) -> u32 {
                let high: fn(&Self) -> [u8; 4] = $high;
                u32::from_le_bytes(high(self))
            }

            fn factors(&self) -> [f32; 2] {
                let factors: fn(&Self) -> [f32; 2] = $factors;
                factors(self)
            }
        })*
    };
}

nibbles! {
    BlockQ4_0: |_| [0; 4], |b| [float(b.d), 0.0];
    BlockQ4_1: |_| [0; 4], |b| [b.d, b.m].map(float);
    BlockQ5_0: |b| b.qh, |b| [float(b.d), 0.0];
    BlockQ5_1: |b| b.qh, |b| [b.d, b.m].map(float);
    BlockIQ4NL: |_| [0; 4], |b| [float(b.d), 0.0];
    BlockMXFP4: |_| [0; 4], |b| [quant::half_scale(b.e), 0.0];
}

/// The blocks of a K-quant's.
fn super_block(out: &mut Vec<Unpacked>, block: quant::SuperBlock) {
    let (codes, _) = block.codes.as_chunks::<COLS>();
    for (b, codes) in codes.iter().enumerate() {
        let pair = |values: &[i8; 16]| [values[2 * b], values[2 * b + 1]];
        out.push(Unpacked {
            codes: *codes,
            factors: [block.scale, block.min],
            steps: [pair(&block.scales), pair(&block.mins)],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_is_read_as_the_library_reads_it() {
        for bits in 0..=u16::MAX {
            let bytes = bits.to_le_bytes();
            let want = half::f16::from_le_bytes(bytes).to_f32();
            let found = float(bytes);
            assert!(
                found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan(),
                "{bits:#x}: {found}, not {want}"
            );
        }
    }
}
