//! SentencePiece-style vocabularies: ids against Hugging Face's, bytes, spaces and bad files.

#[path = "common/stopwatch.rs"]
mod stopwatch;

use std::time::Duration;

use serde::Deserialize;
use stopwatch::Stopwatch;
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

/// Control tokens 0 to 2, all bytes from 3 on, then `extra` with type and score.
fn with_bytes(
    vocabulary: Vocabulary,
    extra: &[(&str, i32, f32)],
) -> Result<Tokenizer, TokenizerError> {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    let mut token_types = vec![2, 3, 3];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    token_types.resize(tokens.len(), 6);
    let mut scores = vec![0.0; tokens.len()];
    for (text, kind, score) in extra {
        tokens.push((*text).to_owned());
        token_types.push(*kind);
        scores.push(*score);
    }
    let vocabulary = Vocabulary {
        token_types,
        scores,
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        ..vocabulary
    };
    Tokenizer::new(&vocabulary, &tokens, &no_merges())
}

const FIRST: u32 = 259;

fn byte(byte: u8) -> u32 {
    u32::from(byte) + 3
}

fn without_prefix() -> Vocabulary {
    Vocabulary {
        add_space_prefix: Some(false),
        ..llama()
    }
}

#[test]
fn the_best_score_merges_first_and_the_leftmost_among_equals() {
    let parts = [("a", 1, 0.0), ("b", 1, 0.0), ("c", 1, 0.0)];
    let ids = |ab: f32, bc: f32, text: &str| {
        let mut extra = parts.to_vec();
        extra.extend([("ab", 1, ab), ("bc", 1, bc), ("aa", 1, -5.0)]);
        let tokenizer = with_bytes(without_prefix(), &extra).expect("valid");
        tokenizer.encode(text, false).expect("encodes")
    };
    let [a, b, c, ab, bc, aa] = [0, 1, 2, 3, 4, 5].map(|n| FIRST + n);
    assert_eq!(ids(-1.0, -2.0, "abc"), [ab, c]);
    assert_eq!(ids(-2.0, -1.0, "abc"), [a, bc]);
    assert_eq!(ids(-1.0, -1.0, "abc"), [ab, c]);
    assert_eq!(ids(-1.0, -2.0, "aaa"), [aa, a]);
    assert_eq!(ids(-1.0, -2.0, "aab"), [a, ab]);
    assert_eq!(ids(-9.0, -9.0, "aab"), [aa, b]);
}

#[test]
fn what_no_token_spells_becomes_bytes_and_streams_back_whole() {
    let tokenizer = with_bytes(without_prefix(), &[("x", 1, 0.0)]).expect("valid");
    let ids = tokenizer.encode("x\u{20ac}\n", false).expect("encodes");
    let bytes = [0xE2, 0x82, 0xAC, b'\n'].map(byte);
    assert_eq!(ids, [&[FIRST][..], &bytes].concat());
    let mut detokenizer = Detokenizer::new();
    let pieces: Vec<String> = ids
        .iter()
        .map(|id| detokenizer.push(tokenizer.token_bytes(*id).expect("listed")))
        .collect();
    assert_eq!(pieces, ["x", "", "", "\u{20ac}", "\n"]);
    assert_eq!(tokenizer.decode(&ids[..2]), "x\u{FFFD}");
}

#[test]
fn without_byte_tokens_unknown_text_is_one_unknown_token() {
    let encode = |unknown, text: &str| {
        let vocabulary = Vocabulary {
            scores: vec![0.0; 3],
            token_types: vec![2, 1, 1],
            unknown,
            ..without_prefix()
        };
        let tokens = vec!["<unk>", "a", "b"];
        let tokenizer = Tokenizer::new(&vocabulary, &tokens, &no_merges()).expect("valid");
        tokenizer.encode(text, false).expect("encodes")
    };
    assert_eq!(encode(Some(0), "axyb\u{20ac}"), [1, 0, 2, 0]);
    assert_eq!(encode(None, "axyb"), [1, 2]);
}

#[test]
fn a_space_goes_before_each_text_unless_the_file_says_no() {
    let extra = [
        ("\u{2581}", 1, -3.0),
        ("a", 1, 0.0),
        ("\u{2581}a", 1, -1.0),
        ("<u>", 4, 0.0),
    ];
    let [space, a, space_a, user] = [0, 1, 2, 3].map(|n| FIRST + n);
    let with = with_bytes(llama(), &extra).expect("valid");
    assert_eq!(with.encode("a a", false), Ok(vec![space_a, space_a]));
    assert_eq!(
        with.encode("a<s>a<u>a", true),
        Ok(vec![space_a, 1, space_a, user, space_a])
    );
    assert_eq!(with.encode(" a", false), Ok(vec![space, space_a]));
    assert_eq!(with.encode("", false), Ok(vec![]));
    assert_eq!(with.decode(&[space_a, space_a]), "a a");
    assert_eq!(with.decode(&[1, space_a]), "<s> a");
    assert_eq!(with.token_bytes(space_a), Some(&b" a"[..]));
    let without = with_bytes(without_prefix(), &extra).expect("valid");
    assert_eq!(without.encode("a a", false), Ok(vec![a, space_a]));
    assert_eq!(without.decode(&[space_a, space_a]), " a a");
}

