//! Packed weights against the plain dequantizer, products against sums in f64.

use super::check::{Random, blocks, differing, differing_of};
use super::{Method, Product, exact_product, form, product};
use crate::backend::cpu::layout::Layout;
use crate::backend::cpu::packed::{COLS, NO_VALUES, Packed, ROWS};
use crate::backend::cpu::rounded::{
    Block, Bytes, Digits, Form, Halves, Integers, Rounded, Rows, Shifted, Words,
};
use crate::backend::cpu::team::Team;
use crate::gguf::GgmlType;
use crate::quant;

/// Weights, packed and as the plain dequantizer reads them, `[rows, cols]`.
fn weights(ty: GgmlType, [rows, cols]: [usize; 2], seed: u64) -> (Packed, Vec<f32>) {
    let row_bytes = ty.row_bytes(cols as u64).expect("whole blocks");
    let row_bytes = usize::try_from(row_bytes).expect("small");
    let bytes = blocks(&mut Random(seed), ty, rows * row_bytes);
    let layout = Layout::of(ty);
    let packed =
        Packed::new((ty, layout, Method::Words), [rows, cols], &bytes).expect("memory is there");
    let mut values = vec![f32::NAN; rows * cols];
    quant::dequantize(ty, &bytes, &mut values).expect("whole blocks");
    (packed, values)
}

/// The blocks of rows that are kept as words.
fn words(rounded: &Rounded) -> &[Block<Words>] {
    match &rounded.rows {
        Rows::Words(blocks) => blocks,
        _ => panic!("other integers"),
    }
}

#[test]
fn packed_rows_read_as_the_plain_dequantizer_reads_them() {
    for ty in GgmlType::ALL {
        for rows in [1, 4, 7] {
            let cols = 512;
            let (packed, want) = weights(ty, [rows, cols], 3);
            let mut groups = vec![NO_VALUES; cols / COLS];
            for row in 0..rows {
                let mut got = vec![f32::NAN; cols];
                packed.read_row(row, &mut got);
                assert_eq!(got, want[row * cols..(row + 1) * cols], "{ty}, row {row}");
                packed.dequantize(packed.group(row / ROWS), &mut groups);
                let quads = groups.as_flattened().iter();
                let lane: Vec<f32> = quads.flat_map(|quad| quad[row % ROWS]).collect();
                assert_eq!(got, lane, "{ty}, row {row}");
            }
        }
    }
}

#[test]
fn products_are_the_sums_of_rounded_activations() {
    let [rows, cols, tokens] = [9, 768, 7];
    for ty in GgmlType::ALL {
        let (packed, values) = weights(ty, [rows, cols], 4);
        let mut random = Random(5);
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        for digits in [Digits::Few, Digits::Many] {
            let Some(form) = form(packed.layout, digits) else {
                continue;
            };
            let mut rounded = Rounded::new(form, Method::Words);
            rounded.fill(&x, cols, &Team::alone());
            let mut found = vec![f32::NAN; rows * tokens];
            let whole = Product {
                weights: &packed,
                x: &rounded,
            };
            product(whole, [0..packed.groups(), 0..tokens], &mut found, rows);
            let step = match form {
                Form::Eight => 1.0 / 127.0,
                Form::Fourteen | Form::ForSigned => 1.0 / 8191.0,
            };
            for t in 0..tokens {
                let integers: Vec<f64> = words(&rounded)
                    .iter()
                    .skip(t * cols / COLS)
                    .take(cols / COLS)
                    .flat_map(|x| x.integers.map(|i| f64::from(i) * f64::from(x.scale)))
                    .collect();
                for (a, b) in integers.iter().zip(&x[t * cols..]) {
                    assert!(
                        (a - f64::from(*b)).abs() <= 0.501 * step,
                        "{ty}: {a} of {b}"
                    );
                }
                for (n, row) in values.chunks(cols).enumerate() {
                    assert_sum(ty, (row, &integers), found[t * rows + n]);
                }
            }
        }
    }
}

/// Fails if this is not about the sum of products, by f64.
fn assert_sum(ty: GgmlType, (weights, x): (&[f32], &[f64]), found: f32) {
    let terms = weights.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
    let size: f64 = terms.clone().map(f64::abs).sum();
    let (want, found) = (terms.sum::<f64>(), f64::from(found));
    // Minima cancel: the sum of sizes of products and minima apart is larger.
    assert!(
        (want - found).abs() < 2e-6 * size,
        "{ty}: {found}, not {want}"
    );
}

