//! Products in which nothing is rounded but sums of f32.
//!
//! A group is taken in slices of 256 columns: a slice in f32 stays in the nearest cache while all
//! rows of activations pass over it. A single row reads floats where they lie. Sums of a slice
//! are made in four lanes, added up, and then added to those of the slices before, so that all
//! ways to them give the same bits:
//!
//! ```text
//! lane[i] += w[4 q + i] x[4 q + i]     for each quad q of the slice
//! y += (lane[0] + lane[2]) + (lane[1] + lane[3])
//! ```

use std::ops::Range;

use super::dequantize;
#[cfg(target_arch = "wasm32")]
use super::floats;
use crate::backend::cpu::layout::{Floats, Layout};
use crate::backend::cpu::math;
use crate::backend::cpu::packed::{COLS, Group, NO_VALUES, Packed, ROWS, Values, WIDE};

/// Rows of activations that share a pass over a slice: each takes four of the sixteen registers
/// that are sure to be there.
const TOKENS: usize = 2;

/// Blocks of a slice.
const SLICE: usize = WIDE;

/// The product of `groups` and `tokens` with `x [m, K]`: `out[i, j]` of token `i` of the range
/// and row `j` from the range's first, `stride` apart.
pub(in crate::backend::cpu) fn exact_product(
    weights: &Packed,
    x: &[f32],
    ranges: [Range<usize>; 2],
    out: &mut [f32],
    stride: usize,
) {
    run::<false>((weights, x), ranges, out, stride);
}

/// [`exact_product`], by the plain twin where `PLAIN`.
pub(super) fn run<const PLAIN: bool>(
    (weights, x): (&Packed, &[f32]),
    [groups, tokens]: [Range<usize>; 2],
    out: &mut [f32],
    stride: usize,
) {
    let cols = weights.blocks * COLS;
    let mut buffer = [NO_VALUES; SLICE];
    for group in groups.clone() {
        let first_row = (group - groups.start) * ROWS;
        let rows = ROWS.min(weights.rows - group * ROWS);
        for first in (0..weights.blocks).step_by(SLICE) {
            let blocks = first..(first + SLICE).min(weights.blocks);
            let slice = Slice {
                weights,
                group: weights.part(group, blocks.clone()),
                len: blocks.len(),
            };
            let own = |token: usize| &x[token * cols..][blocks.start * COLS..blocks.end * COLS];
            let mut store = |token: usize, sums: [f32; ROWS]| {
                let at = (token - tokens.start) * stride + first_row;
                let out = &mut out[at..at + rows];
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = if first == 0 { sum } else { *out + sum };
                }
            };
            if tokens.len() == 1 {
                store(
                    tokens.start,
                    slice.single::<PLAIN>(own(tokens.start), &mut buffer),
                );
                continue;
            }
            let values = slice.values::<PLAIN>(&mut buffer);
            let mut token = tokens.start;
            while token + TOKENS <= tokens.end {
                let sums = sums::<PLAIN, TOKENS>(values, std::array::from_fn(|i| own(token + i)));
                for (i, sums) in sums.into_iter().enumerate() {
                    store(token + i, sums);
                }
                token += TOKENS;
            }
            for token in token..tokens.end {
                let [sums] = sums::<PLAIN, 1>(values, [own(token)]);
                store(token, sums);
            }
        }
    }
}

/// Some blocks of a group.
struct Slice<'a> {
    weights: &'a Packed,
    group: Group<'a>,
    len: usize,
}

impl<'a> Slice<'a> {
    /// The slice in f32.
    fn values<'b, const PLAIN: bool>(&self, buffer: &'b mut [Values; SLICE]) -> &'b [Values]
    where
        'a: 'b,
    {
        if self.weights.layout == Layout::Floats(Floats::Single) {
            return bytemuck::cast_slice(self.group.factors);
        }
        let values = &mut buffer[..self.len];
        if PLAIN {
            self.weights.dequantize(self.group, values);
        } else {
            dequantize(self.weights, self.group, values);
        }
        values
    }

    /// Sums of the products with one row of activations.
    fn single<const PLAIN: bool>(&self, x: &[f32], buffer: &mut [Values; SLICE]) -> [f32; ROWS] {
        #[cfg(target_arch = "wasm32")]
        if !PLAIN && matches!(self.weights.layout, Layout::Floats(_)) {
            return floats::single(self.weights, self.group, x);
        }
        let [sums] = sums::<PLAIN, 1>(self.values::<PLAIN>(buffer), [x]);
        sums
    }
}

fn sums<const PLAIN: bool, const T: usize>(values: &[Values], x: [&[f32]; T]) -> [[f32; ROWS]; T] {
    #[cfg(target_arch = "wasm32")]
    if !PLAIN {
        return floats::sums(values.as_flattened(), x);
    }
    math::dot_quads(values.as_flattened(), x)
}
