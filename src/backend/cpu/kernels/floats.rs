//! Sums of products of floats, in the order of [`math::dot_quads`], and the reading of floats of
//! 16 bits by integers.

use std::arch::wasm32::{
    f32x4_abs, f32x4_add, f32x4_ge, f32x4_mul, f32x4_splat, i32x4_shl, i32x4_shr, i32x4_splat,
    v128, v128_and, v128_or,
};

use bytemuck::Pod;

use crate::backend::cpu::layout::{Floats, Layout};
use crate::backend::cpu::math;
use crate::backend::cpu::packed::{Group, Packed, ROWS, Values};

/// How a quad of four rows is kept.
trait Kind {
    type Quad: Pod;
    /// Weights are read too small by the square of this.
    const SMALL: f32 = 1.0;
    fn load(quad: &Self::Quad) -> [v128; ROWS];
}

/// Of 32 bits.
struct Single;

impl Kind for Single {
    type Quad = [[f32; 4]; ROWS];

    #[inline]
    fn load(quad: &Self::Quad) -> [v128; ROWS] {
        quad.map(bytemuck::cast)
    }
}

/// The first 16 of 32 bits.
struct Brain;

impl Kind for Brain {
    type Quad = [[u8; 16]; 2];

    #[inline]
    fn load(quad: &Self::Quad) -> [v128; ROWS] {
        let [ab, cd] = quad.map(bytemuck::cast::<_, v128>);
        let high = i32x4_splat(0xffff_0000_u32.cast_signed());
        [
            i32x4_shl(ab, 16),
            v128_and(ab, high),
            i32x4_shl(cd, 16),
            v128_and(cd, high),
        ]
    }
}

/// Of 16 bits, 5 of them an exponent, if finite, and 2^112 times too small: their bits where an
/// exponent has 8. Activations and sums are scaled by half of that each, which no rounding but
/// that of terms below 2^-70 notices, and spares a multiplication of every weight.
struct SmallHalf;

impl Kind for SmallHalf {
    type Quad = [[u8; 16]; 2];
    const SMALL: f32 = f32::from_bits((127 + 56) << 23);

    #[inline]
    fn load(quad: &Self::Quad) -> [v128; ROWS] {
        let [ab, cd] = quad.map(bytemuck::cast::<_, v128>);
        // The shift brings the fraction to its place and copies of the sign to where the upper
        // bits of the exponent are, which are masked off.
        let mask = i32x4_splat(0x8fff_e000_u32.cast_signed());
        [i32x4_shl(ab, 16), ab, i32x4_shl(cd, 16), cd]
            .map(|words| v128_and(i32x4_shr(words, 3), mask))
    }
}

/// The same in their size; `FINITE` where none is infinite or NaN.
struct Half<const FINITE: bool>;

impl<const FINITE: bool> Kind for Half<FINITE> {
    type Quad = [[u8; 16]; 2];

    #[inline]
    fn load(quad: &Self::Quad) -> [v128; ROWS] {
        SmallHalf::load(quad).map(|small| {
            // 2^112; subnormal numbers included.
            let scaled = f32x4_mul(small, f32x4_splat(f32::from_bits((127 + 112) << 23)));
            if FINITE {
                return scaled;
            }
            let beyond = f32x4_ge(f32x4_abs(scaled), f32x4_splat(65536.0));
            v128_or(scaled, v128_and(beyond, i32x4_splat(0x7f80_0000)))
        })
    }
}

/// An expression with the kind of weights that are floats, where halves are finite this one.
macro_rules! with_kind {
    ($weights:expr, $finite:ty, $kind:ident => $run:expr) => {{
        macro_rules! with {
            ($name:ty) => {{
                type $kind = $name;
                $run
            }};
        }
        match $weights.layout {
            Layout::Floats(Floats::Half) if $weights.finite => with!($finite),
            Layout::Floats(Floats::Half) => with!(Half<false>),
            Layout::Floats(Floats::Brain) => with!(Brain),
            _ => with!(Single),
        }
    }};
}

/// Quads of a group.
#[inline]
fn quads<K: Kind>(group: Group<'_>) -> &[K::Quad] {
    if group.codes.is_empty() {
        bytemuck::cast_slice(group.factors)
    } else {
        bytemuck::cast_slice(group.codes)
    }
}

/// A group in f32.
pub(super) fn dequantize(weights: &Packed, group: Group<'_>, out: &mut [Values]) {
    let out = out.as_flattened_mut();
    with_kind!(weights, Half<true>, K => {
        for (quad, out) in quads::<K>(group).iter().zip(out) {
            *out = K::load(quad).map(|row| bytemuck::cast(row));
        }
    });
}

/// Sums of the products of a group with one row of activations.
pub(super) fn single(weights: &Packed, group: Group<'_>, x: &[f32]) -> [f32; ROWS] {
    let [sums] = with_kind!(weights, SmallHalf, K => tile::<K, 1>(quads::<K>(group), [x]));
    sums
}

/// The same with `T` rows of activations and weights in f32.
pub(super) fn sums<const T: usize>(quads: &[[[f32; 4]; ROWS]], x: [&[f32]; T]) -> [[f32; ROWS]; T] {
    tile::<Single, T>(quads, x)
}

#[inline]
fn tile<K: Kind, const T: usize>(quads: &[K::Quad], x: [&[f32]; T]) -> [[f32; ROWS]; T] {
    let x = x.map(|x| &x.as_chunks::<4>().0[..quads.len()]);
    let mut sums = [[f32x4_splat(0.0); ROWS]; T];
    for (k, quad) in quads.iter().enumerate() {
        let w = K::load(quad);
        for t in 0..T {
            let x = scaled::<K>(bytemuck::cast(x[t][k]));
            for row in 0..ROWS {
                sums[t][row] = f32x4_add(sums[t][row], f32x4_mul(w[row], x));
            }
        }
    }
    sums.map(|sums| math::total_rows(&sums.map(|row| bytemuck::cast(scaled::<K>(row)))))
}

#[inline]
fn scaled<K: Kind>(values: v128) -> v128 {
    if K::SMALL == 1.0 {
        values
    } else {
        f32x4_mul(values, f32x4_splat(K::SMALL))
    }
}
