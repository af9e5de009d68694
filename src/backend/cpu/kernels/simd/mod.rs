//! The kernels of wasm32. They need no unsafe code: loads are casts of byte arrays, which
//! compile to one instruction, and a module whose instructions an engine lacks does not start.
//!
//! A tile is written once, for any [`Dot`]: how integers are multiplied and summed. Everything in
//! it is inlined, and loops over quads are written out, so that sums stay in registers.

#[cfg(feature = "relaxed-simd")]
mod relaxed;
mod words;

use std::arch::wasm32::{
    f32x4_add, f32x4_convert_i32x4, f32x4_mul, f32x4_splat, i16x8_extend_low_i8x16, i32x4_add,
    i32x4_extend_high_i16x8, i32x4_extend_low_i16x8, i32x4_shuffle, i32x4_splat, i32x4_sub,
    i64x2_splat, u8x16_splat, u16x8_shl, u16x8_shr, v128, v128_and, v128_or,
};

#[cfg(feature = "relaxed-simd")]
use std::arch::wasm32::i8x16_relaxed_swizzle;
#[cfg(not(feature = "relaxed-simd"))]
use std::arch::wasm32::i8x16_swizzle;
use std::hint::black_box;

use super::{Block, Integers, Kernel, ROWS, Rows, TOKENS, Work};
use crate::backend::cpu::packed::{Group, WIDE};
use words::Words;

#[cfg(feature = "relaxed-simd")]
pub(super) use relaxed::method;

/// Integer products of four rows of codes and a row of activations, lane by lane.
trait Dot {
    /// Activations of a block.
    type Integers: Integers;
    /// Codes of a quad, prepared.
    type Codes: Copy;
    type Sum: Copy;

    /// Quads whose sum fits, of codes with so many bits beyond four.
    fn chain(high: usize) -> usize;
    fn codes(bytes: v128) -> Self::Codes;
    fn signed_codes(bytes: &[u8; 16]) -> Self::Codes;
    fn zero() -> Self::Sum;
    /// Adds products of a quad: of signed codes or of unsigned ones.
    fn add<const SIGNED: bool>(
        sum: Self::Sum,
        codes: Self::Codes,
        x: &Self::Integers,
        quad: usize,
    ) -> Self::Sum;
    /// The sums of four rows.
    fn total(sum: Self::Sum) -> v128;
    /// The total of a block of signed codes, less what a shift of the activations has added.
    fn unshift(total: v128, sums: &[[i16; ROWS]], b: usize) -> v128;
}

/// Groups that share the activations of a single row.
const GROUPS: usize = 2;

/// A block of code for each number.
macro_rules! unroll {
    ($name:ident in $($value:literal)* => $body:block) => {
        $({
            let $name: usize = $value;
            $body
        })*
    };
}

#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
pub(super) fn run<K: Kernel>(work: &Work<'_>, out: &mut [f32]) {
    #[cfg(feature = "relaxed-simd")]
    use {super::Method, relaxed::Pairs, relaxed::Quads};
    let x = work.product.x;
    match (&x.rows, x.method()) {
        (Rows::Words(x), _) => run_with::<K, Words>(work, x, out),
        #[cfg(feature = "relaxed-simd")]
        (Rows::Bytes(x), Method::Pairs) => run_with::<K, Pairs<_>>(work, x, out),
        #[cfg(feature = "relaxed-simd")]
        (Rows::Halves(x), Method::Pairs) => run_with::<K, Pairs<_>>(work, x, out),
        #[cfg(feature = "relaxed-simd")]
        (Rows::Bytes(x), _) => run_with::<K, Quads<_>>(work, x, out),
        #[cfg(feature = "relaxed-simd")]
        (Rows::Halves(x), _) => run_with::<K, Quads<_>>(work, x, out),
        #[cfg(feature = "relaxed-simd")]
        (Rows::Shifted(x), _) => run_with::<K, Quads<_>>(work, x, out),
        #[cfg(not(feature = "relaxed-simd"))]
        (rows, _) => super::with_rows!(rows, x => super::plain::run::<K, _>(work, x, out)),
    }
}

