//! Products against sums in `f64`.

use super::super::rms_norm;
use super::{Epilogue, Linear, Norm, Rows, Variant, linear, scratch_bytes};
use crate::backend::ops::Activation;
pub use crate::backend::random::random_blocks;
use crate::backend::webgpu::check::{Case, Seeded, strided};
use crate::backend::webgpu::planes::{Allocations, Matrix, PlaneFormat};
use crate::backend::webgpu::recorder::Extents;
use crate::backend::webgpu::step::{StepSequence, StepWords};
use crate::backend::webgpu::{Gpu, GpuError, row_stride};
use crate::gguf::GgmlType;
use crate::quant::dequantize;

/// What a case does with products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Stores them at a column, with or without bias.
    Store(usize, bool),
    /// Adds them, with or without bias.
    Add(bool),
    /// Gates them.
    Gate(Activation),
    /// Makes logits of the last rows, this many, with or without a cap.
    Logits(usize, bool),
}

const EPS: f32 = 1e-5;
const ADD_SCALE: f32 = 0.625;
const LOGIT_SCALE: f32 = 0.5;
const CAP: f32 = 3.0;

/// A matrix of random blocks on the device, its parts of these types and rows, and its
/// elements `[N, K]`.
///
/// # Errors
/// The device's.
pub fn weights(
    gpu: &Gpu,
    allocations: &mut Allocations,
    parts: &[(GgmlType, usize)],
    cols: usize,
    seeded: &mut Seeded,
) -> Result<(Matrix, Vec<f32>), GpuError> {
    let part_rows: Vec<usize> = parts.iter().map(|&(_, rows)| rows).collect();
    let mut matrix = Matrix::new(cols, &part_rows);
    let mut values = Vec::new();
    for (part, &(ty, rows)) in parts.iter().enumerate() {
        let blocks = random_blocks(ty, rows * cols, seeded);
        let mut part_values = vec![0.0; rows * cols];
        let refused = |why: String| GpuError::Validation {
            what: format!("{rows} random rows of {cols} {ty}"),
            why,
        };
        dequantize(ty, &blocks, &mut part_values).map_err(|e| refused(e.to_string()))?;
        values.extend(part_values);
        // In two writes, as a tensor comes in slabs.
        let at = rows / 2 * (blocks.len() / rows);
        let halves = [(0, &blocks[..at]), (rows / 2, &blocks[at..])];
        for (first_row, blocks) in halves {
            matrix.write(gpu, allocations, part, (ty, first_row, blocks))?;
        }
    }
    Ok((matrix, values))
}

/// The twin: `x [T, K]`, `w [N, K]` → products `[T, N]`, summed in `f64`.
#[must_use]
pub fn plain(x: &[f32], w: &[f32], cols: usize) -> Vec<f64> {
    let mut y = Vec::with_capacity(x.len() / cols * (w.len() / cols));
    for x in x.chunks(cols) {
        y.extend(w.chunks(cols).map(|w| {
            let products = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
            products.sum::<f64>()
        }));
    }
    y
}

/// `x [T, K]`, each 32 elements of a row rounded to multiples of a 127th of their largest.
fn quantized(x: &[f32], cols: usize) -> Vec<f32> {
    let mut rounded = x.to_vec();
    for block in rounded.chunks_mut(cols).flat_map(|row| row.chunks_mut(32)) {
        let most = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for x in block {
            let q = (*x * (127.0 / most)).round_ties_even();
            *x = if most > 1e-30 {
                q * (most / 127.0)
            } else {
                0.0
            };
        }
    }
    rounded
}

/// Activations `[t, cols]` of which every implementation of division makes the same bytes: the
/// largest of 32 is 127 steps, and no other is near half a step.
fn clear_of_ties(t: usize, cols: usize, seeded: &mut Seeded) -> Vec<f32> {
    const STEP: f32 = 1.0 / 128.0;
    let mut x = Vec::with_capacity(t * cols);
    for _ in 0..t {
        x.extend((0..cols).map(|k| match k % 32 {
            0 => 127.0 * seeded.value().signum() * STEP,
            _ => ((126.0 * seeded.value()).round() + 0.3 * seeded.value()) * STEP,
        }));
    }
    x
}

/// [`plain`] with quantized activations, but for parts of floats.
fn fast_products(parts: &[(GgmlType, usize)], x: &[f32], w: &[f32], cols: usize) -> Vec<f64> {
    let (exact, fast) = (plain(x, w, cols), plain(&quantized(x, cols), w, cols));
    let is_fast = |&(ty, rows): &(GgmlType, usize)| {
        std::iter::repeat_n(PlaneFormat::of(ty).is_quantized(), rows)
    };
    let columns: Vec<bool> = parts.iter().flat_map(is_fast).collect();
    let products = exact.into_iter().zip(fast).zip(columns.iter().cycle());
    products
        .map(|((exact, fast), &is_fast)| if is_fast { fast } else { exact })
        .collect()
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

/// What has to come out: `[rows of y, width of y]`.
fn wanted(shape: Shape, products: &[f64], n: usize, bias: &[f32], before: &[f32]) -> Vec<f32> {
    let mut want = before.to_vec();
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let round = |value: f64| value as f32;
    match shape {
        Shape::Store(column, has_bias) => {
            let width = column + n;
            for (row, out) in products.chunks(n).zip(want.chunks_mut(width)) {
                for ((out, &value), &bias) in out[column..].iter_mut().zip(row).zip(bias) {
                    *out = round(value + if has_bias { f64::from(bias) } else { 0.0 });
                }
            }
        }
        Shape::Add(has_bias) => {
            for (row, out) in products.chunks(n).zip(want.chunks_mut(n)) {
                for ((out, &value), &bias) in out.iter_mut().zip(row).zip(bias) {
                    let value = value + if has_bias { f64::from(bias) } else { 0.0 };
                    *out = round(f64::from(*out) + f64::from(ADD_SCALE) * value);
                }
            }
        }
        Shape::Gate(activation) => {
            for (row, out) in products.chunks(n).zip(want.chunks_mut(n / 2)) {
                let (gate, up) = row.split_at(n / 2);
                for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
                    *out = round(activate(activation, gate) * up);
                }
            }
        }
        Shape::Logits(rows, has_cap) => {
            let last = &products[products.len() - rows * n..];
            for (out, value) in want.iter_mut().zip(last) {
                let (logit, cap) = (f64::from(LOGIT_SCALE) * value, f64::from(CAP));
                *out = round(if has_cap {
                    cap * (logit / cap).tanh()
                } else {
                    logit
                });
            }
        }
    }
    want
}

