//! Damaged and hostile `tokenizer.json` files are refused with a reason.

use serde_json::{Value, json};
use tokenbrook::tokenizer::{Tokenizer, TokenizerError, Vocabulary};

/// A small valid file.
fn base() -> Value {
    json!({
        "added_tokens": [
            { "id": 0, "content": "<s>", "special": true },
            { "id": 1, "content": "<u>", "special": false },
        ],
        "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false },
        "post_processor": null,
        "decoder": { "type": "ByteLevel" },
        "model": {
            "type": "BPE",
            "vocab": { "a": 2, "b": 3, "ab": 4, "<": 5, "s": 6, ">": 7 },
            "merges": ["a b"],
        },
    })
}

const ROWS: usize = 8;

fn build(spec: &Value) -> Result<Tokenizer, TokenizerError> {
    let json = spec.to_string();
    Tokenizer::from_json(json.as_bytes(), ROWS, &Vocabulary::default())
}

/// The error of the file with `value` at `pointer`.
fn error(pointer: &str, value: Value) -> TokenizerError {
    let mut spec = base();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = spec.pointer_mut(parent).expect("the parent is there");
    match parent {
        Value::Array(list) => list[key.parse::<usize>().expect("an index")] = value,
        parent => parent[key] = value,
    }
    build(&spec).expect_err(pointer)
}

#[test]
fn the_small_file_is_valid() {
    let tokenizer = build(&base()).expect("valid");
    assert_eq!(
        tokenizer.encode("ab<s>ba<u>", true),
        Ok(vec![4, 0, 3, 2, 1])
    );
    assert_eq!(
        tokenizer.encode("ab<s>ba<u>", false),
        Ok(vec![4, 5, 6, 7, 3, 2, 1])
    );
}

#[test]
fn a_mark_is_read_as_a_space_and_the_first_left_out_where_one_is_put_in() {
    let mark = |scheme: &str| {
        json!({ "type": "Metaspace", "replacement": "a",
        "prepend_scheme": scheme, "split": false })
    };
    for (scheme, text) in [("always", "b b"), ("never", " b b")] {
        let mut spec = base();
        spec["pre_tokenizer"] = mark(scheme);
        spec["decoder"] = mark(scheme);
        let tokenizer = build(&spec).expect("valid");
        assert_eq!(tokenizer.encode(text, false), Ok(vec![4, 4]), "{scheme}");
        assert_eq!(tokenizer.decode(&[4, 4]), text);
    }
}

#[test]
fn rejects_a_file_that_is_no_json_or_lacks_a_part() {
    let whole = base().to_string();
    for end in 0..whole.len() {
        let cut = &whole.as_bytes()[..end];
        let error = Tokenizer::from_json(cut, ROWS, &Vocabulary::default());
        let error = error.expect_err("it is cut short");
        assert!(
            matches!(error, TokenizerError::InvalidJson { .. }),
            "{error}"
        );
        assert_eq!(error.code(), "invalid-gguf");
    }
    let invalid = [
        &b"[]"[..],
        b"{}",
        b"\xff",
        &[b'['; 100_000],
        br#"{"model":{}}"#,
    ];
    for json in invalid {
        let error = Tokenizer::from_json(json, ROWS, &Vocabulary::default());
        let error = error.expect_err("no file");
        assert!(
            matches!(error, TokenizerError::InvalidJson { .. }),
            "{error}"
        );
    }
    for (pointer, value) in [
        ("/model/vocab", json!(["a", "b"])),
        ("/model/vocab", json!({ "a": -1 })),
        ("/model/vocab", json!({ "a": 4_294_967_296_u64 })),
        ("/model/merges", json!(["ab"])),
        ("/model/merges", json!(["a b a"])),
        ("/model/merges", json!([["a"]])),
        ("/model/merges", json!([["a", "b", "a"]])),
        ("/model/merges", json!(["a c"])),
        ("/model/merges", json!(["b a"])),
        ("/model/unk_token", json!("<none>")),
        ("/added_tokens/0/id", json!(3)),
        ("/added_tokens/0/content", json!(null)),
        ("/normalizer", json!({ "type": "Sequence" })),
        (
            "/pre_tokenizer",
            json!({ "type": "Split", "behavior": "Isolated" }),
        ),
        ("/pre_tokenizer/use_regex", json!("yes")),
        (
            "/post_processor",
            json!({ "type": "TemplateProcessing", "single": [] }),
        ),
        (
            "/post_processor",
            json!({ "type": "TemplateProcessing", "special_tokens": {},
                "single": [{ "SpecialToken": { "id": "<s>" } }, { "Sequence": {} }] }),
        ),
    ] {
        let error = error(pointer, value);
        assert!(
            matches!(error, TokenizerError::InvalidJson { .. }),
            "{pointer}: {error}"
        );
    }
}