/// [`run`] with activations of this kind. A single row leaves registers for two groups at a time,
/// half of the range apart: memory is read ahead of ascending streams, and two groups side by side
/// would make one that goes to and fro.
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn run_with<K: Kernel, D: Dot>(work: &Work<'_>, x: &[Block<D::Integers>], out: &mut [f32]) {
    let [groups, tokens] = work.ranges.clone();
    let weights = Weights::<K>::new(work.product.weights.all(), work.product.x.blocks());
    let mut group = groups.start;
    if tokens.len() == 1 {
        let x = work.tokens(x, tokens.start);
        let step = groups.len() / GROUPS;
        for first in group..group + step {
            let numbers: [usize; GROUPS] = std::array::from_fn(|i| first + i * step);
            let sums = tile::<K, D, GROUPS, 1>(&numbers.map(|number| weights.group(number)), x);
            for (number, [sum]) in numbers.into_iter().zip(sums) {
                work.store((number, tokens.start), bytemuck::cast(sum), out);
            }
        }
        group += GROUPS * step;
    }
    for group in group..groups.end {
        let weights = [weights.group(group)];
        let mut token = tokens.start;
        while token + TOKENS <= tokens.end {
            let [sums] = tile::<K, D, 1, TOKENS>(&weights, work.tokens(x, token));
            for (t, sum) in sums.into_iter().enumerate() {
                work.store((group, token + t), bytemuck::cast(sum), out);
            }
            token += TOKENS;
        }
        for token in token..tokens.end {
            let [[sum]] = tile::<K, D, 1, 1>(&weights, work.tokens(x, token));
            work.store((group, token), bytemuck::cast(sum), out);
        }
    }
}

#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn tile<K: Kernel, D: Dot, const G: usize, const T: usize>(
    groups: &[Weights<'_, K>; G],
    x: [&[Block<D::Integers>]; T],
) -> [[v128; T]; G] {
    let len = x[0].len();
    let x = x.map(|x| &x[..len]);
    let groups = groups.map(|group| group.cut(len));
    let mut sums = [[f32x4_splat(0.0); T]; G];
    for b in 0..len {
        let parts: [&[[u8; 16]]; G] = std::array::from_fn(|g| groups[g].codes[b].as_ref());
        let x: [&Block<D::Integers>; T] = std::array::from_fn(|t| &x[t][b]);
        let totals = totals::<K, D, G, T>((parts, groups[0].low), x);
        for g in 0..G {
            let factors = groups[g].factors.of(b);
            for t in 0..T {
                let mut totals = totals[g][t];
                if K::SIGNED {
                    totals[0] = D::unshift(totals[0], groups[g].sums, b);
                }
                sums[g][t] = scaled::<K, _>(sums[g][t], totals, factors, x[t]);
            }
        }
    }
    sums
}

/// Packed groups as a kernel reads them.
#[derive(Clone, Copy)]
struct Weights<'a, K: Kernel> {
    /// Of a group.
    blocks: usize,
    codes: &'a [K::Codes],
    factors: Factors<'a, K>,
    sums: &'a [[i16; ROWS]],
    /// Bits of a code that lie together. V8 makes a register that it knows to be constant anew in
    /// every round, in three instructions; hence it is not to be known.
    low: v128,
}

impl<'a, K: Kernel> Weights<'a, K> {
    fn new(groups: Group<'a>, blocks: usize) -> Self {
        Self {
            blocks,
            codes: bytemuck::cast_slice(groups.codes),
            factors: Factors::new(groups),
            sums: groups.sums.as_chunks().0,
            low: black_box(low::<K>()),
        }
    }

