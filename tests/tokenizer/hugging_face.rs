//! Ids equal those of Hugging Face's `tokenizers`, and the splitting rules differ.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokenbrook::tokenizer::{SUPPORTED_PRE_TOKENIZERS, Tokenizer};

use crate::{Case, byte_tokens, gpt2, smollm2, with_extra};

#[derive(Deserialize)]
struct Rule {
    pre: String,
    tokens: Vec<String>,
    merges: Vec<String>,
    cases: Vec<Case>,
}

#[test]
fn smollm2_ids_equal_hugging_face() {
    let (tokenizer, cases) = smollm2();
    assert_eq!(cases.len(), 57);
    for case in cases {
        assert_eq!(
            tokenizer.encode(&case.text, false).as_ref(),
            Ok(&case.ids),
            "{:?}",
            case.text
        );
        let special = tokenizer.encode(&case.text, true);
        assert_eq!(special.as_ref(), Ok(&case.special_ids), "{:?}", case.text);
        assert_eq!(tokenizer.encode_prompt(&case.text), special);
        // Some control characters have no letter in this vocabulary.
        if !case.text.contains(['\u{1}', '\0']) {
            assert_eq!(tokenizer.decode(&case.ids), case.text);
            assert_eq!(tokenizer.decode(&case.special_ids), case.text);
        }
    }
}

#[test]
fn ids_equal_hugging_face_under_every_rule() {
    for data in [
        include_str!("../data/tokenizer/gpt-2.json"),
        include_str!("../data/tokenizer/qwen2.json"),
        include_str!("../data/tokenizer/llama-bpe.json"),
        include_str!("../data/tokenizer/default.json"),
        include_str!("../data/tokenizer/gpt-4o.json"),
        include_str!("../data/tokenizer/deepseek-v3.json"),
    ] {
        let rule: Rule = serde_json::from_str(data).expect("valid data");
        let tokenizer =
            Tokenizer::new(&gpt2(&rule.pre), &rule.tokens, &rule.merges).expect("valid");
        assert_eq!(rule.cases.len(), 50);
        for case in rule.cases {
            let found = tokenizer.encode(&case.text, false);
            assert_eq!(
                found.as_ref(),
                Ok(&case.ids),
                "{} {:?}",
                rule.pre,
                case.text
            );
        }
    }
}

#[test]
fn ids_of_one_vocabulary_equal_hugging_face_under_further_rules() {
    type Rules = BTreeMap<String, Vec<Vec<u32>>>;
    let rules: Rules =
        serde_json::from_str(include_str!("../data/tokenizer/rules.json")).expect("valid data");
    let base: Rule =
        serde_json::from_str(include_str!("../data/tokenizer/llama-bpe.json")).expect("valid data");
    assert_eq!(rules.len(), 6);
    for (pre, all_ids) in rules {
        let tokenizer = Tokenizer::new(&gpt2(&pre), &base.tokens, &base.merges).expect("valid");
        assert_eq!(all_ids.len(), base.cases.len());
        for (case, ids) in base.cases.iter().zip(&all_ids) {
            let found = tokenizer.encode(&case.text, false);
            assert_eq!(found.as_ref(), Ok(ids), "{pre} {:?}", case.text);
        }
    }
}

#[test]
fn rules_differ_where_they_should() {
    // Each piece is one token where it can be, so counts show the cuts.
    let merges = [
        "1 2", "12 3", "123 4", "Ġ 1", "Ċ Ċ", "ĊĊ Ċ", "a B", "a '", "a' s", "$ a",
    ];
    let extra = [
        "12", "123", "1234", "Ġ1", "ĊĊ", "ĊĊĊ", "aB", "a'", "a's", "$a",
    ]
    .map(|text| (text, 1));
    let count = |pre: &str, text: &str| {
        let mut tokens = byte_tokens();
        tokens.extend(extra.iter().map(|(text, _)| (*text).to_owned()));
        let tokenizer = Tokenizer::new(&gpt2(pre), &tokens, &merges.to_vec()).expect("valid");
        tokenizer.encode(text, false).expect("encodes").len()
    };
    assert_eq!(count("gpt-2", "1234"), 1);
    assert_eq!(count("llama-bpe", "1234"), 2);
    assert_eq!(count("default", "1234"), 2);
    assert_eq!(count("qwen2", "1234"), 4);
    assert_eq!(count("smollm", "1234"), 4);
    assert_eq!(count("gpt-4o", "1234"), 2);
    assert_eq!(count("llama4", "1234"), 2);
    assert_eq!(count("tekken", "1234"), 4);
    assert_eq!(count("deepseek-llm", "1234"), 1);
    assert_eq!(count("deepseek-v3", "1234"), 2);
    assert_eq!(count("falcon", "1234"), 2);
    // Words end before a capital.
    for (pre, tokens) in [("tekken", 2), ("gpt-4o", 2), ("llama4", 2), ("qwen2", 1)] {
        assert_eq!(count(pre, "aB"), tokens, "{pre}");
    }
    // Contractions are parts of their word, or apart.
    for (pre, tokens) in [
        ("gpt-4o", 1),
        ("llama4", 1),
        ("tekken", 3),
        ("llama-bpe", 3),
    ] {
        assert_eq!(count(pre, "a's"), tokens, "{pre}");
    }
    // A sign opens a word, is a piece of its own, or joins other signs.
    for (pre, tokens) in [
        ("deepseek-v3", 1),
        ("llama-bpe", 1),
        ("deepseek-llm", 2),
        ("falcon", 2),
    ] {
        assert_eq!(count(pre, "$a"), tokens, "{pre}");
    }
    assert_eq!(count("falcon", "12"), 1);
    assert_eq!(count("command-r", "12"), 2);
    assert_eq!(count("gpt-2", "a 1"), 2);
    assert_eq!(count("smollm", "a 1"), 3);
    assert_eq!(count("qwen2", ".\n\n\nx"), 3);
    assert_eq!(count("gpt-2", ".\n\n\nx"), 4);
}

#[test]
fn a_whole_piece_needs_no_merges_under_llama_bpe() {
    let extra = [("abc", 1)];
    let llama = with_extra(gpt2("llama-bpe"), &extra).expect("valid");
    assert_eq!(llama.encode("abc", false), Ok(vec![256]));
    let plain = with_extra(gpt2("gpt-2"), &extra).expect("valid");
    assert_eq!(plain.encode("abc", false).map(|ids| ids.len()), Ok(3));
    // A control token is no piece.
    let control = with_extra(gpt2("llama-bpe"), &[("abc", 3)]).expect("valid");
    assert_eq!(control.encode("abc", false).map(|ids| ids.len()), Ok(3));
}

#[test]
fn composes_characters_under_qwen2_and_command_r_only() {
    let ids = |pre: &str, text: &str| {
        with_extra(gpt2(pre), &[])
            .expect("valid")
            .encode(text, true)
    };
    assert_eq!(ids("qwen2", "e\u{301}"), ids("qwen2", "\u{e9}"));
    assert_eq!(ids("command-r", "e\u{301}"), ids("command-r", "\u{e9}"));
    assert_ne!(ids("gpt-2", "e\u{301}"), ids("gpt-2", "\u{e9}"));
}

#[test]
fn the_readme_lists_every_rule() {
    let readme = include_str!("../../README.md");
    let row = readme
        .lines()
        .find(|line| line.starts_with("| tokenizers |"));
    let row = row.expect("a row for tokenizers");
    for pre in SUPPORTED_PRE_TOKENIZERS {
        assert!(row.contains(&format!("`{pre}`")), "{pre}");
    }
}