#[test]
fn text_becomes_no_control_unused_or_byte_token() {
    let extra = [
        ("<", 1, 0.0),
        ("s", 1, 0.0),
        (">", 1, 0.0),
        ("<s", 1, -1.0),
        ("<unused>", 5, 0.0),
    ];
    let tokenizer = with_bytes(without_prefix(), &extra).expect("valid");
    let plain = tokenizer.encode("<s>", false).expect("encodes");
    assert_eq!(plain, [FIRST + 3, FIRST + 2]);
    assert_eq!(tokenizer.encode("<s>", true), Ok(vec![1]));
    for text in ["<unused>", "<0x41>", "<unk>"] {
        let ids = tokenizer.encode(text, false).expect("encodes");
        assert_eq!(tokenizer.decode(&ids), text);
        assert!(ids.len() > 1, "{text}");
    }
}

#[test]
fn prompts_start_with_bos_unless_the_file_says_no() {
    let prompt = |vocabulary| {
        let tokenizer = with_bytes(vocabulary, &[("a", 1, 0.0)]).expect("valid");
        tokenizer.encode_prompt("a").expect("encodes")
    };
    assert_eq!(prompt(without_prefix()), [1, FIRST]);
    let vocabulary = Vocabulary {
        add_bos: Some(false),
        add_eos: Some(true),
        ..without_prefix()
    };
    assert_eq!(prompt(vocabulary), [FIRST, 2]);
}

#[test]
fn rejects_scores_that_do_not_match_and_two_ids_for_one_text() {
    let build = |scores: Vec<f32>, tokens: &[&str]| {
        let vocabulary = Vocabulary { scores, ..llama() };
        Tokenizer::new(&vocabulary, &tokens.to_vec(), &no_merges()).expect_err("refused")
    };
    for scores in [vec![], vec![0.0], vec![0.0; 3]] {
        let count = TokenizerError::ScoreCount {
            tokens: 2,
            scores: scores.len(),
        };
        assert_eq!(build(scores, &["a", "b"]), count);
    }
    let duplicate = TokenizerError::DuplicateToken {
        text: "a".to_owned(),
        first: 0,
        second: 2,
    };
    assert_eq!(build(vec![0.0; 3], &["a", "b", "a"]), duplicate);
    // Scores that are no numbers order somehow, and nothing panics.
    let extra = [
        ("a", 1, f32::NAN),
        ("aa", 1, f32::NAN),
        ("aaa", 1, f32::INFINITY),
    ];
    let tokenizer = with_bytes(without_prefix(), &extra).expect("valid");
    let ids = tokenizer.encode("aaaaa", false).expect("encodes");
    assert_eq!(tokenizer.decode(&ids), "aaaaa");
}

#[test]
fn long_hostile_texts_take_seconds_at_most() {
    let runs: Vec<String> = (1..=64).map(|n| "a".repeat(n)).collect();
    let mut extra: Vec<(&str, i32, f32)> = runs.iter().map(|run| (&**run, 1, 0.0)).collect();
    extra.extend([
        ("\u{2581}", 1, -1.0),
        ("\u{2581}\u{2581}", 1, -2.0),
        ("<<<<<<<|", 4, 0.0),
    ]);
    let tokenizer = with_bytes(llama(), &extra).expect("valid");
    for text in [
        "a".repeat(50_003),
        " ".repeat(50_003),
        "<".repeat(50_003),
        "\u{1F469}".repeat(20_001),
    ] {
        let start = Stopwatch::start();
        let ids = tokenizer.encode(&text, true).expect("encodes");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{:?}: {took:?}", &text[..1]);
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn a_vocabulary_of_262144_tokens_is_ready_within_a_second_and_small() {
    let names: Vec<String> = (0..262_144).map(|n| format!("\u{2581}t{n}")).collect();
    let vocabulary = Vocabulary {
        scores: vec![0.0; 262_144],
        ..llama()
    };
    let start = Stopwatch::start();
    let tokenizer = Tokenizer::new(&vocabulary, &names, &no_merges()).expect("valid");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let heap = tokenizer.heap_bytes();
    assert!((4 << 20..10 << 20).contains(&heap), "{heap}");
}
