//! Dequantizers against candle's, and against blocks worked out by hand.

mod common;

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use common::Random;
use half::f16;
use tokenbrook::gguf::GgmlType;
use tokenbrook::quant::{QuantError, dequantize};

fn dtype(ty: GgmlType) -> GgmlDType {
    match ty {
        GgmlType::F32 => GgmlDType::F32,
        GgmlType::F16 => GgmlDType::F16,
        GgmlType::BF16 => GgmlDType::BF16,
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q8_1 => GgmlDType::Q8_1,
        GgmlType::Q2_K => GgmlDType::Q2K,
        GgmlType::Q3_K => GgmlDType::Q3K,
        GgmlType::Q4_K => GgmlDType::Q4K,
        GgmlType::Q5_K => GgmlDType::Q5K,
        GgmlType::Q6_K => GgmlDType::Q6K,
        GgmlType::Q8_K => GgmlDType::Q8K,
    }
}

fn ours(ty: GgmlType, blocks: &[u8]) -> Vec<f32> {
    let elements = blocks.len() as u64 / ty.block_bytes() * ty.block_elements();
    let mut out = vec![f32::NAN; usize::try_from(elements).expect("a small tensor")];
    dequantize(ty, blocks, &mut out).expect("whole blocks");
    out
}

fn candle(ty: GgmlType, blocks: &[u8], elements: usize) -> Vec<f32> {
    let dequantized = QStorage::from_data(Cow::Borrowed(blocks), &Device::Cpu, dtype(ty))
        .and_then(|storage| QTensor::new(storage, elements))
        .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.to_vec1::<f32>());
    dequantized.expect("candle reads the blocks")
}

/// Equal bit by bit, except that any NaN is like any other.
fn assert_same(ty: GgmlType, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{ty} element {i}: ours {got}, candle's {want}");
    }
}

#[test]
fn every_type_equals_candle_on_blocks_that_candle_quantized() {
    let mut random = Random(3);
    let values: Vec<f32> = (0..7 * 256).map(|_| random.float() * 3.0).collect();
    let tensor = Tensor::new(&*values, &Device::Cpu).expect("a tensor");
    for ty in GgmlType::ALL {
        let quantized = QTensor::quantize(&tensor, dtype(ty)).expect("candle quantizes");
        let blocks = quantized.data().expect("candle's blocks").into_owned();
        let got = ours(ty, &blocks);
        assert_same(ty, &got, &candle(ty, &blocks, values.len()));
        let worst = got
            .iter()
            .zip(&values)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1.5, "{ty}: off by {worst}");
    }
}

#[test]
fn every_type_equals_candle_on_blocks_of_random_bytes() {
    let mut random = Random(5);
    for ty in GgmlType::ALL {
        let (bytes, elements) = (ty.block_bytes(), ty.block_elements());
        let blocks = random.bytes(usize::try_from(bytes * 101).expect("small"));
        let elements = usize::try_from(elements * 101).expect("small");
        assert_same(ty, &ours(ty, &blocks), &candle(ty, &blocks, elements));
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
        assert_eq!(ty.block_elements(), dtype(ty).block_size() as u64, "{ty}");
        assert_eq!(ty.block_bytes(), dtype(ty).type_size() as u64, "{ty}");
        let row = ty.row_bytes(ty.block_elements() * 3);
        assert_eq!(row, Some(ty.block_bytes() * 3));
    }
    assert_eq!(GgmlType::from_id(39), None);
    assert_eq!(GgmlType::Q4_K.row_bytes(257), None);
    assert_eq!(GgmlType::F32.row_bytes(u64::MAX), None);
}