#[test]
fn names_a_step_that_is_not_built_in() {
    let splits = |regex: String| {
        json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated",
            "invert": false })
    };
    for (pointer, value, found) in [
        ("/model/type", json!("Unigram"), "Unigram"),
        ("/model/type", json!("WordPiece"), "WordPiece"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model/end_of_word_suffix", json!("</w>"), "affixes"),
        (
            "/normalizer",
            json!({ "type": "Precompiled" }),
            "Precompiled",
        ),
        (
            "/normalizer",
            json!({ "type": "Prepend", "prepend": "x".repeat(99) }),
            "short text",
        ),
        ("/normalizer", json!("NFC"), "untyped"),
        (
            "/pre_tokenizer",
            json!({ "type": "BertPreTokenizer" }),
            "BertPreTokenizer",
        ),
        (
            "/pre_tokenizer",
            splits("(".to_owned()),
            "regular expression",
        ),
        (
            "/pre_tokenizer",
            splits("(?:(?:a{999}){999}){999}".to_owned()),
            "regular expression",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Sequence",
            "pretokenizers": vec![json!({ "type": "WhitespaceSplit" }); 33] }),
            "32",
        ),
        (
            "/post_processor",
            json!({ "type": "BertProcessing" }),
            "BertProcessing",
        ),
        ("/decoder", json!({ "type": "WordPiece" }), "WordPiece"),
        (
            "/decoder",
            json!({ "type": "Replace", "content": "longer",
            "pattern": { "String": "a" } }),
            "Replace",
        ),
        ("/decoder", json!({ "type": "ByteFallback" }), "bytes"),
        ("/added_tokens/1/single_word", json!(true), "single word"),
        (
            "/normalizer",
            json!({ "type": "NFC", "x": "y".repeat(300_000) }),
            "bytes",
        ),
    ] {
        let error = error(pointer, value);
        assert!(
            matches!(error, TokenizerError::UnsupportedJson { .. }),
            "{pointer}: {error}"
        );
        assert!(error.to_string().contains(found), "{error}");
        assert_eq!(error.code(), "unsupported-architecture");
    }
}

#[test]
fn rejects_tokens_that_are_not_those_of_the_model() {
    let json = base().to_string();
    let build = |rows| Tokenizer::from_json(json.as_bytes(), rows, &Vocabulary::default());
    for rows in [0, 7, 8 + 65, 1 << 40, usize::MAX] {
        let mismatch = TokenizerError::OtherVocabulary { tokens: 8, rows };
        assert_eq!(build(rows).err(), Some(mismatch));
    }
    assert!(build(8 + 64).is_ok());
    // Ids far out, and lists that repeat one id, buy no memory.
    let far = error("/model/vocab", json!({ "a": 4_000_000_000_u32 }));
    assert!(
        matches!(far, TokenizerError::OtherVocabulary { .. }),
        "{far}"
    );
    let twice = error("/model/vocab", json!({ "a": 2, "b": 2 }));
    assert!(
        matches!(twice, TokenizerError::InvalidJson { .. }),
        "{twice}"
    );
    let other_id = error("/added_tokens/0/content", json!("ab"));
    assert!(
        matches!(other_id, TokenizerError::DuplicateToken { .. }),
        "{other_id}"
    );
    let named = Vocabulary {
        bos: Some(8),
        ..Vocabulary::default()
    };
    let error = Tokenizer::from_json(json.as_bytes(), ROWS, &named).err();
    let expected = TokenizerError::IdOutOfRange {
        field: "tokenizer.ggml.bos_token_id",
        id: 8,
        vocab_size: 8,
    };
    assert_eq!(error, Some(expected));
}

