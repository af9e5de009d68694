//! Products by `i32x4.dot_i16x8_s`: two lanes a row, which are added at the end.

use std::arch::wasm32::{
    i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i32x4_add, i32x4_dot_i16x8, i32x4_shuffle,
    i32x4_splat, i64x2_splat, u64x2, v128,
};

use super::Dot;
use crate::backend::cpu::packed::ROWS;
use crate::backend::cpu::rounded;

pub(super) struct Words;

impl Dot for Words {
    type Integers = rounded::Words;
    /// Of the first two rows and of the others, as 16-bit numbers.
    type Codes = [v128; 2];
    type Sum = [v128; 2];

    #[inline]
    fn chain(_: usize) -> usize {
        8
    }

    #[inline]
    fn codes(bytes: v128) -> Self::Codes {
        [
            i16x8_extend_low_i8x16(bytes),
            i16x8_extend_high_i8x16(bytes),
        ]
    }

    /// Each half is loaded and widened in one instruction.
    #[inline]
    fn signed_codes(bytes: &[u8; 16]) -> Self::Codes {
        let half = |i: usize| {
            let half: &[u8; 8] = &bytes.as_chunks().0[i];
            i16x8_extend_low_i8x16(u64x2(u64::from_le_bytes(*half), 0))
        };
        [half(0), half(1)]
    }

    #[inline]
    fn zero() -> Self::Sum {
        [i32x4_splat(0); 2]
    }

    #[inline]
    fn add<const SIGNED: bool>(
        sum: Self::Sum,
        codes: Self::Codes,
        x: &Self::Integers,
        quad: usize,
    ) -> Self::Sum {
        let x: [u8; 8] = bytemuck::cast(x.as_chunks::<4>().0[quad]);
        let x = i64x2_splat(i64::from_le_bytes(x));
        [
            i32x4_add(sum[0], i32x4_dot_i16x8(codes[0], x)),
            i32x4_add(sum[1], i32x4_dot_i16x8(codes[1], x)),
        ]
    }

    #[inline]
    fn total([a, b]: Self::Sum) -> v128 {
        i32x4_add(
            i32x4_shuffle::<0, 2, 4, 6>(a, b),
            i32x4_shuffle::<1, 3, 5, 7>(a, b),
        )
    }

    #[inline]
    fn unshift(total: v128, _: &[[i16; ROWS]], _: usize) -> v128 {
        total
    }
}
