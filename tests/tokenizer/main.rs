//! Byte-level vocabularies: ids against Hugging Face's, special tokens, and bad files.

mod hugging_face;
mod json;
mod json_rejections;
mod rejections;
mod special_tokens;
#[path = "../common/stopwatch.rs"]
mod stopwatch;

use serde::Deserialize;
use tokenbrook::tokenizer::{Tokenizer, TokenizerError, Vocabulary};

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    #[serde(default)]
    special_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct SmolLm2 {
    vocab_size: usize,
    tokens: Vec<(usize, String, i32)>,
    merges: Vec<String>,
    cases: Vec<Case>,
}

fn gpt2(pre: &str) -> Vocabulary {
    Vocabulary {
        model: "gpt2".to_owned(),
        pre: pre.to_owned(),
        ..Vocabulary::default()
    }
}

/// The tokens of SmolLM2 that the corpus needs, at their real ids.
fn smollm2() -> (Tokenizer, Vec<Case>) {
    let fixture: SmolLm2 =
        serde_json::from_str(include_str!("../data/tokenizer/smollm2.json")).expect("valid data");
    let mut tokens = vec![String::new(); fixture.vocab_size];
    let mut token_types = vec![5; fixture.vocab_size];
    for (id, text, kind) in fixture.tokens {
        tokens[id] = text;
        token_types[id] = kind;
    }
    let vocabulary = Vocabulary {
        token_types,
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        padding: Some(2),
        add_bos: Some(false),
        add_space_prefix: Some(false),
        ..gpt2("smollm")
    };
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &fixture.merges).expect("valid");
    (tokenizer, fixture.cases)
}

/// All bytes as tokens 0 to 255.
fn byte_tokens() -> Vec<String> {
    let printable = |b: &u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut shifted = (0x100..).filter_map(char::from_u32);
    (0..=255_u8)
        .map(|b| {
            if printable(&b) {
                char::from(b)
            } else {
                shifted.next().expect("enough")
            }
        })
        .map(String::from)
        .collect()
}

/// Bytes, then `extra` tokens with their types.
fn with_extra(vocabulary: Vocabulary, extra: &[(&str, i32)]) -> Result<Tokenizer, TokenizerError> {
    let mut tokens = byte_tokens();
    let mut token_types = vec![1; tokens.len()];
    for (text, kind) in extra {
        tokens.push((*text).to_owned());
        token_types.push(*kind);
    }
    let merges: Vec<String> = Vec::new();
    Tokenizer::new(
        &Vocabulary {
            token_types,
            ..vocabulary
        },
        &tokens,
        &merges,
    )
}
