//! Dequantizers against candle's, against the package `gguf`, and against blocks worked out by
//! hand.

mod common;

use std::borrow::Cow;
use std::collections::BTreeMap;

use candle_core::Device;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use common::Random;
use common::quantize::{candle_type, quantize};
use half::f16;
use tokenbrook::gguf::GgmlType;
use tokenbrook::quant::{QuantError, dequantize};

fn ours(ty: GgmlType, blocks: &[u8]) -> Vec<f32> {
    let elements = blocks.len() as u64 / ty.block_bytes() * ty.block_elements();
    let mut out = vec![f32::NAN; usize::try_from(elements).expect("a small tensor")];
    dequantize(ty, blocks, &mut out).expect("whole blocks");
    out
}

fn candle(dtype: GgmlDType, blocks: &[u8], elements: usize) -> Vec<f32> {
    let dequantized = QStorage::from_data(Cow::Borrowed(blocks), &Device::Cpu, dtype)
        .and_then(|storage| QTensor::new(storage, elements))
        .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.to_vec1::<f32>());
    dequantized.expect("candle reads the blocks")
}

/// Equal bit by bit, except that any NaN is like any other.
fn assert_same(ty: GgmlType, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{ty} element {i}: {got}, not {want}");
    }
}

/// The types that candle reads, with its names of them.
fn candle_types() -> impl Iterator<Item = (GgmlType, GgmlDType)> {
    GgmlType::ALL
        .into_iter()
        .filter_map(|ty| Some((ty, candle_type(ty)?)))
}

#[test]
fn every_type_keeps_values_near() {
    let mut random = Random(3);
    let values: Vec<f32> = (0..7 * 256).map(|_| random.float() * 3.0).collect();
    for ty in GgmlType::ALL {
        let got = ours(ty, &quantize(ty, &values, 256));
        let worst = got
            .iter()
            .zip(&values)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1.5, "{ty}: off by {worst}");
    }
}

#[test]
fn every_type_of_candle_equals_it_on_blocks_that_it_quantized() {
    let mut random = Random(3);
    let values: Vec<f32> = (0..7 * 256).map(|_| random.float() * 3.0).collect();
    for (ty, dtype) in candle_types() {
        let blocks = quantize(ty, &values, 256);
        let want = candle(dtype, &blocks, values.len());
        assert_same(ty, &ours(ty, &blocks), &want);
    }
}

#[test]
fn every_type_of_candle_equals_it_on_blocks_of_random_bytes() {
    let mut random = Random(5);
    for (ty, dtype) in candle_types() {
        let (bytes, elements) = (ty.block_bytes(), ty.block_elements());
        let blocks = random.bytes(usize::try_from(bytes * 101).expect("small"));
        let elements = usize::try_from(elements * 101).expect("small");
        assert_same(ty, &ours(ty, &blocks), &candle(dtype, &blocks, elements));
    }
}

/// What the package `gguf` makes of blocks of a type: see `data/quant/README.md`.
#[derive(serde::Deserialize)]
struct Made {
    blocks: String,
    values: String,
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("a hex digit");
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "two digits a byte");
    pairs
        .iter()
        .map(|&[high, low]| u8::try_from(digit(high) << 4 | digit(low)).expect("a byte"))
        .collect()
}

#[test]
fn types_that_candle_does_not_read_equal_the_package_gguf() {
    let made: BTreeMap<String, Made> =
        serde_json::from_str(include_str!("data/quant/blocks.json")).expect("valid data");
    for ty in GgmlType::ALL {
        if candle_type(ty).is_some() {
            continue;
        }
        let made = &made[ty.name()];
        let want: Vec<f32> = from_hex(&made.values)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect();
        assert_eq!(want.len(), 29 * 32, "{ty}");
        assert_same(ty, &ours(ty, &from_hex(&made.blocks)), &want);
    }
}

