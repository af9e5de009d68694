//! Texts for tokenizers of every kind at hand.

use std::time::Duration;

use serde::Deserialize;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::tokenizer::{SUPPORTED_PRE_TOKENIZERS, Segment, Tokenizer, Vocabulary};

use crate::common::Random;
use crate::common::default_model;
use crate::common::model::session_from_file;
use crate::fuzz;
use crate::pieces::text;
use crate::stopwatch::Stopwatch;

const SPECIAL: &[&str] = &[
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<s>",
    "</s>",
    "<unk>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[TOOL_CALLS]",
    "<|begin_of_text|>",
    "<0x0A>",
    "<pad>",
    "<mask>",
    "<|control|>",
];

/// What decoding gives back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trip {
    /// The text, unless it has a byte that is no token.
    Exact,
    /// Another text: characters are composed first, or only some are known.
    Other,
}

#[derive(Deserialize)]
struct SentencePiece {
    vocab_size: usize,
    unknown: u32,
    add_space_prefix: bool,
    tokens: Vec<(usize, String, i32, f32)>,
}

/// The part of a real SentencePiece vocabulary that its corpus needs.
fn sentence_piece(data: &str) -> Tokenizer {
    let fixture: SentencePiece = serde_json::from_str(data).expect("valid data");
    let mut tokens = vec![String::new(); fixture.vocab_size];
    let mut token_types = vec![5; fixture.vocab_size];
    let mut scores = vec![0.0; fixture.vocab_size];
    for (id, text, kind, score) in fixture.tokens {
        (tokens[id], token_types[id], scores[id]) = (text, kind, score);
    }
    let vocabulary = Vocabulary {
        model: "llama".to_owned(),
        pre: "default".to_owned(),
        token_types,
        scores,
        unknown: Some(fixture.unknown),
        add_space_prefix: Some(fixture.add_space_prefix),
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary, &tokens, &Vec::<String>::new()).expect("valid")
}

/// All bytes, a few merges and control tokens under a splitting rule.
fn byte_level(pre: &str) -> Tokenizer {
    let mut next = 256_u32;
    let mut tokens: Vec<String> = (0..=255_u8)
        .map(|byte| {
            let code = if matches!(byte, 33..=126 | 161..=172 | 174..=255) {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).expect("a character").to_string()
        })
        .collect();
    tokens.extend(["th", "Ġth", "the", "12", "123"].map(str::to_owned));
    let mut token_types = vec![1; tokens.len()];
    tokens.extend(SPECIAL.iter().map(|text| (*text).to_owned()));
    token_types.resize(tokens.len(), 3);
    let vocabulary = Vocabulary {
        model: "gpt2".to_owned(),
        pre: pre.to_owned(),
        token_types,
        ..Vocabulary::default()
    };
    let merges = ["t h", "Ġ th", "th e", "1 2", "12 3"]
        .map(str::to_owned)
        .to_vec();
    Tokenizer::new(&vocabulary, &tokens, &merges).expect("valid")
}

/// Whether a byte has a token of its own.
fn has_byte(tokenizer: &Tokenizer, byte: u8) -> bool {
    // Byte tokens come early in every vocabulary here.
    (0..600).any(|id| tokenizer.token_bytes(id) == Some(&[byte]))
}

fn check(name: &str, trip: Trip, tokenizer: &Tokenizer, random: &mut Random) {
    let text = text(random, SPECIAL, 40);
    let watch = Stopwatch::start();
    let ids = tokenizer
        .encode(&text, false)
        .unwrap_or_else(|why| panic!("{name}: {why}"));
    let took = watch.elapsed();
    assert!(took < Duration::from_secs(2), "{name} {took:?}: {text:?}");
    let control = ids.iter().find(|id| tokenizer.is_control(**id));
    assert_eq!(control, None, "{name}: {text:?} became a control token");
    let decoded = tokenizer.decode(&ids);
    match trip {
        Trip::Exact if text.bytes().all(|byte| has_byte(tokenizer, byte)) => {
            assert_eq!(decoded, text, "{name}");
        }
        Trip::Exact | Trip::Other => {}
    }
    let special = tokenizer.encode(&text, true).expect("it encodes as well");
    assert!(
        special
            .iter()
            .all(|id| (*id as usize) < tokenizer.vocab_size())
    );
    // Between a template's own words, a user's stay what they are.
    let segment = |text: &str, special| Segment {
        text: text.to_owned(),
        special,
    };
    let segments = [
        segment("<s>", true),
        segment(&text, false),
        segment("</s>", true),
    ];
    let whole = tokenizer.encode_segments(&segments).expect("it encodes");
    let controls = |ids: &[u32]| ids.iter().filter(|id| tokenizer.is_control(**id)).count();
    let own = tokenizer.encode_segments(&[segment("<s>", true), segment("</s>", true)]);
    assert_eq!(
        controls(&whole),
        controls(&own.expect("it encodes")),
        "{name}: {text:?}"
    );
    let any: Vec<u32> = (0..random.below(9))
        .map(|_| u32::try_from(random.next() >> 44).expect("20 bits"))
        .collect();
    tokenizer.decode(&any);
}

#[test]
fn texts_come_back_and_never_become_control_tokens() {
    let mut kinds: Vec<(String, Trip, Tokenizer)> = Vec::new();
    for pre in SUPPORTED_PRE_TOKENIZERS {
        let trip = match pre {
            // These compose characters first.
            "qwen2" | "command-r" | "deepseek-r1-qwen" => Trip::Other,
            _ => Trip::Exact,
        };
        kinds.push((pre.to_owned(), trip, byte_level(pre)));
    }
    for (name, trip, data) in [
        (
            "llama2",
            Trip::Other,
            include_str!("../data/tokenizer/llama2.json"),
        ),
        (
            "gemma3",
            Trip::Other,
            include_str!("../data/tokenizer/gemma3.json"),
        ),
    ] {
        kinds.push((name.to_owned(), trip, sentence_piece(data)));
    }
    fuzz("texts", 300, |random| {
        for (name, trip, tokenizer) in &kinds {
            check(name, *trip, tokenizer, random);
        }
    });
}

#[test]
fn texts_come_back_from_the_default_models_vocabulary() {
    let session = session_from_file(CpuBackend::new(Precision::Exact), &default_model());
    fuzz("texts of the default model", 1500, |random| {
        check("SmolLM2", Trip::Exact, session.tokenizer(), random);
    });
}
