//! Products of packed weights and rounded activations: `y[t, n] = sum_k w[n, k] x[t, k]`.
//!
//! A *tile* is one group of four rows times one or four rows of activations. Of each block, the
//! codes' products are summed as integers, exactly; then one multiplication by the scales, one
//! addition. So every implementation gives the same bits:
//!
//! ```text
//! sum += f32(sum of (code - zero) x) * (scale * x_scale)     for each scale of the block
//! sum += min * (x_scale * f32(sum of x))                     for each minimum
//! ```
//!
//! | module   | where                                                         |
//! |----------|---------------------------------------------------------------|
//! | `simd`   | wasm32: relaxed SIMD with that feature, simd128 without       |
//! | `values` | wasm32: weights in f32, for products that round nothing        |
//! | `plain`  | elsewhere, and the twin that `simd` is compared with           |

pub(super) mod check;
mod plain;
#[cfg(target_arch = "wasm32")]
mod simd;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "wasm32")]
mod values;

use std::ops::Range;

use bytemuck::Pod;

use super::packed::{Layout, Packed, ROWS, Values};
use super::rounded::{Block, Digits, Form, Integers, Rounded, Rows, with_rows};

/// Rows of activations that share a pass over a group.
pub(super) const TOKENS: usize = 4;

/// How integer products are summed. All give the same sums; which is the fastest depends on what
/// the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Numbers of 16 bits: what simd128 and most native targets have.
    #[cfg_attr(
        all(target_arch = "wasm32", feature = "relaxed-simd"),
        expect(dead_code, reason = "the relaxed ones are faster")
    )]
    Words,
    /// Relaxed dot products of pairs of bytes, summed in 16 bits as far as they fit.
    Pairs,
    /// Relaxed dot products of four bytes.
    Quads,
}

/// The best method here.
pub(super) fn method() -> Method {
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    return simd::method();
    #[cfg(not(all(target_arch = "wasm32", feature = "relaxed-simd")))]
    Method::Words
}

/// What a product reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<'a> {
    pub(super) weights: &'a Packed,
    pub(super) x: &'a Rounded,
}

/// How a block's codes are read; the parameters of a kernel.
pub(super) trait Kernel: Copy {
    /// See [`Layout::Codes`].
    const HIGH: usize;
    const HALVES: usize;
    const MINS: bool;
    const WIDE: bool;
    const ZERO: i32;
    const SIGNED: bool;
    /// Codes of a block of four rows.
    type Codes: Pod + AsRef<[[u8; 16]]>;
    /// Scales of four rows, then minima.
    type Factors: Pod + AsRef<[[f32; ROWS]]>;
    /// Small integers of a block where factors are wide.
    type Steps: Pod + AsRef<[[i8; ROWS]]>;
}

macro_rules! kernels {
    ($($name:ident: $high:literal $halves:literal $mins:literal $wide:literal
        $zero:literal $signed:literal $parts:literal $factors:literal $steps:literal),*) => {
        $(
            #[derive(Clone, Copy, Debug)]
            struct $name;
            impl Kernel for $name {
                const HIGH: usize = $high;
                const HALVES: usize = $halves;
                const MINS: bool = $mins;
                const WIDE: bool = $wide;
                const ZERO: i32 = $zero;
                const SIGNED: bool = $signed;
                type Codes = [[u8; 16]; $parts];
                type Factors = [[f32; ROWS]; $factors];
                type Steps = [[i8; ROWS]; $steps];
            }
        )*
    };
}

kernels! {
    Four: 0 1 false false 8 false 4 1 0,
    FourMin: 0 1 true false 0 false 4 2 0,
    Five: 1 1 false false 16 false 5 1 0,
    FiveMin: 1 1 true false 0 false 5 2 0,
    FourWide: 0 1 true true 0 false 4 2 2,
    FiveWide: 1 1 true true 0 false 5 2 2,
    SixWide: 2 2 false true 32 false 6 1 2,
    Eight: 0 1 false false 0 true 8 1 0
}