#[test]
fn exact_products_are_the_sums_of_the_activations() {
    let [rows, cols, tokens] = [9, 768, 5];
    for ty in GgmlType::ALL {
        let (packed, values) = weights(ty, [rows, cols], 8);
        let mut random = Random(9);
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        let mut found = vec![f32::NAN; rows * tokens];
        let ranges = [0..packed.groups(), 0..tokens];
        exact_product(&packed, &x, ranges, &mut found, rows);
        for (t, x) in x.chunks(cols).enumerate() {
            let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            for (n, row) in values.chunks(cols).enumerate() {
                assert_sum(ty, (row, &x), found[t * rows + n]);
            }
        }
        // One row alone, and rows from the second group on.
        let mut part = vec![f32::NAN; 8];
        exact_product(&packed, &x, [1..3, 3..4], &mut part, 8);
        assert_eq!(part[..5], found[3 * rows + 4..4 * rows], "{ty}");
    }
}

#[test]
fn floats_that_are_not_finite_are_read_as_they_are() {
    let mut bytes: Vec<u8> = (0..4 * 32_u16).flat_map(u16::to_le_bytes).collect();
    for (at, half) in [(5, 0x7c00_u16), (40, 0xfc00), (70, 0x7e01), (71, 0xffff)] {
        bytes[2 * at..][..2].copy_from_slice(&half.to_le_bytes());
    }
    for ty in [GgmlType::F16, GgmlType::BF16] {
        let layout = Layout::of(ty);
        let packed = Packed::new((ty, layout, Method::Words), [4, 32], &bytes);
        let packed = packed.expect("memory is there");
        assert_eq!(packed.finite, ty == GgmlType::BF16);
        let mut want = [0.0; 128];
        quant::dequantize(ty, &bytes, &mut want).expect("whole blocks");
        let mut sums = [0.0; 4];
        exact_product(&packed, &[1.0; 32], [0..1, 0..1], &mut sums, 4);
        for (row, (want, sum)) in want.chunks(32).zip(sums).enumerate() {
            let mut got = [0.0; 32];
            packed.read_row(row, &mut got);
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(want.iter().zip(&got).all(same), "{ty}: {got:?}");
            let total: f32 = want.iter().sum();
            assert_eq!(total.is_nan(), sum.is_nan(), "{ty}, row {row}");
            assert_eq!(total.is_infinite(), sum.is_infinite(), "{ty}, row {row}");
        }
    }
}

#[test]
fn a_part_of_a_product_has_the_bits_of_the_whole() {
    let [rows, cols, tokens] = [10, 256, 6];
    let (packed, _) = weights(GgmlType::Q4_1, [rows, cols], 6);
    let mut random = Random(7);
    let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
    let form = form(packed.layout, Digits::Few).expect("rounded activations");
    let mut rounded = Rounded::new(form, Method::Words);
    rounded.fill(&x, cols, &Team::alone());
    let of = Product {
        weights: &packed,
        x: &rounded,
    };
    let mut whole = vec![f32::NAN; rows * tokens];
    product(of, [0..3, 0..tokens], &mut whole, rows);
    let mut part = vec![f32::NAN; 2 * 6];
    product(of, [1..3, 3..5], &mut part, 6);
    for (t, part) in part.chunks(6).enumerate() {
        assert_eq!(part, &whole[(t + 3) * rows + 4..(t + 4) * rows]);
    }
}

#[test]
fn no_kernel_differs_from_its_twin() {
    assert_eq!(differing().expect("memory is there"), Vec::<&str>::new());
    let found = differing_of(&GgmlType::ALL).expect("memory is there");
    assert_eq!(found, Vec::<&str>::new());
}

#[test]
fn what_is_not_finite_stays_so() {
    for form in Form::ALL {
        let mut rounded = Rounded::new(form, Method::Words);
        let mut x = [0.5_f32; 128];
        x[3] = f32::NAN;
        x[40] = f32::INFINITY;
        x[64..96].fill(0.0);
        rounded.fill(&x, 128, &Team::alone());
        let [a, b, c, d] = words(&rounded) else {
            panic!("four blocks");
        };
        assert!(a.scale.is_nan() && b.scale.is_nan());
        assert!(a.scaled_sum.is_nan() && b.scaled_sum.is_nan());
        assert_eq!((c.scale, c.integers), (0.0, [0; 32]));
        assert!(d.scale > 0.0);
    }
}

#[test]
fn integers_of_every_kind_are_those_that_they_were_made_of() {
    fn same<I: Integers>(largest: i16) {
        for first in (-largest..=largest).step_by(31) {
            let given = std::array::from_fn(|i| {
                let x = first + i16::try_from(i).expect("small");
                x.min(largest)
            });
            assert_eq!(I::of(&given).wide(), given);
        }
    }
    same::<Words>(8191);
    same::<Bytes>(127);
    same::<Halves>(8191);
    same::<Shifted>(8191);
}