fn scale(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

#[test]
fn q4_0_subtracts_8_and_keeps_low_nibbles_first() {
    let mut qs = [0x88; 16];
    qs[0] = 0xf0;
    qs[15] = 0x1a;
    let got = ours(GgmlType::Q4_0, &[&scale(0.5)[..], &qs].concat());
    let mut want = [0.0; 32];
    want[0] = -4.0;
    want[16] = 3.5;
    want[15] = 1.0;
    want[31] = -3.5;
    assert_eq!(got, want);
}

#[test]
fn q4_1_adds_the_minimum() {
    let mut qs = [0; 16];
    qs[1] = 0xf3;
    let got = ours(
        GgmlType::Q4_1,
        &[&scale(0.25)[..], &scale(-2.0), &qs].concat(),
    );
    let mut want = [-2.0; 32];
    want[1] = -1.25;
    want[17] = 1.75;
    assert_eq!(got, want);
}

#[test]
fn q5_0_takes_the_fifth_bit_from_qh() {
    let mut qs = [0; 16];
    qs[2] = 0x21;
    let qh = (1_u32 << 2 | 1 << 31).to_le_bytes();
    let got = ours(GgmlType::Q5_0, &[&scale(2.0)[..], &qh, &qs].concat());
    let mut want = [-32.0; 32];
    want[2] = 2.0;
    want[18] = -28.0;
    want[31] = 0.0;
    assert_eq!(got, want);
}

#[test]
fn q8_0_multiplies_signed_bytes() {
    let mut qs = [0_u8; 32];
    qs[0] = 127;
    qs[5] = 0x80;
    qs[31] = 0xff;
    let got = ours(GgmlType::Q8_0, &[&scale(0.5)[..], &qs].concat());
    let mut want = [0.0; 32];
    want[0] = 63.5;
    want[5] = -64.0;
    want[31] = -0.5;
    assert_eq!(got, want);
}

#[test]
fn q4_k_reads_six_bit_scales_and_minimums() {
    let mut scales = [0; 12];
    // Group 0: scale 3, minimum 2. Group 5: scale 0b10_0101, minimum 0b01_0110.
    scales[0] = 3;
    scales[4] = 2;
    scales[9] = 0b0110_0101;
    scales[1] |= 0b10 << 6;
    scales[5] |= 0b01 << 6;
    let mut qs = [0; 128];
    qs[7] = 0x09;
    qs[2 * 32 + 4] = 0xb0;
    let got = ours(
        GgmlType::Q4_K,
        &[&scale(0.5)[..], &scale(1.0), &scales, &qs].concat(),
    );
    let mut want = [0.0; 256];
    want[..32].fill(-2.0);
    want[7] = 0.5 * 3.0 * 9.0 - 2.0;
    want[5 * 32..6 * 32].fill(-22.0);
    want[5 * 32 + 4] = 0.5 * 37.0 * 11.0 - 22.0;
    assert_eq!(got, want);
}

#[test]
fn q6_k_joins_low_and_high_bits() {
    let mut ql = [0; 128];
    let mut qh = [0; 64];
    let mut scales = [0_u8; 16];
    // Element 3: code 0b10_0101 = 37, scale 2. Element 128 + 96 + 20: code 0b11_1111, scale -3.
    ql[3] = 0x05;
    qh[3] = 0b10;
    scales[0] = 2;
    ql[64 + 32 + 20] = 0xf0;
    qh[32 + 20] = 0b11 << 6;
    scales[15] = 0xfd;
    let got = ours(
        GgmlType::Q6_K,
        &[&ql[..], &qh, &scales, &scale(0.5)].concat(),
    );
    let mut want = [0.0; 256];
    want[..16].fill(-32.0);
    want[3] = 5.0;
    want[240..].fill(48.0);
    want[128 + 96 + 20] = 0.5 * -3.0 * 31.0;
    assert_eq!(got, want);
}

#[test]
fn iq4_nl_looks_codes_up_and_keeps_low_nibbles_first() {
    // Every code once in the low nibbles and once, backwards, in the high ones.
    let qs: Vec<u8> = (0..16).map(|code| code | (15 - code) << 4).collect();
    let got = ours(GgmlType::IQ4_NL, &[&scale(0.5)[..], &qs].concat());
    let halves = [
        -63.5, -52.0, -41.5, -32.5, -24.5, -17.5, -11.0, -5.0, 0.5, 6.5, 12.5, 19.0, 26.5, 34.5,
        44.5, 56.5,
    ];
    assert_eq!(got[..16], halves);
    let backwards: Vec<f32> = halves.into_iter().rev().collect();
    assert_eq!(got[16..], backwards);
}

#[test]
fn mxfp4_multiplies_e2m1_floats_by_a_power_of_two() {
    let qs: Vec<u8> = (0..16).map(|code| code | (15 - code) << 4).collect();
    let block = |e: u8| [&[e][..], &qs].concat();
    let e2m1 = [
        0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
    ];
    // 127 is the bias, so that its scale is 1; 255 would be NaN in the format, but not in ggml.
    for (e, scale) in [
        (127, 1.0),
        (130, 8.0),
        (120, 1.0 / 128.0),
        (2, 2.0_f32.powi(-125)),
        (1, 2.0_f32.powi(-126)),
        (0, 2.0_f32.powi(-126) / 2.0),
        (252, 2.0_f32.powi(125)),
    ] {
        let got = ours(GgmlType::MXFP4, &block(e));
        assert_eq!(got[..16], e2m1.map(|value| value * scale), "{e}");
        let backwards: Vec<f32> = e2m1.iter().rev().map(|value| value * scale).collect();
        assert_eq!(got[16..], backwards, "{e}");
    }
    let largest = ours(GgmlType::MXFP4, &block(255));
    assert_eq!(largest[1], 2.0_f32.powi(127));
    assert_eq!(largest[7], f32::INFINITY);
    // The code of -0 means 0, as in ggml.
    assert!(largest[8].is_sign_positive());
}

#[test]
fn float_types_convert() {
    assert_eq!(ours(GgmlType::F32, &1.1_f32.to_le_bytes()), [1.1]);
    assert_eq!(ours(GgmlType::F16, &[0x00, 0x3c, 0x00, 0xc0]), [1.0, -2.0]);
    assert_eq!(
        ours(GgmlType::BF16, &[0x80, 0x3f, 0x20, 0xc1]),
        [1.0, -10.0]
    );
}

#[test]
fn rejects_partial_blocks_and_outputs_of_another_length() {
    let got = dequantize(GgmlType::Q4_0, &[0; 19], &mut [0.0; 32]);
    let partial = QuantError::PartialBlock {
        ty: GgmlType::Q4_0,
        bytes: 19,
        block_bytes: 18,
    };
    assert_eq!(got, Err(partial));
    for found in [0, 31, 33, 64] {
        let got = dequantize(GgmlType::Q4_0, &[0; 18], &mut vec![0.0; found]);
        assert_eq!(
            got,
            Err(QuantError::Length {
                ty: GgmlType::Q4_0,
                expected: 32,
                found
            })
        );
    }
    assert_eq!(dequantize(GgmlType::Q6_K, &[], &mut []), Ok(()));
}

#[test]
fn types_round_trip_through_their_ids_and_name_the_others() {
    for ty in GgmlType::ALL {
        assert_eq!(GgmlType::from_id(ty.id()), Some(ty));
        assert_eq!(GgmlType::name_of_id(ty.id()), Some(ty.name()));
        let row = ty.row_bytes(ty.block_elements() * 3);
        assert_eq!(row, Some(ty.block_bytes() * 3));
    }
    for (ty, dtype) in candle_types() {
        assert_eq!(ty.block_elements(), dtype.block_size() as u64, "{ty}");
        assert_eq!(ty.block_bytes(), dtype.type_size() as u64, "{ty}");
    }
    let sizes = |ty: GgmlType| (ty.id(), ty.block_elements(), ty.block_bytes());
    assert_eq!(sizes(GgmlType::IQ4_NL), (20, 32, 18));
    assert_eq!(sizes(GgmlType::MXFP4), (39, 32, 17));
    assert_eq!(GgmlType::from_id(40), None);
    assert_eq!(GgmlType::name_of_id(40), Some("NVFP4"));
    assert_eq!(GgmlType::Q4_K.row_bytes(257), None);
    assert_eq!(GgmlType::F32.row_bytes(u64::MAX), None);
}
