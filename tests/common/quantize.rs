//! Quantizers for tests: candle's, and plain ones for the types that it does not write.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use half::f16;
use tokenbrook::gguf::GgmlType;
use tokenbrook::quant::dequantize;

/// The name that candle gives to a type, if it reads it.
pub(crate) fn candle_type(ggml_type: GgmlType) -> Option<GgmlDType> {
    let candle_type = match ggml_type {
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
        GgmlType::IQ4_NL | GgmlType::MXFP4 => return None,
    };
    Some(candle_type)
}

/// Blocks of `values [_, cols]`.
pub(crate) fn quantize(ggml_type: GgmlType, values: &[f32], cols: usize) -> Vec<u8> {
    let Some(candle_type) = candle_type(ggml_type) else {
        let (blocks, rest) = values.as_chunks::<32>();
        assert!(rest.is_empty(), "whole blocks");
        return blocks.iter().flat_map(|b| nearest(ggml_type, b)).collect();
    };
    let shape = (values.len() / cols, cols);
    let tensor = Tensor::from_slice(values, shape, &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, candle_type)
        .unwrap()
        .data()
        .unwrap()
        .into_owned()
}

/// A block of 4-bit codes: a scale that reaches the largest value, and for each value the code
/// that means the nearest one.
fn nearest(ggml_type: GgmlType, values: &[f32; 32]) -> Vec<u8> {
    let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let mut block = match ggml_type {
        GgmlType::IQ4_NL => f16::from_f32(largest / 113.0).to_le_bytes().to_vec(),
        // The largest code means 6, which is 1.5 times 2^2; exponents have a bias of 127.
        GgmlType::MXFP4 => {
            let exponent = (largest.to_bits() >> 23).saturating_sub(2);
            vec![u8::try_from(exponent).unwrap()]
        }
        other => panic!("{other} has no 4-bit codes after one scale"),
    };
    // Byte `i` of these holds code `i` twice, so that the first 16 elements are all codes.
    let all: Vec<u8> = (0..16).map(|code| code | code << 4).collect();
    let mut meanings = [0.0_f32; 32];
    dequantize(ggml_type, &[&block[..], &all].concat(), &mut meanings).unwrap();
    let code = |value: f32| {
        (0..16_u8)
            .min_by(|&a, &b| {
                let distance = |code: u8| (meanings[usize::from(code)] - value).abs();
                distance(a).total_cmp(&distance(b))
            })
            .unwrap()
    };
    block.extend((0..16).map(|i| code(values[i]) | code(values[i + 16]) << 4));
    block
}
