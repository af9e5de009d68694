//! Inner loops, written so that LLVM turns them into SIMD on every target: fixed-size lane
//! arrays, no branch and no call inside, sums kept apart until the end.

use std::hint::black_box;

/// Lanes of a running sum: four 128-bit registers, enough to hide the latency of an addition.
const LANES: usize = 16;

/// `sum_k a[k] b[k]`.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    total(sums) + rest
}

/// Dot products of four rows `w [4, K]` with `T` rows `x [T, K]`.
pub(super) fn dot_4<const T: usize>(w: [&[f32]; 4], x: [&[f32]; T]) -> [[f32; 4]; T] {
    let (first, rest) = x[0].as_chunks::<4>();
    let quads = first.len();
    let w_quads = w.map(|row| &row.as_chunks::<4>().0[..quads]);
    let x_quads = x.map(|row| &row.as_chunks::<4>().0[..quads]);
    let mut sums = [[[0.0_f32; 4]; 4]; T];
    for k in 0..quads {
        for t in 0..T {
            for row in 0..4 {
                for lane in 0..4 {
                    sums[t][row][lane] += w_quads[row][k][lane] * x_quads[t][k][lane];
                }
            }
        }
    }
    let mut out = sums.each_ref().map(total_rows);
    if !rest.is_empty() {
        for (out, x) in out.iter_mut().zip(x) {
            for (out, row) in out.iter_mut().zip(w) {
                let tail = row[4 * quads..].iter().zip(&x[4 * quads..]);
                *out += tail.map(|(w, x)| w * x).sum::<f32>();
            }
        }
    }
    out
}

/// Dot products of four rows with `T` rows `x [T, K]`; `w` has four columns of the rows at a time,
/// `[K / 4, 4, 4]`.
pub(super) fn dot_quads<const T: usize>(w: &[[[f32; 4]; 4]], x: [&[f32]; T]) -> [[f32; 4]; T] {
    let x = x.map(|x| &x.as_chunks::<4>().0[..w.len()]);
    let mut sums = [[[0.0_f32; 4]; 4]; T];
    for (k, w) in w.iter().enumerate() {
        for t in 0..T {
            let x = x[t][k];
            for row in 0..4 {
                for lane in 0..4 {
                    sums[t][row][lane] += w[row][lane] * x[lane];
                }
            }
        }
    }
    sums.each_ref().map(total_rows)
}

/// Sums of four rows of lanes. Not inlined: LLVM would carry the lanes of these sums, the rows,
/// into the loop before, and transpose every block of weights there.
#[inline(never)]
pub(super) fn total_rows(rows: &[[f32; 4]; 4]) -> [f32; 4] {
    rows.map(total)
}

/// Brings `x` into the nearest cache: one value of each line, in the order of memory, which is
/// read ahead of one ascending stream, but not of the short ones that use the values.
pub(super) fn fetch(x: &[f32]) {
    const LINE: usize = 16;
    let mut sums = [0.0_f32; 4];
    for lines in x.chunks_exact(4 * LINE) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += lines[i * LINE];
        }
    }
    black_box(sums);
}

/// Sum of lanes by halves.
fn total<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut width = N;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// `y[k] += a x[k]`.
pub(super) fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// `y[k] += x[k]`.
pub(super) fn add(y: &mut [f32], x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// `x[k] *= a`; a factor of 1 costs nothing.
pub(super) fn scale(x: &mut [f32], a: f32) {
    if a != 1.0 {
        x.iter_mut().for_each(|x| *x *= a);
    }
}

/// RMS norm of `x` into `out`; see [`Norm`](crate::backend::ops::Norm).
pub(super) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = norm_factor(x, eps);
    for ((out, x), w) in out.iter_mut().zip(x).zip(weight) {
        *out = x * factor * w;
    }
}

/// RMS norm in place.
pub(super) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let factor = norm_factor(x, eps);
    for (x, w) in x.iter_mut().zip(weight) {
        *x = *x * factor * w;
    }
}

fn norm_factor(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// `e^x`, within 2 units in the last place for `x` in -87 ..= 88; smaller ones give about
/// 1e-38, larger ones about 1.6e38, NaN stays NaN.
///
/// `e^x = 2^n e^r` with `n` the integer nearest to `x / ln 2` and `|r| <= ln 2 / 2`; `e^r` by
/// the polynomial of Cephes' `expf` (S. Moshier, <https://www.netlib.org/cephes/>). The
/// standard library's `exp` is a call for each element, several times as slow in wasm, and
/// attention takes one exponential per head and position.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    Exp::NUMBERS.of(x)
}

/// The numbers of [`exp`].
#[derive(Clone, Copy)]
struct Exp {
    least: f32,
    most: f32,
    log2_e: f32,
    /// 1.5 * 2^23: adding it rounds to an integer and leaves that in the low bits of the sum.
    round: f32,
    /// ln 2 in two pieces, the first short enough that its product with n is exact.
    ln_2: [f32; 2],
    polynomial: [f32; 6],
    one: f32,
    bias: u32,
}