#[test]
fn a_step_that_gives_up_on_a_text_says_so() {
    let mut spec = base();
    spec["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Split", "pattern": { "Regex": "(?:a|b|ab)*(?!.)x" },
            "behavior": "Isolated", "invert": false },
        { "type": "ByteLevel", "add_prefix_space": false, "use_regex": false },
    ] });
    let tokenizer = build(&spec).expect("valid");
    assert_eq!(tokenizer.encode("ab", false), Ok(vec![4]));
    let error = tokenizer
        .encode(&"ab".repeat(4_001), false)
        .expect_err("too much");
    assert!(
        matches!(error, TokenizerError::StepFailed { .. }),
        "{error}"
    );
    assert_eq!(error.code(), "invalid-option");
    // Sixty-four times over is the limit, and each step doubles.
    let mut spec = base();
    let double = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
    spec["normalizer"] = json!({ "type": "Sequence", "normalizers": vec![double; 32] });
    let tokenizer = build(&spec).expect("valid");
    let error = tokenizer
        .encode(&"a".repeat(997), false)
        .expect_err("too long");
    assert!(
        matches!(error, TokenizerError::StepFailed { .. }),
        "{error}"
    );
}

#[test]
fn changed_files_and_odd_expressions_never_panic() {
    let texts = [
        "",
        "ab",
        "<s>a<u> b",
        "\u{e9}\u{301}\u{1F469}\u{200d} \n\n a",
        "\0\u{2028}b",
    ];
    let mut random = 7_u64;
    let mut next = |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % end as u64).expect("below a usize")
    };
    let patterns = [
        "", "a*", "(?=b)", "\\b", "^", "$|^", ".", "(?s).", "\\s*", "[^a]?", "(a)|(b)",
    ];
    let behaviors = [
        "Isolated",
        "Removed",
        "MergedWithPrevious",
        "MergedWithNext",
        "Contiguous",
    ];
    let mut built = 0;
    for pattern in patterns {
        for behavior in behaviors {
            for invert in [false, true] {
                let mut spec = base();
                let split = json!({ "type": "Split", "pattern": { "Regex": pattern },
                    "behavior": behavior, "invert": invert });
                let inserted = ["", "\u{e9}", "ab"][next(3)];
                let replace = json!({ "type": "Replace", "pattern": { "Regex": pattern },
                    "content": inserted });
                let level = json!({ "type": "ByteLevel" });
                spec["normalizer"] = replace;
                spec["pre_tokenizer"] =
                    json!({ "type": "Sequence", "pretokenizers": [split, level] });
                let Ok(tokenizer) = build(&spec) else {
                    continue;
                };
                built += 1;
                for text in texts {
                    tokenizer.encode(text, true).expect("encodes");
                }
            }
        }
    }
    assert_eq!(built, 110);
    let whole = base().to_string();
    for _ in 0..5_000 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = b"\"{}[]:,0129ab\\u"[next(15)],
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"\"{}[]:,0129ab\\u"[next(15)]),
            }
        }
        let tokenizer = Tokenizer::from_json(&bytes, ROWS, &Vocabulary::default());
        let Ok(tokenizer) = tokenizer else { continue };
        for text in texts {
            drop(tokenizer.encode(text, true));
        }
    }
}
