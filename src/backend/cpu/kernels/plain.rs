//! The kernels in plain Rust: the same integers, the same order of additions.

use super::{Block, Integers, Kernel, ROWS, TOKENS, Work};
use crate::backend::cpu::codes::{widen_codes, widen_signed, widen_table};
use crate::backend::cpu::packed::{COLS, Group};

pub(super) fn run<K: Kernel, I: Integers>(work: &Work<'_>, x: &[Block<I>], out: &mut [f32]) {
    let [groups, tokens] = work.ranges.clone();
    for group in groups {
        let weights = work.product.weights.group(group);
        let mut token = tokens.start;
        while token + TOKENS <= tokens.end {
            let sums = tile::<K, I, TOKENS>(weights, work.tokens(x, token));
            for (i, sums) in sums.into_iter().enumerate() {
                work.store((group, token + i), sums, out);
            }
            token += TOKENS;
        }
        for token in token..tokens.end {
            let [sums] = tile::<K, I, 1>(weights, work.tokens(x, token));
            work.store((group, token), sums, out);
        }
    }
}

fn tile<K: Kernel, I: Integers, const T: usize>(
    group: Group<'_>,
    x: [&[Block<I>]; T],
) -> [[f32; ROWS]; T] {
    let mut sums = [[0.0_f32; ROWS]; T];
    let mut codes = [0_i16; 128];
    let blocks = bytemuck::cast_slice::<u8, K::Codes>(group.codes);
    for (b, block) in blocks.iter().enumerate() {
        let factors = group.scales(b, K::HALVES, K::MINS, K::WIDE);
        let block = block.as_ref().as_flattened();
        match K::TABLE {
            Some(values) => widen_table(values, block, &mut codes),
            None if K::SIGNED => widen_signed(block, &mut codes),
            None => widen_codes([K::LOW, K::HIGH], block, &mut codes),
        }
        for (x, sums) in x.iter().zip(&mut sums) {
            let x = &x[b];
            add_scaled::<K, I>(dot(&codes, &x.integers.wide()), factors, x, sums);
        }
    }
    sums
}

/// Adds sums of the halves of a block, times its factors.
#[inline]
fn add_scaled<K: Kernel, I>(
    halves: [[i32; ROWS]; 2],
    [scales, mins]: [[[f32; ROWS]; 2]; 2],
    x: &Block<I>,
    sums: &mut [f32; ROWS],
) {
    for half in 0..K::HALVES {
        let x_sum = if K::HALVES == 1 {
            x.sum
        } else {
            x.halves[half]
        };
        for lane in 0..ROWS {
            let sum = if K::HALVES == 1 {
                halves[0][lane] + halves[1][lane]
            } else {
                halves[half][lane]
            };
            let sum = sum - K::ZERO * x_sum;
            sums[lane] += sum as f32 * (scales[half][lane] * x.scale);
        }
    }
    if K::MINS {
        for (mins, x_half) in mins.iter().zip(x.halves).take(K::HALVES) {
            let x_sum = if K::HALVES == 1 {
                x.scaled_sum
            } else {
                x.scale * x_half as f32
            };
            for (sum, min) in sums.iter_mut().zip(mins) {
                *sum += min * x_sum;
            }
        }
    }
}

/// Sums of the two halves of a block for each of four rows. Products are added in pairs, which
/// is one instruction of many processors. The largest sum, of 16 codes of 63 and activations of
/// 8191, or of signed bytes, is far from an overflow; checks for it would keep all of it scalar.
fn dot(codes: &[i16; 128], x: &[i16; COLS]) -> [[i32; ROWS]; 2] {
    let mut lanes = [[0_i32; 8]; 2];
    let (quads, _) = codes.as_chunks::<16>();
    let (x, _) = x.as_chunks::<4>();
    for (quad, (codes, x)) in quads.iter().zip(x).enumerate() {
        let lanes = &mut lanes[quad / 4];
        let repeated: [i16; 16] = std::array::from_fn(|i| x[i % 4]);
        for (i, lane) in lanes.iter_mut().enumerate() {
            let product = |i: usize| i32::from(codes[i]).wrapping_mul(i32::from(repeated[i]));
            *lane = lane.wrapping_add(product(2 * i).wrapping_add(product(2 * i + 1)));
        }
    }
    lanes.map(|lanes| std::array::from_fn(|row| lanes[2 * row] + lanes[2 * row + 1]))
}