impl Exp {
    const NUMBERS: Self = Self {
        least: -87.0,
        most: 88.0,
        log2_e: std::f32::consts::LOG2_E,
        round: 12_582_912.0,
        ln_2: [355.0 / 512.0, -2.121_944_4e-4],
        polynomial: [
            1.987_569_1e-4,
            1.398_199_9e-3,
            8.333_452e-3,
            4.166_579_6e-2,
            1.666_666_5e-1,
            0.5,
        ],
        one: 1.0,
        bias: 127,
    };

    /// The numbers for a loop. Where they are known, V8 makes each anew in every round, from an
    /// integer, in three instructions.
    fn for_loop() -> Self {
        black_box(Self::NUMBERS)
    }

    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        let x = if x < self.least { self.least } else { x };
        let x = if x > self.most { self.most } else { x };
        let shifted = x * self.log2_e + self.round;
        let n = shifted - self.round;
        let r = (x - n * self.ln_2[0]) - n * self.ln_2[1];
        let [first, rest @ ..] = self.polynomial;
        let p = rest.into_iter().fold(first, |p, next| p * r + next);
        let power = f32::from_bits(shifted.to_bits().wrapping_add(self.bias) << 23);
        (p * r * r + r + self.one) * power
    }

    /// `1 / (1 + e^-x)`.
    #[inline(always)]
    fn sigmoid(&self, x: f32) -> f32 {
        self.one / (self.one + self.of(-x))
    }
}

/// `gate[k] = silu(gate[k]) up[k]` into `out`.
pub(super) fn silu_times(gate: &[f32], up: &[f32], out: &mut [f32]) {
    let exp = Exp::for_loop();
    for ((out, &gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate * exp.sigmoid(gate) * up;
    }
}

/// `out[k] = gelu(gate[k]) up[k]`, the tanh form, as `x sigmoid(2 u)`: the same function,
/// since `1 + tanh(u) = 2 sigmoid(2 u)`.
pub(super) fn gelu_times(gate: &[f32], up: &[f32], out: &mut [f32]) {
    const TWO_SQRT_2_OVER_PI: f32 = 1.595_769;
    let exp = Exp::for_loop();
    for ((out, &gate), up) in out.iter_mut().zip(gate).zip(up) {
        let u = TWO_SQRT_2_OVER_PI * (gate + 0.044_715 * gate * gate * gate);
        *out = gate * exp.sigmoid(u) * up;
    }
}

/// `cap * tanh(x / cap)` in place.
pub(super) fn soft_cap(cap: Option<f32>, x: &mut [f32]) {
    if let Some(cap) = cap {
        for x in x {
            *x = cap * (*x / cap).tanh();
        }
    }
}

/// Largest element, negative infinity of none; NaN elements are passed over.
pub(super) fn max(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<8>();
    let mut lanes = [f32::NEG_INFINITY; 8];
    for chunk in chunks {
        for lane in 0..8 {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    let max = lanes.into_iter().fold(f32::NEG_INFINITY, larger);
    rest.iter().copied().fold(max, larger)
}

/// A comparison and a choice: one instruction, where `f32::max` takes care of NaN on both sides.
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// `x[k] = e^(x[k] - max)` in place; returns their sum.
pub(super) fn exp_and_sum(x: &mut [f32], max: f32) -> f32 {
    let (chunks, rest) = x.as_chunks_mut::<8>();
    let exp = Exp::for_loop();
    let mut lanes = [0.0_f32; 8];
    for chunk in chunks {
        for lane in 0..8 {
            chunk[lane] = exp.of(chunk[lane] - max);
            lanes[lane] += chunk[lane];
        }
    }
    let mut sum = total(lanes);
    for x in rest {
        *x = exp.of(*x - max);
        sum += *x;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0_f64;
        for i in -87_000..=88_000_i32 {
            let x = i as f32 * 1e-3 + 1e-5;
            let x = x.clamp(-87.0, 88.0);
            let want = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - want).abs() / want);
        }
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn exp_stays_finite_far_out_and_keeps_nan() {
        assert!(exp(-1e30) > 0.0 && exp(-1e30) < 2e-38);
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
        assert!(exp(1e30).is_finite() && exp(1e30) > 1e38);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn dot_products_count_every_element_at_odd_lengths() {
        for len in [1, 7, 15, 16, 17, 33, 40, 41] {
            let a: Vec<f32> = (0..len).map(|i| i as f32 - 3.0).collect();
            let b: Vec<f32> = (0..len).map(|i| (i * i % 7) as f32).collect();
            // Small integers: every order of summation is exact.
            let want: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert_eq!(dot(&a, &b), want);
            let [[first, ..], [_, second, ..]] = dot_4([&a, &b, &a, &b], [&b, &a]);
            assert_eq!([first, second], [want; 2]);
            assert_eq!(dot_4([&b, &b, &b, &a], [&b])[0][3], want);
        }
    }
}