/// An expression with the kernel of a layout.
macro_rules! with_kernel {
    ($layout:expr, $kernel:ident => $run:expr) => {{
        macro_rules! with {
            ($name:ident) => {{
                type $kernel = $name;
                $run
            }};
        }
        match $layout {
            Layout::Signed => with!(Eight),
            Layout::Codes {
                high, mins, wide, ..
            } => match (high, mins, wide) {
                (0, false, _) => with!(Four),
                (0, true, false) => with!(FourMin),
                (0, true, true) => with!(FourWide),
                (1, false, _) => with!(Five),
                (1, true, false) => with!(FiveMin),
                (1, true, true) => with!(FiveWide),
                _ => with!(SixWide),
            },
        }
    }};
}

/// The activations that a layout's kernel takes.
pub(super) fn form(layout: Layout, digits: Digits) -> Form {
    match (layout, digits) {
        (Layout::Codes { .. }, Digits::Few) => Form::Eight,
        (Layout::Codes { .. }, Digits::Many) => Form::Fourteen,
        (Layout::Signed, _) => Form::ForSigned,
    }
}

/// The best implementation here of the product of `groups` and `tokens`:
/// `out[i, j]` of token `i` of the range and row `j` from the range's first, `stride` apart.
pub(super) fn product(
    product: Product<'_>,
    ranges: [Range<usize>; 2],
    out: &mut [f32],
    stride: usize,
) {
    run::<false>(product, ranges, out, stride);
}

/// [`product`], by the plain twin where `PLAIN`.
fn run<const PLAIN: bool>(
    product: Product<'_>,
    ranges: [Range<usize>; 2],
    out: &mut [f32],
    stride: usize,
) {
    let work = Work {
        product,
        ranges,
        stride,
    };
    with_kernel!(product.weights.layout, K => run_kernel::<K, PLAIN>(&work, out));
}

fn run_kernel<K: Kernel, const PLAIN: bool>(work: &Work<'_>, out: &mut [f32]) {
    #[cfg(target_arch = "wasm32")]
    if !PLAIN {
        simd::run::<K>(work, out);
        return;
    }
    with_rows!(&work.product.x.rows, blocks => plain::run::<K, _>(work, blocks, out));
}

/// A group of rows in f32, in the order in which it is packed.
pub(super) fn dequantize(weights: &Packed, group: usize, out: &mut [Values]) {
    #[cfg(target_arch = "wasm32")]
    with_kernel!(weights.layout, K => values::dequantize::<K>(weights.group(group), out));
    #[cfg(not(target_arch = "wasm32"))]
    weights.dequantize(group, out);
}

/// A part of a product.
struct Work<'a> {
    product: Product<'a>,
    /// Groups, tokens.
    ranges: [Range<usize>; 2],
    stride: usize,
}

impl Work<'_> {
    /// Rows `first ..` of rounded activations, without those of other tokens between.
    fn tokens<'a, I, const T: usize>(
        &self,
        x: &'a [Block<I>],
        first: usize,
    ) -> [&'a [Block<I>]; T] {
        let blocks = self.product.x.blocks();
        std::array::from_fn(|i| &x[(first + i) * blocks..][..blocks])
    }

    /// Writes the four sums of a token and a group, as far as there are rows.
    #[inline]
    fn store(&self, (group, token): (usize, usize), sums: [f32; ROWS], out: &mut [f32]) {
        let [groups, tokens] = &self.ranges;
        let at = (token - tokens.start) * self.stride + (group - groups.start) * ROWS;
        let rows = ROWS.min(self.product.weights.rows - group * ROWS);
        if rows == ROWS {
            out[at..at + ROWS].copy_from_slice(&sums);
        } else {
            out[at..at + rows].copy_from_slice(&sums[..rows]);
        }
    }
}
