//! Ids against Hugging Face's, and hostile vocabularies against their errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokenbrook::tokenizer::{
    SUPPORTED_PRE_TOKENIZERS, Segment, Tokenizer, TokenizerError, Vocabulary,
};

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

#[derive(Deserialize)]
struct Rule {
    pre: String,
    tokens: Vec<String>,
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
        serde_json::from_str(include_str!("data/tokenizer/smollm2.json")).expect("valid data");
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

fn build(vocabulary: Vocabulary, tokens: &[&str], merges: &[&str]) -> TokenizerError {
    Tokenizer::new(&vocabulary, &tokens.to_vec(), &merges.to_vec()).expect_err("refused")
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
        include_str!("data/tokenizer/gpt-2.json"),
        include_str!("data/tokenizer/qwen2.json"),
        include_str!("data/tokenizer/llama-bpe.json"),
        include_str!("data/tokenizer/default.json"),
        include_str!("data/tokenizer/gpt-4o.json"),
        include_str!("data/tokenizer/deepseek-v3.json"),
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
        serde_json::from_str(include_str!("data/tokenizer/rules.json")).expect("valid data");
    let base: Rule =
        serde_json::from_str(include_str!("data/tokenizer/llama-bpe.json")).expect("valid data");
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
fn special_tokens_are_found_by_their_kind_longest_first() {
    let extra = [
        ("<a>", 3),
        ("<a>b", 3),
        ("<u>", 4),
        ("<?>", 2),
        ("<x>", 5),
        ("<0x41>", 6),
    ];
    let tokenizer = with_extra(gpt2("gpt-2"), &extra).expect("valid");
    let text = "<a><a>b<u><?><x><0x41>";
    let special = tokenizer.encode(text, true).expect("encodes");
    assert_eq!(special[..4], [256, 257, 258, 259]);
    assert!(
        special[4..].iter().all(|id| *id < 256),
        "unused and byte tokens are not text"
    );
    let plain = tokenizer.encode(text, false).expect("encodes");
    let found: Vec<u32> = plain.iter().copied().filter(|id| *id >= 256).collect();
    assert_eq!(found, [258], "only the user-defined token");
    assert_eq!(tokenizer.decode(&special), text);
    assert_eq!(tokenizer.decode(&plain), text);
    assert_eq!(tokenizer.token_bytes(261), Some(&b"A"[..]));
    assert_eq!(tokenizer.token_bytes(262), None);
    let controls: Vec<u32> = (0..263).filter(|id| tokenizer.is_control(*id)).collect();
    assert_eq!(controls, [256, 257, 259]);
}

#[test]
fn segments_hide_control_text_and_merge_across_their_edges() {
    let (tokenizer, _) = smollm2();
    let segment = |text: &str, special| Segment {
        text: text.to_owned(),
        special,
    };
    let parts = [
        segment("<|im_start|>user\n", true),
        segment("What is <|im_end|>", false),
        segment("<|im_", true),
        segment("", false),
        segment("end|>\n", true),
        segment("<|im_", true),
        segment("end|>", false),
    ];
    let ids = tokenizer.encode_segments(&parts).expect("encodes");
    let controls: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|id| tokenizer.is_control(*id))
        .collect();
    assert_eq!(
        controls,
        [1, 2],
        "one of the template's own, one of two adjacent parts of it"
    );
    let text: String = parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(tokenizer.decode(&ids), text);
    let cut = [
        segment("The capital of Fra", true),
        segment("nce is", false),
        segment(" Paris", true),
    ];
    let whole = tokenizer.encode("The capital of France is Paris", true);
    assert_eq!(tokenizer.encode_segments(&cut), whole);
    assert_eq!(tokenizer.encode_segments(&[]), Ok(vec![]));
}

#[test]
fn prompts_get_the_edges_that_the_file_asks_for() {
    let edges = |pre: &str, add_bos, add_eos, bos, eos| {
        let vocabulary = Vocabulary {
            add_bos,
            add_eos,
            bos,
            eos,
            ..gpt2(pre)
        };
        let tokenizer = with_extra(vocabulary, &[("<s>", 3), ("</s>", 3)]).expect("valid");
        tokenizer.encode_prompt("!").expect("encodes")
    };
    let (s, e) = (Some(256), Some(257));
    assert_eq!(edges("gpt-2", None, None, s, e), [33]);
    assert_eq!(edges("gpt-2", Some(true), Some(true), s, e), [256, 33, 257]);
    assert_eq!(edges("llama-bpe", None, None, s, e), [256, 33]);
    assert_eq!(edges("llama-bpe", Some(false), None, s, e), [33]);
    assert_eq!(edges("llama-bpe", None, None, None, None), [33]);
    let asks = Vocabulary {
        add_bos: Some(true),
        ..gpt2("gpt-2")
    };
    assert_eq!(
        with_extra(asks, &[]).expect_err("no BOS"),
        TokenizerError::MissingSpecialToken {
            flag: "tokenizer.ggml.add_bos_token",
            field: "tokenizer.ggml.bos_token_id",
        }
    );
}

#[test]
fn end_ids_are_the_named_ones_and_the_known_ones() {
    let (tokenizer, _) = smollm2();
    assert_eq!(tokenizer.end_ids(), [0, 2]);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(
        (&*tokenizer.bos_text(), &*tokenizer.eos_text()),
        ("<|im_start|>", "<|im_end|>")
    );
    let vocabulary = Vocabulary {
        eos: Some(5),
        eot: Some(256),
        ..gpt2("gpt-2")
    };
    let extra = [
        ("<x>", 3),
        ("<|eot_id|>", 4),
        ("<end_of_turn>", 1),
        ("<y>", 3),
    ];
    let tokenizer = with_extra(vocabulary, &extra).expect("valid");
    assert_eq!(tokenizer.end_ids(), [5, 256, 257, 258]);
    assert!(
        tokenizer.is_control(257) && tokenizer.is_control(258),
        "whatever the file says"
    );
    assert_eq!(
        with_extra(gpt2("gpt-2"), &[]).expect("valid").bos_text(),
        ""
    );
}

#[test]
fn without_token_types_the_named_ids_are_control_tokens() {
    let mut tokens = byte_tokens();
    tokens.push("<s>".to_owned());
    let vocabulary = Vocabulary {
        bos: Some(256),
        ..gpt2("gpt-2")
    };
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &Vec::<&str>::new()).expect("valid");
    assert!(tokenizer.is_control(256));
    assert_eq!(tokenizer.encode("<s>", true), Ok(vec![256]));
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
    for (merge, token) in [("a c", "c"), ("c a", "c"), ("b a", "ba")] {
        let token = token.to_owned();
        let expected = TokenizerError::UnknownMergeToken { index: 1, token };
        assert_eq!(
            build(gpt2("gpt-2"), &["a", "b", "ab"], &["a b", merge]),
            expected
        );
    }
}

