//! Hostile vocabularies end in typed errors, hostile texts in time.

use std::time::Duration;

use tokenbrook::tokenizer::{SUPPORTED_PRE_TOKENIZERS, Tokenizer, TokenizerError, Vocabulary};

use crate::stopwatch::Stopwatch;
use crate::{gpt2, smollm2, with_extra};

fn build(vocabulary: Vocabulary, tokens: &[&str], merges: &[&str]) -> TokenizerError {
    Tokenizer::new(&vocabulary, &tokens.to_vec(), &merges.to_vec()).expect_err("refused")
}

#[test]
fn rejects_models_and_rules_that_are_not_built_in() {
    let model = Vocabulary {
        model: "bert".to_owned(),
        ..gpt2("default")
    };
    let error = build(model, &["a"], &[]);
    assert_eq!(
        error,
        TokenizerError::UnsupportedModel {
            found: "bert".to_owned()
        }
    );
    let error = build(gpt2("viking"), &["a"], &[]);
    assert_eq!(
        error,
        TokenizerError::UnsupportedPre {
            found: "viking".to_owned()
        }
    );
    for pre in SUPPORTED_PRE_TOKENIZERS {
        assert!(error.to_string().contains(pre));
        assert!(with_extra(gpt2(pre), &[]).is_ok(), "{pre}");
    }
    assert!(with_extra(gpt2(""), &[]).is_ok(), "no name means default");
}

#[test]
fn rejects_hostile_vocabularies_with_typed_errors() {
    assert_eq!(
        build(gpt2("gpt-2"), &[], &[]),
        TokenizerError::EmptyVocabulary
    );
    let duplicate = |first, second| TokenizerError::DuplicateToken {
        text: "x".to_owned(),
        first,
        second,
    };
    assert_eq!(build(gpt2("gpt-2"), &["a", "x", "x"], &[]), duplicate(1, 2));
    let controls = Vocabulary {
        token_types: vec![3, 1, 4],
        ..gpt2("gpt-2")
    };
    assert_eq!(build(controls, &["x", "a", "x"], &[]), duplicate(0, 2));
    let types = Vocabulary {
        token_types: vec![1, 1],
        ..gpt2("gpt-2")
    };
    let count = TokenizerError::TokenTypeCount {
        tokens: 1,
        types: 2,
    };
    assert_eq!(build(types, &["a"], &[]), count);
    for value in [-1, 7, i32::MAX] {
        let types = Vocabulary {
            token_types: vec![1, value],
            ..gpt2("gpt-2")
        };
        assert_eq!(
            build(types, &["a", "b"], &[]),
            TokenizerError::InvalidTokenType { id: 1, value }
        );
    }
    let invalid: Vec<&[u8]> = vec![b"a", b"\xFF"];
    let none: Vec<&[u8]> = Vec::new();
    let utf8 = |field, index| TokenizerError::InvalidUtf8 { field, index };
    let error = Tokenizer::new(&gpt2("gpt-2"), &invalid, &none).expect_err("no UTF-8");
    assert_eq!(error, utf8("tokenizer.ggml.tokens", 1));
    let valid: Vec<&[u8]> = vec![b"a"];
    let error =
        Tokenizer::new(&gpt2("gpt-2"), &valid, &invalid[1..].to_vec()).expect_err("no UTF-8");
    assert_eq!(error, utf8("tokenizer.ggml.merges", 0));
    let long = "<".repeat(513);
    let controls = Vocabulary {
        token_types: vec![3],
        ..gpt2("gpt-2")
    };
    assert_eq!(
        build(controls, &[&long], &[]),
        TokenizerError::SpecialTokenTooLong {
            id: 0,
            bytes: 513,
            limit: 512
        }
    );
}