    #[inline]
    fn group(&self, number: usize) -> Self {
        let (first, len) = (number * self.blocks, self.blocks);
        Self {
            codes: &self.codes[first..first + len],
            factors: self.factors.part(first, len),
            sums: self.sums.get(first..first + len).unwrap_or_default(),
            ..*self
        }
    }

    /// Blocks `.. len`, so that a loop over so many has nothing to check.
    #[inline]
    fn cut(self, len: usize) -> Self {
        Self {
            codes: &self.codes[..len],
            factors: self.factors.part(0, len),
            ..self
        }
    }
}

/// Sums of the products of a block's integers: all of it, or of each half where those have
/// scales of their own.
#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn totals<K: Kernel, D: Dot, const G: usize, const T: usize>(
    (parts, low): ([&[[u8; 16]]; G], v128),
    x: [&Block<D::Integers>; T],
) -> [[[v128; 2]; T]; G] {
    let mut sums = [[D::zero(); T]; G];
    let mut totals = [[[i32x4_splat(0); 2]; T]; G];
    let chain = D::chain(K::HIGH).min(8 / K::HALVES);
    unroll!(quad in 0 1 2 3 4 5 6 7 => {
        for g in 0..G {
            let codes = if K::LOW == 8 {
                D::signed_codes(&parts[g][quad])
            } else {
                D::codes(codes::<K>(parts[g], quad, low))
            };
            for t in 0..T {
                let x = &x[t].integers;
                sums[g][t] = if K::SIGNED {
                    D::add::<true>(sums[g][t], codes, x, quad)
                } else {
                    D::add::<false>(sums[g][t], codes, x, quad)
                };
            }
        }
        if (quad + 1).is_multiple_of(chain) {
            let half = quad / 4 * (K::HALVES - 1);
            let first = quad + 1 == chain || K::HALVES == 2 && quad + 1 == 4 + chain;
            for g in 0..G {
                for t in 0..T {
                    let total = D::total(sums[g][t]);
                    let before = &mut totals[g][t][half];
                    *before = if first { total } else { i32x4_add(*before, total) };
                    sums[g][t] = D::zero();
                }
            }
        }
    });
    totals
}

/// Bits of a code that lie together, in each byte.
#[inline]
pub(super) fn low<K: Kernel>() -> v128 {
    u8x16_splat(u8::MAX >> (8 - K::LOW))
}

/// Codes of a quad, or what they stand for; `low` is that of [`low`].
#[inline]
pub(super) fn codes<K: Kernel>(parts: &[[u8; 16]], quad: usize, low: v128) -> v128 {
    let place = u32::try_from(quad).unwrap_or_default();
    let (part, bit) = match K::LOW {
        8 => return load(&parts[quad]),
        4 => (quad % 4, place / 4 * 4),
        _ => (quad / 4, place % 4 * 2),
    };
    // Bits of the neighbouring byte that a shift brings along are masked off.
    let codes = v128_and(shr(load(&parts[part]), bit), low);
    if let Some(values) = K::TABLE {
        return look_up(values, codes);
    }
    // The bits beyond.
    let (plane, bit, mask) = match K::HIGH {
        0 => return codes,
        1 => (0, place, 1),
        _ => (quad / 4, place % 4 * 2, 3),
    };
    let plane = load(&parts[K::LOW + plane]);
    let up = if K::LOW == 4 { 4 } else { 2 };
    let bits = if bit <= up {
        u16x8_shl(plane, up - bit)
    } else {
        shr(plane, bit - up)
    };
    v128_or(codes, v128_and(bits, u8x16_splat(mask << up)))
}

#[inline]
fn shr(bytes: v128, bits: u32) -> v128 {
    if bits == 0 {
        bytes
    } else {
        u16x8_shr(bytes, bits)
    }
}

/// What codes below 16 stand for.
#[inline]
#[cfg_attr(feature = "relaxed-simd", target_feature(enable = "relaxed-simd"))]
fn look_up(values: &[i8; 16], codes: v128) -> v128 {
    let values = load(&values.map(i8::cast_unsigned));
    #[cfg(feature = "relaxed-simd")]
    return i8x16_relaxed_swizzle(values, codes);
    #[cfg(not(feature = "relaxed-simd"))]
    i8x16_swizzle(values, codes)
}