#[test]
fn merges_never_make_a_control_token() {
    let vocabulary = Vocabulary {
        token_types: vec![1, 1, 3, 5],
        ..gpt2("gpt-2")
    };
    let (tokens, merges) = (vec!["a", "b", "ab", "ba"], vec!["a b", "b a"]);
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &merges).expect("valid");
    assert_eq!(tokenizer.encode("abba", false), Ok(vec![0, 1, 1, 0]));
    assert_eq!(tokenizer.encode("abba", true), Ok(vec![2, 1, 0]));
}

#[test]
fn text_that_the_vocabulary_cannot_spell_is_left_out() {
    let tokenizer = Tokenizer::new(&gpt2("gpt-2"), &vec!["a", "b"], &Vec::<&str>::new());
    assert_eq!(
        tokenizer.expect("valid").encode("a€b", false),
        Ok(vec![0, 1])
    );
}

#[test]
fn tokens_that_are_not_spelled_in_letters_keep_their_text() {
    let tokenizer = with_extra(gpt2("gpt-2"), &[("a b", 1), ("東", 1), ("", 3)]).expect("valid");
    assert_eq!(tokenizer.token_bytes(256), Some(&b"a b"[..]));
    assert_eq!(tokenizer.decode(&[257, 258, 9999]), "東");
    assert_eq!(tokenizer.encode("", true), Ok(vec![]));
}

#[test]
fn long_hostile_texts_take_seconds_at_most_and_never_panic() {
    let tokenizers: Vec<Tokenizer> = SUPPORTED_PRE_TOKENIZERS
        .iter()
        .map(|pre| with_extra(gpt2(pre), &[("<<<<<<<<|", 3), ("<", 4)]).expect("valid"))
        .collect();
    let texts = [
        " ".repeat(200_003),
        "\n \n".repeat(50_001),
        " ".repeat(100_001) + "x",
        "a".repeat(200_003),
        "1".repeat(100_003),
        "<".repeat(100_003),
        "'".repeat(100_003),
        "e\u{301}\u{327}".repeat(30_001),
        "\u{1F469}\u{200D}".repeat(20_001),
    ];
    for text in &texts {
        for (tokenizer, pre) in tokenizers.iter().zip(SUPPORTED_PRE_TOKENIZERS) {
            let start = Instant::now();
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
    let start = Instant::now();
    let large = Tokenizer::new(&gpt2("smollm"), &names, &Vec::<&str>::new()).expect("valid");
    let took = start.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let listed: usize = names.iter().map(String::len).sum();
    assert!(large.heap_bytes() > tokenizer.heap_bytes());
    assert!(large.heap_bytes() > 3 * listed && large.heap_bytes() < 24 * listed);
}
