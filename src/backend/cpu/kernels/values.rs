//! Packed weights in f32, for products that round nothing.

use std::arch::wasm32::{
    f32x4_add, f32x4_convert_i32x4, f32x4_mul, i8x16_splat, i8x16_sub, i16x8_extend_high_i8x16,
    i16x8_extend_low_i8x16, i32x4_extend_high_i16x8, i32x4_extend_low_i16x8, v128,
};

use super::Kernel;
use super::simd::{Factors, codes as unsigned_codes, low, splat_lanes};
use crate::backend::cpu::packed::{Group, ROWS, Values};

/// A group, in the order in which it is packed.
pub(super) fn dequantize<K: Kernel>(group: Group<'_>, out: &mut [Values]) {
    let factors = Factors::<K>::new(group).part(0, out.len());
    let blocks = bytemuck::cast_slice::<u8, K::Codes>(group.codes);
    for (b, (block, out)) in blocks.iter().zip(out).enumerate() {
        let [scales, mins] = factors.of(b).map(|both| both.map(splat_lanes));
        let parts = block.as_ref();
        for (quad, out) in out.iter_mut().enumerate() {
            let half = quad / 4 * (K::HALVES - 1);
            let codes = codes::<K>(parts, quad);
            *out = values::<K>(codes, scales[half], mins[half]);
        }
    }
}

/// Codes of a quad as signed bytes, less their zero.
#[inline]
fn codes<K: Kernel>(parts: &[[u8; 16]], quad: usize) -> v128 {
    let codes = unsigned_codes::<K>(parts, quad, low::<K>());
    if K::ZERO == 0 {
        codes
    } else {
        i8x16_sub(codes, i8x16_splat(K::ZERO.to_le_bytes()[0].cast_signed()))
    }
}

/// Four columns of four rows, each row with its own factors.
#[inline]
fn values<K: Kernel>(codes: v128, scales: [v128; ROWS], mins: [v128; ROWS]) -> [[f32; 4]; ROWS] {
    let pairs = [
        i16x8_extend_low_i8x16(codes),
        i16x8_extend_high_i8x16(codes),
    ];
    let rows = [
        i32x4_extend_low_i16x8(pairs[0]),
        i32x4_extend_high_i16x8(pairs[0]),
        i32x4_extend_low_i16x8(pairs[1]),
        i32x4_extend_high_i16x8(pairs[1]),
    ];
    std::array::from_fn(|row| {
        let value = f32x4_mul(f32x4_convert_i32x4(rows[row]), scales[row]);
        let value = if K::MINS {
            f32x4_add(value, mins[row])
        } else {
            value
        };
        bytemuck::cast(value)
    })
}
