//! The kernels of wasm32. They need no unsafe code: loads are casts of byte arrays, which
//! compile to one instruction, and a module whose instructions an engine lacks does not start.

use std::arch::wasm32::{
    f32x4_add, f32x4_convert_i32x4, f32x4_mul, f32x4_splat, i16x8_extend_low_i8x16, i32x4_add,
    i32x4_extend_low_i16x8, i32x4_shuffle, i32x4_splat, i32x4_sub, u8x16_splat, u16x8_shl,
    u16x8_shr, v128, v128_and, v128_or,
};

use super::{Kernel, ROWS, Row, TOKENS, Work};
use crate::backend::cpu::packed::{Group, WIDE};

#[cfg(not(feature = "relaxed-simd"))]
use baseline as level;
#[cfg(feature = "relaxed-simd")]
use relaxed as level;

/// Integer sums of four rows by `i32x4.relaxed_dot_i8x16_i7x16_add_s`.
#[cfg(feature = "relaxed-simd")]
mod relaxed {
    use std::arch::wasm32::{
        i32x4, i32x4_add, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_shl, i32x4_splat, i32x4_sub,
        v128,
    };

    use super::super::Row;
    use super::Group;

    /// A block of activations in one or two parts.
    pub(super) type Block<const P: usize> = [[u8; 32]; P];

    #[inline]
    pub(super) fn block<'a, const P: usize>(x: &Row<'a>, b: usize) -> &'a Block<P> {
        &x.bytes.as_chunks().0[b]
    }

    /// Codes as the dot product takes them.
    pub(super) type Codes = v128;

    #[inline]
    pub(super) fn codes(bytes: v128) -> Codes {
        bytes
    }

    /// A running sum for each part of the activations.
    pub(super) type Sum<const P: usize> = [v128; P];

    #[inline]
    pub(super) fn zero<const P: usize>() -> Sum<P> {
        [i32x4(0, 0, 0, 0); P]
    }

    /// Codes below 128 times signed bytes of activations, or signed codes times activations
    /// below 128.
    #[inline]
    #[target_feature(enable = "relaxed-simd")]
    pub(super) fn add<const SIGNED: bool, const P: usize>(
        mut sum: Sum<P>,
        codes: Codes,
        x: &Block<P>,
        quad: usize,
    ) -> Sum<P> {
        for (sum, x) in sum.iter_mut().zip(x) {
            let x = i32x4_splat(i32::from_le_bytes(x.as_chunks::<4>().0[quad]));
            let [signed, small] = if SIGNED { [codes, x] } else { [x, codes] };
            *sum = i32x4_relaxed_dot_i8x16_i7x16_add(signed, small, *sum);
        }
        sum
    }

    /// The first part of activations counts 128 times.
    #[inline]
    pub(super) fn total<const P: usize>(sum: Sum<P>) -> v128 {
        let parts = sum.into_iter();
        parts.fold(i32x4(0, 0, 0, 0), |total, part| {
            i32x4_add(i32x4_shl(total, 7), part)
        })
    }

    /// The total less what the shift by 8192 has added: that times the sums of the signed codes.
    #[inline]
    pub(super) fn unshift(total: v128, group: Group<'_>, b: usize) -> v128 {
        let [a, b, c, d] = group.sums.as_chunks::<4>().0[b];
        let sums = i32x4(a.into(), b.into(), c.into(), d.into());
        i32x4_sub(total, i32x4_shl(sums, 13))
    }
}

/// The same by `i32x4.dot_i16x8_s`: two lanes a row, which are added at the end.
#[cfg(not(feature = "relaxed-simd"))]
mod baseline {
    use std::arch::wasm32::{
        i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i32x4, i32x4_add, i32x4_dot_i16x8,
        i32x4_shuffle, i64x2_splat, v128,
    };

    use super::super::Row;
    use super::Group;

    /// Sixteen bits hold all activations.
    pub(super) type Block<const P: usize> = [i16; 32];