/// Adds a block's totals times its factors.
#[inline]
fn scaled<K: Kernel, I>(
    mut sum: v128,
    totals: [v128; 2],
    [scales, mins]: [[v128; 2]; 2],
    x: &Block<I>,
) -> v128 {
    let x_scale = f32x4_splat(x.scale);
    for half in 0..K::HALVES {
        let mut total = totals[half];
        if K::ZERO != 0 {
            let x_sum = if K::HALVES == 1 {
                x.sum
            } else {
                x.halves[half]
            };
            total = i32x4_sub(total, i32x4_splat(K::ZERO * x_sum));
        }
        let factor = f32x4_mul(scales[half], x_scale);
        sum = f32x4_add(sum, f32x4_mul(f32x4_convert_i32x4(total), factor));
    }
    if K::MINS {
        for (mins, x_half) in mins.into_iter().zip(x.halves).take(K::HALVES) {
            let x_sum = if K::HALVES == 1 {
                x.scaled_sum
            } else {
                x.scale * x_half as f32
            };
            sum = f32x4_add(sum, f32x4_mul(mins, f32x4_splat(x_sum)));
        }
    }
    sum
}

/// What blocks of a group are multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a, K: Kernel> {
    factors: &'a [K::Factors],
    steps: &'a [K::Steps],
}

impl<'a, K: Kernel> Factors<'a, K> {
    #[inline]
    pub(super) fn new(groups: Group<'a>) -> Self {
        Self {
            factors: bytemuck::cast_slice(groups.factors),
            steps: bytemuck::cast_slice(groups.steps),
        }
    }

    /// Those of `len` blocks, whole ones of [`WIDE`] where factors are.
    #[inline]
    pub(super) fn part(self, first: usize, len: usize) -> Self {
        let part = |first: usize, len: usize| first..first + len;
        if K::WIDE {
            Self {
                factors: &self.factors[part(first / WIDE, len / WIDE)],
                steps: &self.steps[part(first, len)],
            }
        } else {
            Self {
                factors: &self.factors[part(first, len)],
                steps: &[],
            }
        }
    }

    /// [`Group::scales`], each of four rows in one register.
    #[inline]
    pub(super) fn of(&self, b: usize) -> [[v128; 2]; 2] {
        let mut found = [[f32x4_splat(0.0); 2]; 2];
        if !K::WIDE {
            for (kind, factor) in self.factors[b].as_ref().iter().enumerate() {
                found[kind] = [load_f32(factor); 2];
            }
            return found;
        }
        let steps = widen(self.steps[b].as_ref());
        for (kind, factor) in self.factors[b / WIDE].as_ref().iter().enumerate() {
            for half in 0..K::HALVES {
                let steps = f32x4_convert_i32x4(steps[kind * K::HALVES + half]);
                found[kind][half] = f32x4_mul(load_f32(factor), steps);
            }
        }
        found
    }
}

/// Up to four times four small integers, each in a lane.
#[inline]
fn widen(steps: &[[i8; ROWS]]) -> [v128; 4] {
    let pair = |pair: usize| {
        let of = |i: usize| {
            let four = steps.get(2 * pair + i).copied().unwrap_or_default();
            u64::from(u32::from_le_bytes(four.map(i8::cast_unsigned)))
        };
        i16x8_extend_low_i8x16(i64x2_splat((of(0) | of(1) << 32).cast_signed()))
    };
    let [a, b] = [pair(0), pair(1)];
    [
        i32x4_extend_low_i16x8(a),
        i32x4_extend_high_i16x8(a),
        i32x4_extend_low_i16x8(b),
        i32x4_extend_high_i16x8(b),
    ]
}

#[inline]
fn load(bytes: &[u8; 16]) -> v128 {
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
