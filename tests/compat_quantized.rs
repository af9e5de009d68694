//! Quantized files of candle-transformers' architectures: parts of tensors, stacked tensors and
//! the added token lie where they should in blocks too.
#![cfg(feature = "compat")]

mod common;

use common::Random;
use common::compat::{bare, step, try_bare};
use common::gguf_builder::GgufBuilder;
use common::quantize::quantize;
use tokenbrook::gguf::GgmlType;
use tokenbrook::quant::dequantize;

const C: u64 = 64;
const F: u64 = 96;
const D: u64 = 32;
const VOCAB: u64 = 37;
const EXPERTS: u64 = 3;

/// Tensors of one layer of each kind.
fn tensors(architecture: &str) -> Vec<(&'static str, Vec<u64>)> {
    let mut tensors = vec![
        ("token_embd.weight", vec![C, VOCAB]),
        ("output_norm.weight", vec![C]),
        ("blk.0.attn_norm.weight", vec![C]),
    ];
    tensors.extend(match architecture {
        "phi2" => vec![
            ("output.weight", vec![C, VOCAB]),
            ("output.bias", vec![VOCAB]),
            ("output_norm.bias", vec![C]),
            ("blk.0.attn_norm.bias", vec![C]),
            ("blk.0.attn_q.weight", vec![C, C]),
            ("blk.0.attn_k.weight", vec![C, C]),
            ("blk.0.attn_v.weight", vec![C, C]),
            ("blk.0.attn_q.bias", vec![C]),
            ("blk.0.attn_k.bias", vec![C]),
            ("blk.0.attn_v.bias", vec![C]),
            ("blk.0.attn_output.weight", vec![C, C]),
            ("blk.0.attn_output.bias", vec![C]),
            ("blk.0.ffn_up.weight", vec![C, F]),
            ("blk.0.ffn_up.bias", vec![F]),
            ("blk.0.ffn_down.weight", vec![F, C]),
            ("blk.0.ffn_down.bias", vec![C]),
        ],
        "llama" => vec![
            ("blk.0.ffn_norm.weight", vec![C]),
            ("blk.0.attn_q.weight", vec![C, C]),
            ("blk.0.attn_k.weight", vec![C, D]),
            ("blk.0.attn_v.weight", vec![C, D]),
            ("blk.0.attn_output.weight", vec![C, C]),
            ("blk.0.ffn_gate_inp.weight", vec![C, EXPERTS]),
            ("blk.0.ffn_gate_exps.weight", vec![C, F, EXPERTS]),
            ("blk.0.ffn_up_exps.weight", vec![C, F, EXPERTS]),
            ("blk.0.ffn_down_exps.weight", vec![F, C, EXPERTS]),
        ],
        _ => vec![
            ("blk.0.ffn_norm.weight", vec![C]),
            ("blk.0.ffn_gate.weight", vec![C, F]),
            ("blk.0.ffn_up.weight", vec![C, F]),
            ("blk.0.ffn_down.weight", vec![F, C]),
            ("blk.0.shortconv.conv.weight", vec![3, C]),
            ("blk.0.shortconv.in_proj.weight", vec![C, 3 * C]),
            ("blk.0.shortconv.out_proj.weight", vec![C, C]),
        ],
    });
    tensors
}

fn metadata(architecture: &str) -> GgufBuilder {
    let key = |name: &str| format!("{architecture}.{name}");
    let words: Vec<String> = (0..VOCAB).map(|id| format!("w{id}")).collect();
    let size = |value: u64| u32::try_from(value).expect("it is small");
    let builder = GgufBuilder::v3()
        .str("general.architecture", architecture)
        .u32(&key("embedding_length"), size(C))
        .u32(&key("feed_forward_length"), size(F))
        .u32(&key("block_count"), 1)
        .u32(&key("context_length"), 64)
        .u32(&key("attention.head_count"), size(C / D))
        .f32(&key("attention.layer_norm_epsilon"), 1e-5)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-5)
        .u32(&key("rope.dimension_count"), size(D))
        .strings("tokenizer.ggml.tokens", &words);
    match architecture {
        "phi2" => builder,
        "llama" => builder
            .u32(&key("attention.head_count_kv"), 1)
            .u32(&key("expert_count"), size(EXPERTS))
            // All of them: rounding must not choose others.
            .u32(&key("expert_used_count"), size(EXPERTS)),
        _ => builder
            .u32s(&key("attention.head_count_kv"), &[0])
            .u32(&key("shortconv.l_cache"), 3),
    }
}