    #[inline]
    pub(super) fn block<'a, const P: usize>(x: &Row<'a>, b: usize) -> &'a Block<P> {
        &x.wide[b]
    }

    /// Codes of the first two rows and of the others, as 16-bit numbers.
    pub(super) type Codes = [v128; 2];

    #[inline]
    pub(super) fn codes(bytes: v128) -> Codes {
        [
            i16x8_extend_low_i8x16(bytes),
            i16x8_extend_high_i8x16(bytes),
        ]
    }

    /// A running sum of the first two rows and of the others.
    pub(super) type Sum<const P: usize> = [v128; 2];

    #[inline]
    pub(super) fn zero<const P: usize>() -> Sum<P> {
        [i32x4(0, 0, 0, 0); 2]
    }

    #[inline]
    pub(super) fn add<const SIGNED: bool, const P: usize>(
        sum: Sum<P>,
        codes: Codes,
        x: &Block<P>,
        quad: usize,
    ) -> Sum<P> {
        let x: [u8; 8] = bytemuck::cast(x.as_chunks::<4>().0[quad]);
        let x = i64x2_splat(i64::from_le_bytes(x));
        [
            i32x4_add(sum[0], i32x4_dot_i16x8(codes[0], x)),
            i32x4_add(sum[1], i32x4_dot_i16x8(codes[1], x)),
        ]
    }

    #[inline]
    pub(super) fn total<const P: usize>([a, b]: Sum<P>) -> v128 {
        i32x4_add(
            i32x4_shuffle::<0, 2, 4, 6>(a, b),
            i32x4_shuffle::<1, 3, 5, 7>(a, b),
        )
    }

    /// Activations are not shifted here.
    #[inline]
    pub(super) fn unshift(total: v128, _: Group<'_>, _: usize) -> v128 {
        total
    }
}

#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
pub(super) fn run<K: Kernel>(work: &Work<'_>, out: &mut [f32]) {
    match work.product.x.form().planes() {
        1 => run_parts::<K, 1>(work, out),
        _ => run_parts::<K, 2>(work, out),
    }
}

/// [`run`] for activations in `P` parts.
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn run_parts<K: Kernel, const P: usize>(work: &Work<'_>, out: &mut [f32]) {
    let [groups, tokens] = work.ranges.clone();
    for group in groups {
        let weights = work.product.weights.group(group);
        let mut token = tokens.start;
        while token + TOKENS <= tokens.end {
            let sums = tile::<K, P, TOKENS>(weights, work.tokens(token));
            for (i, sums) in sums.into_iter().enumerate() {
                work.store((group, token + i), bytemuck::cast(sums), out);
            }
            token += TOKENS;
        }
        for token in token..tokens.end {
            let [sums] = tile::<K, P, 1>(weights, [work.product.x.row(token)]);
            work.store((group, token), bytemuck::cast(sums), out);
        }
    }
}

#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn tile<K: Kernel, const P: usize, const T: usize>(group: Group<'_>, x: [Row<'_>; T]) -> [v128; T] {
    if K::SIGNED {
        signed_tile::<P, T>(group, x)
    } else {
        code_tile::<K, P, T>(group, x)
    }
}

#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn signed_tile<const P: usize, const T: usize>(group: Group<'_>, x: [Row<'_>; T]) -> [v128; T] {
    let mut sums = [f32x4_splat(0.0); T];
    let blocks = group.codes.as_chunks::<128>().0.iter();
    let factors = group.factors.as_chunks::<ROWS>().0.iter();
    for (b, (block, factors)) in blocks.zip(factors).enumerate() {
        let quads = block.as_chunks::<16>().0;
        let now: [_; T] = std::array::from_fn(|t| level::block::<P>(&x[t], b));
        let mut totals = [level::zero::<P>(); T];
        for (quad, codes) in quads.iter().enumerate() {
            let codes = level::codes(load(codes));
            for t in 0..T {
                totals[t] = level::add::<true, P>(totals[t], codes, now[t], quad);
            }
        }
        let factors = load_f32(factors);
        for t in 0..T {
            let total = level::unshift(level::total::<P>(totals[t]), group, b);
            let factor = f32x4_mul(factors, f32x4_splat(x[t].scales[b]));
            sums[t] = f32x4_add(sums[t], f32x4_mul(f32x4_convert_i32x4(total), factor));
        }
    }
    sums
}

#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn code_tile<K: Kernel, const P: usize, const T: usize>(
    group: Group<'_>,
    x: [Row<'_>; T],
) -> [v128; T] {
    let code_bytes = 64 + 16 * K::HIGH;
    // One row has time for a second chain of sums, four have no registers for it.
    let half = usize::from(T == 1 || K::HALVES == 2);
    let mut sums = [f32x4_splat(0.0); T];
    let blocks = group.codes.chunks_exact(code_bytes);
    for (b, block) in blocks.enumerate() {
        let parts = block.as_chunks::<16>().0;
        let now: [_; T] = std::array::from_fn(|t| level::block::<P>(&x[t], b));
        let mut halves = [[level::zero::<P>(); T]; 2];
        for i in 0..4 {
            let bytes = load(&parts[i]);
            let low = v128_and(bytes, u8x16_splat(15));
            let low = level::codes(with_high::<K>(low, parts, i));
            for t in 0..T {
                halves[0][t] = level::add::<false, P>(halves[0][t], low, now[t], i);
            }
            let high = v128_and(u16x8_shr(bytes, 4), u8x16_splat(15));
            let high = level::codes(with_high::<K>(high, parts, i + 4));
            for t in 0..T {
                halves[half][t] = level::add::<false, P>(halves[half][t], high, now[t], i + 4);
            }
        }
        let factors = factors::<K>(group, b);
        for t in 0..T {
            let scale = x[t].scales[b];
            let totals = halves.map(|half| level::total::<P>(half[t]));
            sums[t] = scaled::<K>(sums[t], totals, (factors, scale), x[t].sums[b]);
        }
    }
    sums
}