#[test]
fn rejects_ids_outside_the_vocabulary() {
    type Field = fn(&mut Vocabulary) -> &mut Option<u32>;
    let fields: [(&str, Field); 6] = [
        ("tokenizer.ggml.bos_token_id", |v| &mut v.bos),
        ("tokenizer.ggml.eos_token_id", |v| &mut v.eos),
        ("tokenizer.ggml.eot_token_id", |v| &mut v.eot),
        ("tokenizer.ggml.eom_token_id", |v| &mut v.eom),
        ("tokenizer.ggml.unknown_token_id", |v| &mut v.unknown),
        ("tokenizer.ggml.padding_token_id", |v| &mut v.padding),
    ];
    for (field, of) in fields {
        for id in [1, u32::MAX] {
            let mut vocabulary = gpt2("gpt-2");
            *of(&mut vocabulary) = Some(id);
            let expected = TokenizerError::IdOutOfRange {
                field,
                id,
                vocab_size: 1,
            };
            assert_eq!(build(vocabulary, &["a"], &[]), expected);
        }
    }
}

#[test]
fn rejects_merges_that_are_malformed_or_name_unlisted_tokens() {
    for text in ["ab", "a ", " b", " ", "", "a b c", "a  b"] {
        let expected = TokenizerError::InvalidMerge {
            index: 1,
            text: text.to_owned(),
        };
        assert_eq!(
            build(gpt2("gpt-2"), &["a", "b", "ab"], &["a b", text]),
            expected
        );
    }
    let unlisted = [("a c", "c"), ("c a", "c"), ("b a", "ba"), ("ab ab", "abab")];
    for (merge, token) in unlisted {
        let token = token.to_owned();
        let expected = TokenizerError::UnknownMergeToken { index: 1, token };
        assert_eq!(
            build(gpt2("gpt-2"), &["a", "b", "ab"], &["a b", merge]),
            expected
        );
    }
}

#[test]
fn long_hostile_texts_take_seconds_at_most_and_never_panic() {
    let tokenizers: Vec<Tokenizer> = SUPPORTED_PRE_TOKENIZERS
        .iter()
        .map(|pre| with_extra(gpt2(pre), &[("<<<<<<<<|", 3), ("<", 4)]).expect("valid"))
        .collect();
    let texts = [
        " ".repeat(70_003),
        "\n \n".repeat(20_001),
        " ".repeat(50_001) + "x",
        "a".repeat(70_003),
        "1".repeat(50_003),
        "<".repeat(50_003),
        "'".repeat(50_003),
        "e\u{301}\u{327}".repeat(10_001),
        "\u{1F469}\u{200D}".repeat(20_001),
    ];
    for text in &texts {
        for (tokenizer, pre) in tokenizers.iter().zip(SUPPORTED_PRE_TOKENIZERS) {
            let start = Stopwatch::start();
            let result = tokenizer.encode(text, true);
            let took = start.elapsed();
            assert!(
                took < Duration::from_secs(5),
                "{pre} {:?}: {took:?}",
                &text[..1]
            );
            match result {
                Ok(ids) if matches!(pre, "qwen2" | "command-r") => assert!(!ids.is_empty()),
                Ok(ids) => assert_eq!(tokenizer.decode(&ids), *text, "{pre}"),
                Err(TokenizerError::TextTooComplex { .. }) => {}
                Err(other) => panic!("{pre}: {other}"),
            }
        }
    }
}

#[test]
fn heap_bytes_grow_with_the_vocabulary_and_stay_in_proportion() {
    let (tokenizer, _) = smollm2();
    let names: Vec<String> = (0..50_021).map(|n| format!("tok{n}")).collect();
    let start = Stopwatch::start();
    let large = Tokenizer::new(&gpt2("smollm"), &names, &Vec::<&str>::new()).expect("valid");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let listed: usize = names.iter().map(String::len).sum();
    assert!(large.heap_bytes() > tokenizer.heap_bytes());
    assert!(large.heap_bytes() > 3 * listed && large.heap_bytes() < 24 * listed);
}
