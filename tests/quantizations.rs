//! A model file of every quantization: its logits on the CPU are the reference's.

mod common;

use common::Random;
use common::gguf_builder::GgufBuilder;
use common::model::BareModel;
use common::quantize::quantize;
use tokenbrook::backend::Backend;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::gguf::GgmlType;

/// Blocks of every type divide these columns.
const COLS: u64 = 256;
const INTERMEDIATE: u64 = 512;
/// Rows of keys, and of values.
const KV: u64 = 64;
/// No multiple of the rows that a product takes at a time.
const VOCAB: u64 = 37;

/// A Llama of one layer with a tied output, all matrices of this type.
fn file(ty: GgmlType) -> Vec<u8> {
    let tokens: Vec<String> = (0..VOCAB).map(|id| id.to_string()).collect();
    let small = |value: u64| u32::try_from(value).expect("a small number");
    let mut builder = GgufBuilder::v3()
        .str("general.architecture", "llama")
        .u32("llama.context_length", 64)
        .strings("tokenizer.ggml.tokens", &tokens)
        .u32("llama.embedding_length", small(COLS))
        .u32("llama.feed_forward_length", small(INTERMEDIATE))
        .u32("llama.block_count", 1)
        .u32("llama.attention.head_count", 8)
        .u32("llama.attention.head_count_kv", 2)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let mut random = Random(20);
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        let gains: Vec<f32> = (0..COLS).map(|_| 1.0 + 0.3 * random.float()).collect();
        builder = builder.tensor_f32(&format!("{name}.weight"), &[COLS], &gains);
    }
    for (name, cols, rows) in [
        ("token_embd", COLS, VOCAB),
        ("blk.0.attn_q", COLS, COLS),
        ("blk.0.attn_k", COLS, KV),
        ("blk.0.attn_v", COLS, KV),
        ("blk.0.attn_output", COLS, COLS),
        ("blk.0.ffn_gate", COLS, INTERMEDIATE),
        ("blk.0.ffn_up", COLS, INTERMEDIATE),
        ("blk.0.ffn_down", INTERMEDIATE, COLS),
    ] {
        let values: Vec<f32> = (0..rows * cols).map(|_| random.float() * 0.12).collect();
        let blocks = quantize(ty, &values, usize::try_from(cols).expect("small"));
        builder = builder.tensor(format!("{name}.weight"), ty, &[cols, rows], blocks);
    }
    builder.build()
}

/// Logits after a prompt and after one more token.
fn logits<B: Backend>(backend: B, file: &[u8]) -> [Vec<f32>; 2] {
    let mut model = BareModel::load(backend, file, 16, 32);
    let block = model
        .backend
        .allocate_block(Cache::Full)
        .expect("memory is there");
    let prompt: Vec<u32> = (0..11).map(|i| i * 7 % 37).collect();
    [
        model.logits(&prompt, 0, &[block]),
        model.logits(&[5], prompt.len(), &[block]),
    ]
}

fn top(logits: &[f32]) -> usize {
    (0..logits.len())
        .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
        .expect("there are logits")
}

#[test]
fn a_file_of_every_type_has_the_logits_of_the_reference() {
    for ty in GgmlType::ALL {
        let file = file(ty);
        let want = logits(ReferenceBackend::new(), &file);
        let got = logits(CpuBackend::new(Precision::Exact), &file);
        for (want, got) in want.iter().zip(&got) {
            assert_eq!(want.len() as u64, VOCAB);
            let largest = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            assert!(largest > 0.3, "{ty}: logits too small to compare");
            let worst = want
                .iter()
                .zip(got)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-5 * largest, "{ty}: off by {worst:e}");
            assert_eq!(top(want), top(got), "{ty}");
        }
    }
}

/// How far rounding the weights to a type may move the logits, relative to their size: about
/// one and a half times what these weights show. Logits of another model would be off by 1.4.
fn rounding(ty: GgmlType) -> f32 {
    match ty {
        GgmlType::F32 => 1e-6,
        GgmlType::F16 => 2e-3,
        GgmlType::BF16 => 1e-2,
        GgmlType::Q8_0 | GgmlType::Q8_1 | GgmlType::Q8_K => 0.03,
        GgmlType::Q6_K => 0.1,
        GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q5_K => 0.2,
        GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q4_K | GgmlType::IQ4_NL => 0.5,
        GgmlType::Q3_K => 0.6,
        GgmlType::MXFP4 => 0.75,
        GgmlType::Q2_K => 1.0,
    }
}

#[test]
fn every_type_stays_near_the_floats() {
    // Guards the comparison above: both backends read some types by the same dequantizer.
    let want = logits(ReferenceBackend::new(), &file(GgmlType::F32));
    let squares = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>();
    for ty in GgmlType::ALL {
        let got = logits(CpuBackend::new(Precision::Exact), &file(ty));
        for (want, got) in want.iter().zip(&got) {
            let rest: Vec<f32> = want.iter().zip(got).map(|(a, b)| a - b).collect();
            let relative = (squares(&rest) / squares(want)).sqrt();
            assert!(relative < rounding(ty), "{ty}: off by {relative}");
        }
    }
}