/// Adds the bits beyond four of the codes of a quad.
#[inline]
pub(super) fn with_high<K: Kernel>(codes: v128, parts: &[[u8; 16]], quad: usize) -> v128 {
    let place = u32::try_from(quad).unwrap_or_default();
    let (plane, bit, mask) = match K::HIGH {
        0 => return codes,
        1 => (4, place, 0x10),
        _ => (4 + quad / 4, place % 4 * 2, 0x30),
    };
    let plane = load(&parts[plane]);
    // Bits of the neighbouring byte that the shift brings along are masked off.
    let bits = if bit <= 4 {
        u16x8_shl(plane, 4 - bit)
    } else {
        u16x8_shr(plane, bit - 4)
    };
    v128_or(codes, v128_and(bits, u8x16_splat(mask)))
}

/// Adds a block's totals times its factors.
#[inline]
fn scaled<K: Kernel>(
    mut sum: v128,
    totals: [v128; 2],
    ([scales, mins], scale): ([[v128; 2]; 2], f32),
    x_sums: [i32; 2],
) -> v128 {
    let x_sums = if K::HALVES == 1 {
        [x_sums[0] + x_sums[1], 0]
    } else {
        x_sums
    };
    let totals = if K::HALVES == 1 {
        [i32x4_add(totals[0], totals[1]), totals[1]]
    } else {
        totals
    };
    for half in 0..K::HALVES {
        let mut total = totals[half];
        if K::ZERO != 0 {
            total = i32x4_sub(total, i32x4_splat(K::ZERO * x_sums[half]));
        }
        let factor = f32x4_mul(scales[half], f32x4_splat(scale));
        sum = f32x4_add(sum, f32x4_mul(f32x4_convert_i32x4(total), factor));
    }
    if K::MINS {
        for half in 0..K::HALVES {
            let x_sum = f32x4_splat(scale * x_sums[half] as f32);
            sum = f32x4_add(sum, f32x4_mul(mins[half], x_sum));
        }
    }
    sum
}

/// [`Group::scales`], each of four rows in one register.
#[inline]
pub(super) fn factors<K: Kernel>(group: Group<'_>, b: usize) -> [[v128; 2]; 2] {
    let kinds = 1 + usize::from(K::MINS);
    let span = if K::WIDE { WIDE } else { 1 };
    let factors = &group.factors.as_chunks::<ROWS>().0[b / span * kinds..][..kinds];
    let mut found = [[f32x4_splat(0.0); 2]; 2];
    for (kind, factor) in factors.iter().enumerate() {
        let factor = load_f32(factor);
        if !K::WIDE {
            found[kind] = [factor; 2];
            continue;
        }
        let steps = &group.steps.as_chunks::<ROWS>().0[(b * kinds + kind) * K::HALVES..];
        for (found, steps) in found[kind].iter_mut().zip(&steps[..K::HALVES]) {
            let steps = i32::from_le_bytes(steps.map(i8::cast_unsigned));
            let steps = i16x8_extend_low_i8x16(i32x4_splat(steps));
            let steps = f32x4_convert_i32x4(i32x4_extend_low_i16x8(steps));
            *found = f32x4_mul(factor, steps);
        }
    }
    found
}

#[inline]
pub(super) fn load(bytes: &[u8; 16]) -> v128 {
    bytemuck::cast(*bytes)
}

#[inline]
fn load_f32(values: &[f32; ROWS]) -> v128 {
    bytemuck::cast(*values)
}

/// Each lane in all lanes of a register of its own.
#[inline]
pub(super) fn splat_lanes(lanes: v128) -> [v128; ROWS] {
    [
        i32x4_shuffle::<0, 0, 0, 0>(lanes, lanes),
        i32x4_shuffle::<1, 1, 1, 1>(lanes, lanes),
        i32x4_shuffle::<2, 2, 2, 2>(lanes, lanes),
        i32x4_shuffle::<3, 3, 3, 3>(lanes, lanes),
    ]
}
