//! Blocks of a file as codes, scales and minima.

use half::f16;

use super::packed::COLS;
use crate::gguf::GgmlType;
use crate::quant::{
    self, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0,
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
        factors: [scale, min].map(|bits| f16::from_le_bytes(bits).to_f32()),
        steps: [[0; 2]; 2],
    }
}

fn nibbles(qs: &[u8; 16]) -> [u8; COLS] {
    let mut codes = [0; COLS];
    let (low, high) = codes.split_at_mut(16);
    for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
        [*low, *high] = [q & 15, q >> 4];
    }
    codes
}

fn five_bits(qh: [u8; 4], qs: &[u8; 16]) -> [u8; COLS] {
    let mut codes = nibbles(qs);
    let high = u32::from_le_bytes(qh);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= u8::from(high >> i & 1 == 1) << 4;
    }
    codes
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