/// The same weights twice: in blocks of a type, and as the f32 that these stand for.
fn files(architecture: &str, ggml_type: GgmlType) -> [Vec<u8>; 2] {
    let mut random = Random(91);
    let (mut blocks, mut plain) = (metadata(architecture), metadata(architecture));
    for (name, shape) in tensors(architecture) {
        let count: u64 = shape.iter().product();
        let is_norm = name.contains("norm.weight");
        let mut values: Vec<f32> = (0..count)
            // Small, so that layers do not blow up what rounding changes.
            .map(|_| 0.1 * random.float() + if is_norm { 1.0 } else { 0.0 })
            .collect();
        let is_matrix = shape.len() > 1 && !name.contains("conv.conv") && !name.contains("_inp");
        if is_matrix {
            let cols = usize::try_from(shape[0]).expect("it is small");
            let bytes = quantize(ggml_type, &values, cols);
            dequantize(ggml_type, &bytes, &mut values).expect("whole blocks");
            blocks = blocks.tensor(name, ggml_type, &shape, bytes);
        } else {
            blocks = blocks.tensor_f32(name, &shape, &values);
        }
        plain = plain.tensor_f32(name, &shape, &values);
    }
    [blocks.build(), plain.build()]
}

#[test]
fn blocks_mean_what_their_values_mean() {
    let ids: Vec<u32> = (0..19).map(|i| i * 7 % 37).collect();
    for architecture in ["phi2", "llama", "lfm2"] {
        for (ggml_type, tolerance) in [
            (GgmlType::Q8_0, 0.02),
            (GgmlType::Q4_0, 0.02),
            (GgmlType::F16, 1e-5),
        ] {
            let [blocks, plain] = files(architecture, ggml_type);
            let mut model = bare(&blocks);
            let got = step(&mut model, &ids, 0);
            let want = step(&mut bare(&plain), &ids, 0);
            let spread = want.iter().fold(0.0_f32, |most, z| most.max(z.abs()));
            let differences = got.iter().zip(&want).map(|(a, b)| (a - b).abs());
            let worst = differences.fold(0.0_f32, f32::max) / spread;
            eprintln!("{architecture} in {ggml_type:?}: {worst}");
            assert!(
                worst <= tolerance,
                "{architecture} in {ggml_type:?}: {worst}"
            );
            // What came before is forgotten, also where a single token starts anew.
            let again = step(&mut model, &ids[3..4], 0);
            assert_eq!(
                again,
                step(&mut bare(&blocks), &ids[3..4], 0),
                "{architecture}"
            );
        }
    }
}

#[test]
fn refuses_parts_beside_their_whole() {
    let mut builder = metadata("phi2");
    let whole = ("blk.0.attn_qkv.weight", vec![C, 3 * C]);
    for (name, shape) in tensors("phi2").into_iter().chain([whole]) {
        let count: u64 = shape.iter().product();
        let values = vec![0.0; usize::try_from(count).expect("it is small")];
        builder = builder.tensor_f32(name, &shape, &values);
    }
    let error = try_bare(&builder.build()).err().expect("it is refused");
    assert_eq!(error.code(), "unsupported-architecture");
    assert!(error.to_string().contains("blk.0.attn_"), "{error}");
}

#[test]
fn refuses_types_that_candle_does_not_read() {
    let [blocks, _] = files("lfm2", GgmlType::IQ4_NL);
    let error = try_bare(&blocks).err().expect("it is refused");
    assert_eq!(error.code(), "unsupported-quantization");
    assert!(error.to_string().contains("IQ4_NL"), "{error}");
}
