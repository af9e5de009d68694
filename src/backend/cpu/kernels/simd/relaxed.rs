//! Products by the relaxed dot products, one lane a row.
//!
//! Both take signed bytes and numbers below 128, for which they are exact everywhere. Processors
//! with an instruction for four bytes have the one of [`Quads`] in a single instruction; those
//! without add up pairs first, in 16 bits, and then [`Pairs`] is the faster: it leaves them in
//! 16 bits as long as they fit.

use std::arch::wasm32::{
    i8x16_splat, i16x8_add, i16x8_relaxed_dot_i8x16_i7x16, i16x8_splat, i32x4, i32x4_add,
    i32x4_extadd_pairwise_i16x8, i32x4_extract_lane, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_shl,
    i32x4_splat, i32x4_sub, v128,
};
use std::hint::black_box;
use std::marker::PhantomData;

use super::{Dot, load};
use crate::backend::cpu::kernels::Method;
use crate::backend::cpu::packed::ROWS;
use crate::backend::cpu::rounded::{Bytes, Halves, Integers, Shifted};

/// Which of the two dot products is the faster: where 127 x 255 twice does not fit, pairs are
/// summed in 16 bits. Only what is known of the instruction is used elsewhere.
#[target_feature(enable = "relaxed-simd")]
pub(in super::super) fn method() -> Method {
    let [a, b] = black_box([i8x16_splat(127), i8x16_splat(-1)]);
    let sum = i32x4_relaxed_dot_i8x16_i7x16_add(a, b, i32x4_splat(0));
    if i32x4_extract_lane::<0>(sum) == 2 * i32::from(i16::MAX) {
        Method::Pairs
    } else {
        Method::Quads
    }
}

/// Activations in blocks of bytes: one, or two of which the first counts 128 times.
pub(super) trait Planes: Integers {
    const COUNT: usize;
    fn plane(&self, plane: usize) -> &Bytes;
}

impl Planes for Bytes {
    const COUNT: usize = 1;

    #[inline]
    fn plane(&self, _: usize) -> &Bytes {
        self
    }
}

impl Planes for Halves {
    const COUNT: usize = 2;

    #[inline]
    fn plane(&self, plane: usize) -> &Bytes {
        &self.0[plane]
    }
}

impl Planes for Shifted {
    const COUNT: usize = 2;

    #[inline]
    fn plane(&self, plane: usize) -> &Bytes {
        &self.0[plane]
    }
}

/// Four activations, once for each of four rows.
#[inline]
fn splat(x: &Bytes, quad: usize) -> v128 {
    let x = x.as_chunks::<4>().0[quad].map(i8::cast_unsigned);
    i32x4_splat(i32::from_le_bytes(x))
}

/// By `i16x8.relaxed_dot_i8x16_i7x16_s`.
pub(super) struct Pairs<I>(PhantomData<I>);

impl<I: Planes> Dot for Pairs<I> {
    type Integers = I;
    type Codes = v128;
    type Sum = [v128; 2];

    /// A pair is at most twice a code times 127.
    #[inline]
    fn chain(high: usize) -> usize {
        8 >> high
    }

    #[inline]
    fn codes(bytes: v128) -> v128 {
        bytes
    }

    #[inline]
    fn signed_codes(bytes: &[u8; 16]) -> v128 {
        load(bytes)
    }

    #[inline]
    fn zero() -> Self::Sum {
        [i16x8_splat(0); 2]
    }

    #[inline]
    #[target_feature(enable = "relaxed-simd")]
    fn add<const SIGNED: bool>(mut sums: Self::Sum, codes: v128, x: &I, quad: usize) -> Self::Sum {
        for (plane, sum) in sums.iter_mut().enumerate().take(I::COUNT) {
            let products = i16x8_relaxed_dot_i8x16_i7x16(splat(x.plane(plane), quad), codes);
            *sum = i16x8_add(*sum, products);
        }
        sums
    }

    #[inline]
    fn total([first, second]: Self::Sum) -> v128 {
        let first = i32x4_extadd_pairwise_i16x8(first);
        if I::COUNT == 1 {
            return first;
        }
        i32x4_add(i32x4_shl(first, 7), i32x4_extadd_pairwise_i16x8(second))
    }

    #[inline]
    fn unshift(total: v128, _: &[[i16; ROWS]], _: usize) -> v128 {
        total
    }
}

/// By `i32x4.relaxed_dot_i8x16_i7x16_add_s`.
pub(super) struct Quads<I>(PhantomData<I>);

impl<I: Planes> Dot for Quads<I> {
    type Integers = I;
    type Codes = v128;
    type Sum = [v128; 2];

    #[inline]
    fn chain(_: usize) -> usize {
        8
    }

    #[inline]
    fn codes(bytes: v128) -> v128 {
        bytes
    }

    #[inline]
    fn signed_codes(bytes: &[u8; 16]) -> v128 {
        load(bytes)
    }

    #[inline]
    fn zero() -> Self::Sum {
        [i32x4_splat(0); 2]
    }

    #[inline]
    #[target_feature(enable = "relaxed-simd")]
    fn add<const SIGNED: bool>(mut sums: Self::Sum, codes: v128, x: &I, quad: usize) -> Self::Sum {
        for (plane, sum) in sums.iter_mut().enumerate().take(I::COUNT) {
            let x = splat(x.plane(plane), quad);
            let [signed, small] = if SIGNED { [codes, x] } else { [x, codes] };
            *sum = i32x4_relaxed_dot_i8x16_i7x16_add(signed, small, *sum);
        }
        sums
    }

    #[inline]
    fn total([first, second]: Self::Sum) -> v128 {
        if I::COUNT == 1 {
            return first;
        }
        i32x4_add(i32x4_shl(first, 7), second)
    }

    /// The shift has added itself times the sums of the signed codes.
    #[inline]
    fn unshift(total: v128, sums: &[[i16; ROWS]], b: usize) -> v128 {
        let [a, b, c, d] = sums[b];
        let sums = i32x4(a.into(), b.into(), c.into(), d.into());
        i32x4_sub(total, i32x4_shl(sums, 13))
    }
}
