//! Products of packed weights and activations: `y[t, n] = sum_k w[n, k] x[t, k]`.
//!
//! Activations are rounded but for weights that are floats, and where nothing may be: these
//! products are those of `exact`. A *tile* is one group of four rows times one row of activations
//! or [`TOKENS`]. Of each block, the codes' products are summed as integers, exactly; then one
//! multiplication by the scales, one addition. So every implementation gives the same bits:
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
//! | `exact`  | products that round nothing, anywhere                          |
//! | `floats` | wasm32: their sums                                             |

pub(super) mod check;
mod exact;
#[cfg(target_arch = "wasm32")]
mod floats;
mod plain;
#[cfg(target_arch = "wasm32")]
mod simd;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "wasm32")]
mod values;

use std::ops::Range;

use bytemuck::Pod;

use super::layout::{Layout, Table};
use super::packed::{Group, Packed, ROWS, Values};
use super::rounded::{Block, Digits, Form, Integers, Rounded, Rows, with_rows};

pub(super) use exact::exact_product;

/// Rows of activations that share a pass over a group: with fewer, codes are unpacked more often;
/// with more, sums lie in memory, and more rows are left over.
pub(super) const TOKENS: usize = 5;

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
    /// See [`Layout::Codes`]; 8 where codes are signed bytes.
    const LOW: usize;
    const HIGH: usize;
    const HALVES: usize;
    const MINS: bool;
    const WIDE: bool;
    const ZERO: i32;
    /// What codes stand for, if not for themselves.
    const TABLE: Option<&[i8; 16]>;
    /// Whether numbers are multiplied that may be negative.
    const SIGNED: bool = Self::LOW == 8 || Self::TABLE.is_some();
    /// Codes of a block of four rows.
    type Codes: Pod + AsRef<[[u8; 16]]>;
    /// Scales of four rows, then minima.
    type Factors: Pod + AsRef<[[f32; ROWS]]>;
    /// Small integers of a block where factors are wide.
    type Steps: Pod + AsRef<[[i8; ROWS]]>;
}

macro_rules! kernels {
    ($($name:ident: $low:literal $high:literal $halves:literal $mins:literal $wide:literal
        $zero:literal $table:expr, $parts:literal $factors:literal $steps:literal;)*) => {
        $(
            #[derive(Clone, Copy, Debug)]
            struct $name;
            impl Kernel for $name {
                const LOW: usize = $low;
                const HIGH: usize = $high;
                const HALVES: usize = $halves;
                const MINS: bool = $mins;
                const WIDE: bool = $wide;
                const ZERO: i32 = $zero;
                const TABLE: Option<&[i8; 16]> = $table;
                type Codes = [[u8; 16]; $parts];
                type Factors = [[f32; ROWS]; $factors];
                type Steps = [[i8; ROWS]; $steps];
            }
        )*
    };
}

kernels! {
    TwoWide: 2 0 2 true true 0 None, 2 2 4;
    ThreeWide: 2 1 2 false true 4 None, 3 1 2;
    Four: 4 0 1 false false 8 None, 4 1 0;
    FourMin: 4 0 1 true false 0 None, 4 2 0;
    FourWide: 4 0 1 true true 0 None, 4 2 2;
    FourTable: 4 0 1 false false 0 Some(Table::Iq4Nl.values()), 4 1 0;
    FourFloat: 4 0 1 false false 0 Some(Table::Mxfp4.values()), 4 1 0;
    Five: 4 1 1 false false 16 None, 5 1 0;
    FiveMin: 4 1 1 true false 0 None, 5 2 0;
    FiveWide: 4 1 1 true true 0 None, 5 2 2;
    SixWide: 4 2 2 false true 32 None, 6 1 2;
    Eight: 8 0 1 false false 0 None, 8 1 0;
}

/// An expression with the kernel of a layout, or another for floats, which have none.
macro_rules! with_kernel {
    ($layout:expr, $kernel:ident => $run:expr, $floats:expr) => {{
        macro_rules! with {
            ($name:ident) => {{
                type $kernel = $name;
                $run
            }};
        }
        match $layout {
            Layout::Signed => with!(Eight),
            Layout::Table(Table::Iq4Nl) => with!(FourTable),
            Layout::Table(Table::Mxfp4) => with!(FourFloat),
            Layout::Codes {
                low,
                high,
                mins,
                wide,
                ..
            } => match (low + high, mins, wide) {
                (2, ..) => with!(TwoWide),
                (3, ..) => with!(ThreeWide),
                (4, false, _) => with!(Four),
                (4, true, false) => with!(FourMin),
                (4, true, true) => with!(FourWide),
                (5, false, _) => with!(Five),
                (5, true, false) => with!(FiveMin),
                (5, true, true) => with!(FiveWide),
                _ => with!(SixWide),
            },
            Layout::Floats(_) => $floats,
        }
    }};
}

/// The activations that a layout's kernel takes: rounded so, or as they are.
pub(super) fn form(layout: Layout, digits: Digits) -> Option<Form> {
    match (layout, digits) {
        (Layout::Codes { .. }, Digits::Few) => Some(Form::Eight),
        (Layout::Codes { .. }, Digits::Many) => Some(Form::Fourteen),
        (Layout::Signed | Layout::Table(_), _) => Some(Form::ForSigned),
        (Layout::Floats(_), _) => None,
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
    let layout = product.weights.layout;
    with_kernel!(layout, K => run_kernel::<K, PLAIN>(&work, out), unrounded());
}

/// No product of floats takes rounded activations: [`form`] tells.
fn unrounded() {
    debug_assert!(false, "weights of another form");
}

fn run_kernel<K: Kernel, const PLAIN: bool>(work: &Work<'_>, out: &mut [f32]) {
    #[cfg(target_arch = "wasm32")]
    if !PLAIN {
        simd::run::<K>(work, out);
        return;
    }
    with_rows!(&work.product.x.rows, blocks => plain::run::<K, _>(work, blocks, out));
}

/// Blocks of a group of rows in f32, in the order in which they are packed.
fn dequantize(weights: &Packed, group: Group<'_>, out: &mut [Values]) {
    #[cfg(target_arch = "wasm32")]
    with_kernel!(
        weights.layout,
        K => values::dequantize::<K>(group, out),
        floats::dequantize(weights, group, out)
    );
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
