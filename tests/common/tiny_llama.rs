//! A Llama of a few thousand seeded weights over a byte vocabulary: it says nothing, but runs
//! through every part of a session at once.

use super::Random;
use super::gguf_builder::GgufBuilder;

pub(crate) const CONTEXT: usize = 300;
pub(crate) const EOS: u32 = 2;
const HIDDEN: u64 = 24;
const INTERMEDIATE: u64 = 40;
const HEADS: u64 = 6;
const KV_HEADS: u64 = 2;
const LAYERS: u64 = 2;
const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
    <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The byte-level alphabet in byte order, as GPT-2 defines it.
fn byte_alphabet() -> Vec<String> {
    let mut next = 256_u32;
    (0..=255_u8)
        .map(|byte| {
            let printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
            let code = if printable {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).expect("a character").to_string()
        })
        .collect()
}

/// Metadata without tensors, for tests that change it.
pub(crate) fn metadata() -> GgufBuilder {
    metadata_with(|builder| builder)
}

/// Metadata in which `change` may say things before the usual keys.
pub(crate) fn metadata_with(change: impl Fn(GgufBuilder) -> GgufBuilder) -> GgufBuilder {
    metadata_of(&[], 1, TEMPLATE, change)
}

/// As [`metadata_with`], for a vocabulary with `more` tokens of one `kind` behind those of all
/// bytes, and a template.
fn metadata_of(
    more: &[String],
    kind: i32,
    template: &str,
    change: impl Fn(GgufBuilder) -> GgufBuilder,
) -> GgufBuilder {
    let mut tokens: Vec<String> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        .map(str::to_owned)
        .to_vec();
    tokens.extend(byte_alphabet());
    tokens.extend_from_slice(more);
    let types: Vec<i32> = (0..tokens.len())
        .map(|id| match id {
            0..3 => 3,
            3..259 => 1,
            _ => kind,
        })
        .collect();
    let small = |value: u64| u32::try_from(value).expect("a small number");
    change(GgufBuilder::v3())
        .str("general.name", "Tiny")
        .u32("llama.context_length", small(CONTEXT as u64))
        .u32("llama.embedding_length", small(HIDDEN))
        .u32("llama.feed_forward_length", small(INTERMEDIATE))
        .u32("llama.block_count", small(LAYERS))
        .u32("llama.attention.head_count", small(HEADS))
        .u32("llama.attention.head_count_kv", small(KV_HEADS))
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .strings("tokenizer.ggml.merges", &[] as &[&str])
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", EOS)
        .bool("tokenizer.ggml.add_bos_token", false)
        .str("tokenizer.chat_template", template)
}

/// Names and shapes of all tensors.
pub(crate) fn tensors() -> Vec<(String, Vec<u64>)> {
    let kv = HIDDEN / HEADS * KV_HEADS;
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), vec![HIDDEN, 259]),
        ("output_norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("attn_norm.weight", vec![HIDDEN]),
            ("attn_q.weight", vec![HIDDEN, HIDDEN]),
            ("attn_k.weight", vec![HIDDEN, kv]),
            ("attn_v.weight", vec![HIDDEN, kv]),
            ("attn_output.weight", vec![HIDDEN, HIDDEN]),
            ("ffn_norm.weight", vec![HIDDEN]),
            ("ffn_gate.weight", vec![HIDDEN, INTERMEDIATE]),
            ("ffn_up.weight", vec![HIDDEN, INTERMEDIATE]),
            ("ffn_down.weight", vec![INTERMEDIATE, HIDDEN]),
        ] {
            tensors.push((format!("blk.{layer}.{name}"), shape));
        }
    }
    tensors
}

/// Adds seeded weights.
pub(crate) fn with_tensors(
    mut builder: GgufBuilder,
    tensors: &[(String, Vec<u64>)],
) -> GgufBuilder {
    let mut random = Random(11);
    for (name, shape) in tensors {
        let count: u64 = shape.iter().product();
        let mut value = || {
            let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
            #[expect(clippy::cast_possible_truncation, reason = "a weight")]
            let value = if shape.len() == 1 {
                1.0 + 0.2 * unit as f32
            } else {
                unit as f32
            };
            value
        };
        let values: Vec<f32> = (0..count).map(|_| value()).collect();
        builder = builder.tensor_f32(name, shape, &values);
    }
    builder
}

/// The whole file of a model with `more` tokens.
pub(crate) fn file_with_tokens(more: &[String]) -> Vec<u8> {
    file_of(more, 1, TEMPLATE)
}

/// The whole file of a model with a chat template and `controls` more control tokens.
pub(crate) fn file_with_template(template: &str, controls: &[&str]) -> Vec<u8> {
    let controls: Vec<_> = controls.iter().map(|text| (*text).to_owned()).collect();
    file_of(&controls, 3, template)
}

fn file_of(more: &[String], kind: i32, template: &str) -> Vec<u8> {
    let architecture = |builder: GgufBuilder| builder.str("general.architecture", "llama");
    let named = metadata_of(more, kind, template, architecture);
    let mut tensors = tensors();
    tensors[0].1[1] += more.len() as u64;
    with_tensors(named, &tensors).build()
}

/// The whole file.
pub(crate) fn file() -> Vec<u8> {
    let named = metadata_with(|builder| builder.str("general.architecture", "llama"));
    with_tensors(named, &tensors()).build()
}
