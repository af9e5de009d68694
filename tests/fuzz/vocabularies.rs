//! Files whose tokenizer metadata lies.

use std::time::Duration;

use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::tokenizer::SUPPORTED_PRE_TOKENIZERS;

use crate::common::Random;
use crate::common::gguf_builder::GgufBuilder;
use crate::common::model::session_from_bytes;
use crate::common::tiny_llama;
use crate::fuzz;
use crate::pieces::{character, one, text};
use crate::stopwatch::Stopwatch;

const TOKENS: &[&str] = &[
    "a",
    "b",
    "ab",
    "Ġ",
    "Ġa",
    "▁",
    "▁a",
    "<0x00>",
    "<0x41>",
    "<0xFF>",
    "<0xGG>",
    "<s>",
    "</s>",
    "<unk>",
    "<|im_end|>",
    "",
    " ",
    "\n",
    "é",
    "Ã©",
    "\u{10ffff}",
    "aaaaaaaaaaaaaaaa",
    "\0",
];

/// Bytes of a token: usual, random, invalid UTF-8, or long.
fn token(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => {
            let count = random.below(6);
            random.bytes(count)
        }
        1 => vec![0xff, 0xfe],
        2 => "x".repeat(random.below(5000)).into_bytes(),
        3 | 4 => (0..random.below(5))
            .map(|_| character(random))
            .collect::<String>()
            .into_bytes(),
        _ => one(random, TOKENS).as_bytes().to_vec(),
    }
}

fn tokens(random: &mut Random) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    if random.below(2) == 0 {
        // All bytes, as a SentencePiece vocabulary has them.
        tokens.push(b"<unk>".to_vec());
        tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>").into_bytes()));
    }
    let distinct = random.below(3) > 0;
    for _ in 0..random.below(40) {
        let token = token(random);
        if !distinct || !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    tokens
}

fn merges(random: &mut Random) -> Vec<String> {
    let count = random.below(12);
    let merge = |random: &mut Random| match random.below(4) {
        0 => text(random, TOKENS, 6),
        1 => "a b".to_owned(),
        2 => format!("{} {}", one(random, TOKENS), one(random, TOKENS)),
        _ => "a".repeat(random.below(400)) + " b",
    };
    (0..count).map(|_| merge(random)).collect()
}

/// Keys of a tokenizer, most of them well-formed by themselves, and the token of unknown text.
fn metadata(random: &mut Random) -> (GgufBuilder, Option<u32>) {
    let tokens = tokens(random);
    let mut count = tokens.len();
    if random.below(6) == 0 {
        count = random.below(60);
    }
    let pre = match random.below(4) {
        0 => one(random, &["", "default", "none", "llama-spm"]),
        _ => SUPPORTED_PRE_TOKENIZERS[random.below(SUPPORTED_PRE_TOKENIZERS.len())],
    };
    let model = one(
        random,
        &["gpt2", "gpt2", "llama", "llama", "bert", "t5", ""],
    );
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mut file = GgufBuilder::v3()
        .str("general.architecture", "llama")
        .u32("llama.context_length", 64)
        .u32("llama.embedding_length", 24)
        .u32("llama.feed_forward_length", 40)
        .u32("llama.block_count", 2)
        .u32("llama.attention.head_count", 6)
        .u32("llama.attention.head_count_kv", 2)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .str("tokenizer.ggml.model", model)
        .str("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", &tokens);
    if random.below(4) > 0 {
        let types: Vec<i32> = (0..count)
            .map(|_| match random.below(9) {
                0 => i32::from_le_bytes(random.next().to_le_bytes()[..4].try_into().expect("four")),
                kind => [1, 1, 1, 1, 2, 3, 4, 6, 5][kind],
            })
            .collect();
        file = file.i32s("tokenizer.ggml.token_type", &types);
    }
    if random.below(4) > 0 {
        let scores: Vec<f32> = (0..count)
            .map(|_| match random.below(6) {
                0 => f32::from_bits(small(random.next() >> 32)),
                _ => random.float() * 9.0,
            })
            .collect();
        file = file.f32s("tokenizer.ggml.scores", &scores);
    }
    if random.below(4) > 0 {
        file = file.strings("tokenizer.ggml.merges", &merges(random));
    }
    let mut unknown = None;
    for key in ["bos", "eos", "eot", "eom", "unknown", "padding"] {
        if random.below(3) == 0 {
            let id = match random.below(4) {
                0 => small(random.next() >> 32),
                _ => small(random.below(tokens.len() + 1) as u64),
            };
            file = file.u32(&format!("tokenizer.ggml.{key}_token_id"), id);
            unknown = if key == "unknown" { Some(id) } else { unknown };
        }
    }
    for key in ["add_bos_token", "add_eos_token", "add_space_prefix"] {
        if random.below(3) == 0 {
            file = file.bool(&format!("tokenizer.ggml.{key}"), random.below(2) == 0);
        }
    }
    let template = text(random, &["{{ messages }}", "{% for", "{{ bos_token }}"], 5);
    let file = file.str("tokenizer.chat_template", template);
    let mut tensors = tiny_llama::tensors();
    tensors[0].1[1] = tokens.len() as u64;
    (tiny_llama::with_tensors(file, &tensors), unknown)
}

#[test]
fn files_with_hostile_vocabularies_load_or_are_refused() {
    let (mut loaded, mut refused) = (0, 0);
    fuzz("vocabularies", 4000, |random| {
        let (file, unknown) = metadata(random);
        let file = file.build();
        let watch = Stopwatch::start();
        match session_from_bytes(CpuBackend::new(Precision::Exact), &file, None) {
            Ok(session) => {
                loaded += 1;
                let tokenizer = session.tokenizer();
                for special in [false, true] {
                    let text = text(random, TOKENS, 30);
                    if let Ok(ids) = tokenizer.encode(&text, special) {
                        let known = |id: &u32| (*id as usize) < tokenizer.vocab_size();
                        assert!(ids.iter().all(known), "{ids:?}");
                        // A file may call its bytes, and its token for what it does not know,
                        // what it likes: text has to become them.
                        let is_text = |id: u32| {
                            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
                            let is_unknown = Some(id) == unknown || bytes == b"<unk>";
                            is_unknown || bytes.starts_with(b"<0x")
                        };
                        let is_control = |id: &u32| tokenizer.is_control(*id) && !is_text(*id);
                        assert!(special || !ids.iter().any(is_control), "{text:?}: {ids:?}");
                        tokenizer.decode(&ids);
                    }
                    tokenizer.encode_prompt(&text).ok();
                }
            }
            Err(error) => {
                refused += 1;
                assert_ne!(error.code(), "internal", "{error}");
            }
        }
        assert!(watch.elapsed() < Duration::from_secs(2));
    });
    // Most of what is random contradicts itself.
    assert!(loaded > 5 && refused > 100, "{loaded} {refused}");
}