/// A case of `t` rows and a matrix `[N, cols]` whose parts have these types and rows; with a
/// norm first where the variant has one and `t` is odd.
///
/// # Errors
/// The device's.
pub fn case(
    gpu: &Gpu,
    variant: Variant,
    shape: Shape,
    parts: &[(GgmlType, usize)],
    [t, cols]: [usize; 2],
    seed: u64,
) -> Result<Case, GpuError> {
    let whole = (gpu, Allocations::default());
    case_in(whole, variant, shape, parts, [t, cols], seed)
}

/// [`case`] in memory of one's own: one with less room in a buffer makes more pieces.
///
/// # Errors
/// The device's.
pub fn case_in(
    (gpu, mut allocations): (&Gpu, Allocations),
    variant: Variant,
    shape: Shape,
    parts: &[(GgmlType, usize)],
    [t, cols]: [usize; 2],
    seed: u64,
) -> Result<Case, GpuError> {
    let mut seeded = Seeded::new(seed);
    let (matrix, values) = weights(gpu, &mut allocations, parts, cols, &mut seeded)?;
    let n = matrix.rows();
    let x = match variant.is_fast() {
        true => clear_of_ties(t, cols, &mut seeded),
        false => seeded.values(t * cols),
    };
    let biases = seeded.values(n);
    let (rows, width, logit_rows) = match shape {
        Shape::Store(column, _) => (t, column + n, 0),
        Shape::Add(_) => (t, n, 0),
        Shape::Gate(_) => (t, n / 2, 0),
        Shape::Logits(rows, _) => (rows, n, rows),
    };
    // Columns beside the products stay as they are.
    let before = seeded.values(rows * width);
    let has_before = matches!(shape, Shape::Add(_) | Shape::Store(1.., _));
    let gains = seeded.values(cols);
    let has_norm = variant.fuses_norm() && t % 2 == 1;
    let normed = match has_norm {
        true => rms_norm::plain(&x, &gains, EPS),
        false => x.clone(),
    };
    let products = match variant.is_fast() {
        true => fast_products(parts, &normed, &values, cols),
        false => plain(&normed, &values, cols),
    };
    let want = wanted(shape, &products, n, &biases, &before);
    let mut step = StepWords::default();
    let sequence = StepSequence {
        rows: t,
        position: 0,
        table: &[0],
        ring: &[],
    };
    step.fill(&vec![0; t], None, &[sequence], logit_rows);
    let extents = Extents {
        positions: 0,
        ..step.extents()
    };
    let step = gpu.storage_of("step", step.words());
    let x = gpu.storage_of("x", &strided(&x, cols));
    let biases = gpu.storage_of("bias", &biases);
    let gains = gpu.storage_of("gains", &strided(&gains, cols));
    let scratch = gpu.storage("scratch", scratch_bytes(t, cols));
    let products = gpu.storage("products", 4 * (t * row_stride(n)) as u64);
    let description = format!("{shape:?}, [{t}, {cols}] by {parts:?}, seed {seed}");
    Ok(Case {
        kernel: format!("linear {variant:?}"),
        description,
        extents,
        rows,
        width,
        want,
        before: has_before.then_some(before),
        max_nmse: 1e-10,
        record: Box::new(move |recorder, y| {
            let bias = |has_bias: bool| has_bias.then_some(&biases);
            let op = Linear {
                step: &step,
                x: &x,
                matrix: &matrix,
                norm: has_norm.then_some(Norm {
                    weight: &gains,
                    eps: EPS,
                }),
                rows: match shape {
                    Shape::Logits(..) => Rows::Logits,
                    _ => Rows::All,
                },
                epilogue: match shape {
                    Shape::Store(column, has_bias) => Epilogue::Store {
                        column,
                        bias: bias(has_bias),
                    },
                    Shape::Add(has_bias) => Epilogue::Add {
                        scale: ADD_SCALE,
                        bias: bias(has_bias),
                    },
                    Shape::Gate(activation) => Epilogue::Gate {
                        activation,
                        products: &products,
                    },
                    Shape::Logits(_, has_cap) => Epilogue::Logits {
                        scale: LOGIT_SCALE,
                        soft_cap: has_cap.then_some(CAP),
                    },
                },
                y,
                y_width: width,
                scratch: &scratch,
            };
            linear(recorder, variant, &op)
        }),
    })
}
