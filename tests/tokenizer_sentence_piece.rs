//! SentencePiece-style vocabularies: ids against Hugging Face's, bytes, spaces and bad files.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tokenbrook::tokenizer::{Detokenizer, Tokenizer, TokenizerError, Vocabulary};

#[derive(Deserialize)]
struct Fixture {
    vocab_size: usize,
    unknown: u32,
    add_space_prefix: bool,
    tokens: Vec<(usize, String, i32, f32)>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    special_ids: Vec<u32>,
}

fn no_merges() -> Vec<String> {
    Vec::new()
}

fn llama() -> Vocabulary {
    Vocabulary {
        model: "llama".to_owned(),
        pre: "default".to_owned(),
        ..Vocabulary::default()
    }
}

/// The tokens that the corpus needs, at their real ids.
fn fixture(data: &str) -> (Tokenizer, Vec<Case>) {
    let fixture: Fixture = serde_json::from_str(data).expect("valid data");
    let mut tokens = vec![String::new(); fixture.vocab_size];
    let mut token_types = vec![5; fixture.vocab_size];
    let mut scores = vec![0.0; fixture.vocab_size];
    for (id, text, kind, score) in fixture.tokens {
        tokens[id] = text;
        token_types[id] = kind;
        scores[id] = score;
    }
    let vocabulary = Vocabulary {
        token_types,
        scores,
        unknown: Some(fixture.unknown),
        add_space_prefix: Some(fixture.add_space_prefix),
        ..llama()
    };
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &no_merges()).expect("valid");
    (tokenizer, fixture.cases)
}

fn gemma3() -> (Tokenizer, Vec<Case>) {
    fixture(include_str!("data/tokenizer/gemma3.json"))
}

fn llama2() -> (Tokenizer, Vec<Case>) {
    fixture(include_str!("data/tokenizer/llama2.json"))
}

fn assert_ids(tokenizer: &Tokenizer, cases: &[Case]) {
    assert_eq!(cases.len(), 58);
    for case in cases {
        let (text, plain) = (&case.text, tokenizer.encode(&case.text, false));
        assert_eq!(plain.as_ref(), Ok(&case.ids), "{text:?}");
        let special = tokenizer.encode(text, true);
        assert_eq!(special.as_ref(), Ok(&case.special_ids), "{text:?}");
        // U+2581 in a text is a space to the model.
        let spaced = text.replace('\u{2581}', " ");
        assert_eq!(tokenizer.decode(&case.ids), spaced);
    }
}

#[test]
fn gemma3_ids_equal_hugging_face() {
    let (tokenizer, cases) = gemma3();
    assert_ids(&tokenizer, &cases);
}

#[test]
fn llama2_ids_equal_hugging_face() {
    let (tokenizer, cases) = llama2();
    assert_ids(&tokenizer, &cases);
}
