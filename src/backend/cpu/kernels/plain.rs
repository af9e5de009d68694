//! The kernels in plain Rust: the same integers, the same order of additions.

use super::{Kernel, ROWS, Row, TOKENS, Work};
use crate::backend::cpu::packed::{COLS, Group, widen_codes, widen_signed};

pub(super) fn run<K: Kernel>(work: &Work<'_>, out: &mut [f32]) {
    let [groups, tokens] = work.ranges.clone();
    for group in groups {
        let weights = work.product.weights.group(group);
        let mut token = tokens.start;
        while token + TOKENS <= tokens.end {
            let sums = tile::<K, TOKENS>(weights, work.tokens(token));
            for (i, sums) in sums.into_iter().enumerate() {
                work.store((group, token + i), sums, out);
            }
            token += TOKENS;
        }
        for token in token..tokens.end {
            let [sums] = tile::<K, 1>(weights, [work.product.x.row(token)]);
            work.store((group, token), sums, out);
        }
    }
}

fn tile<K: Kernel, const T: usize>(group: Group<'_>, x: [Row<'_>; T]) -> [[f32; ROWS]; T] {
    let code_bytes = if K::SIGNED { 128 } else { 64 + 16 * K::HIGH };
    let mut sums = [[0.0_f32; ROWS]; T];
    let mut codes = [0_i16; 128];
    let blocks = group.codes.chunks_exact(code_bytes);
    for (b, block) in blocks.enumerate() {
        let [scales, mins] = group.scales(b, K::HALVES, K::MINS, K::WIDE);
        if K::SIGNED {
            widen_signed(block, &mut codes);
        } else {
            widen_codes(K::HIGH, block, &mut codes);
        }
        for (x, sums) in x.iter().zip(&mut sums) {
            let halves = dot(&codes, &x.wide[b]);
            let scale = x.scales[b];
            if K::HALVES == 1 {
                let offset = K::ZERO * (x.sums[b][0] + x.sums[b][1]);
                for lane in 0..ROWS {
                    let sum = halves[0][lane] + halves[1][lane] - offset;
                    sums[lane] += sum as f32 * (scales[0][lane] * scale);
                }
            } else {
                for half in 0..2 {
                    let offset = K::ZERO * x.sums[b][half];
                    for lane in 0..ROWS {
                        let sum = halves[half][lane] - offset;
                        sums[lane] += sum as f32 * (scales[half][lane] * scale);
                    }
                }
            }
            if K::MINS {
                for (half, mins) in mins.iter().enumerate().take(K::HALVES) {
                    let sum = if K::HALVES == 1 {
                        x.sums[b][0] + x.sums[b][1]
                    } else {
                        x.sums[b][half]
                    };
                    let sum = scale * sum as f32;
                    for lane in 0..ROWS {
                        sums[lane] += mins[lane] * sum;
                    }
                }
            }
        }
    }
    sums
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
