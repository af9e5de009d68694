//! `tokenizer.json` files: ids against Hugging Face's, special tokens, prompts, and text back.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokenbrook::tokenizer::{Segment, Tokenizer, Vocabulary};

#[derive(Deserialize)]
struct File {
    tokenizer: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    special_ids: Vec<u32>,
    prompt_ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Variant {
    name: String,
    file: String,
    put: Map<String, Value>,
    tokens: Map<String, Value>,
    ids: Vec<[Vec<u32>; 2]>,
}

const TEXTS: usize = 63;

fn file(name: &str) -> File {
    let text = match name {
        "gemma3" => include_str!("../data/tokenizer/json-gemma3.json"),
        "llama2" => include_str!("../data/tokenizer/json-llama2.json"),
        "llama3_1" => include_str!("../data/tokenizer/json-llama3_1.json"),
        "qwen3" => include_str!("../data/tokenizer/json-qwen3.json"),
        "gpt4o" => include_str!("../data/tokenizer/json-gpt4o.json"),
        "deepseek_v3" => include_str!("../data/tokenizer/json-deepseek_v3.json"),
        other => panic!("{other} is no file"),
    };
    serde_json::from_str(text).expect("valid data")
}

/// Rows of the model that a file was made for.
pub(crate) fn rows(tokenizer: &Value) -> usize {
    let listed = tokenizer["model"]["vocab"].as_object().expect("a list");
    let added = tokenizer["added_tokens"].as_array().expect("a list");
    let ids = listed
        .values()
        .chain(added.iter().map(|token| &token["id"]));
    let most = ids.filter_map(Value::as_u64).max().expect("there are ids");
    usize::try_from(most).expect("a small id") + 1
}

fn build(tokenizer: &Value) -> Tokenizer {
    let json = tokenizer.to_string();
    Tokenizer::from_json(json.as_bytes(), rows(tokenizer), &Vocabulary::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ids_and_texts_equal_hugging_face_with_real_files() {
    for name in [
        "gemma3",
        "llama2",
        "llama3_1",
        "qwen3",
        "gpt4o",
        "deepseek_v3",
    ] {
        let file = file(name);
        let tokenizer = build(&file.tokenizer);
        assert_eq!(file.cases.len(), TEXTS);
        for case in file.cases {
            let text = &case.text;
            let plain = tokenizer.encode(text, false);
            assert_eq!(plain.as_ref(), Ok(&case.ids), "{name} {text:?}");
            let special = tokenizer.encode(text, true);
            assert_eq!(special.as_ref(), Ok(&case.special_ids), "{name} {text:?}");
            let prompt = tokenizer.encode_prompt(text);
            assert_eq!(prompt.as_ref(), Ok(&case.prompt_ids), "{name} {text:?}");
            let decoded = tokenizer.decode(&case.special_ids);
            assert_eq!(decoded, case.decoded, "{name} {text:?}");
        }
    }
}

#[test]
fn ids_equal_hugging_face_under_further_steps() {
    let text = include_str!("../data/tokenizer/json-variants.json");
    let variants: Vec<Variant> = serde_json::from_str(text).expect("valid data");
    assert_eq!(variants.len(), 13);
    for variant in variants {
        let File {
            mut tokenizer,
            cases,
        } = file(&variant.file);
        let base = build(&tokenizer);
        for (key, value) in variant.put {
            tokenizer[key] = value;
        }
        for token in tokenizer["added_tokens"].as_array_mut().expect("a list") {
            let token = token.as_object_mut().expect("an object");
            token.extend(variant.tokens.clone());
        }
        let varied = build(&tokenizer);
        assert_eq!(variant.ids.len(), cases.len());
        let mut differences = 0;
        for (case, [plain, special]) in cases.iter().zip(&variant.ids) {
            let (name, text) = (&variant.name, &case.text);
            let found = varied.encode(text, false);
            assert_eq!(found.as_ref(), Ok(plain), "{name}: {text:?}");
            let found = varied.encode(text, true);
            assert_eq!(found.as_ref(), Ok(special), "{name}: {text:?}");
            differences += usize::from(base.encode(text, true) != found);
        }
        assert!(differences > 0, "{} changes nothing", variant.name);
    }
}

#[test]
fn control_tokens_are_found_only_where_the_caller_allows_them() {
    let segment = |text: &str, special| Segment {
        text: text.to_owned(),
        special,
    };
    for (name, token) in [
        ("gemma3", "<end_of_turn>"),
        ("llama3_1", "<|eot_id|>"),
        ("qwen3", "<|im_end|>"),
    ] {
        let file = file(name);
        for normalized in [false, true] {
            let mut spec = file.tokenizer.clone();
            for token in spec["added_tokens"].as_array_mut().expect("a list") {
                token["normalized"] = json!(normalized);
            }
            let tokenizer = build(&spec);
            let [id] = tokenizer.encode(token, true).expect("encodes")[..] else {
                panic!("{name}: {token} is one token");
            };
            assert!(tokenizer.is_control(id));
            assert!(tokenizer.end_ids().contains(&id), "{name}");
            let (half, rest) = token.split_at(3);
            let ids = tokenizer.encode_segments(&[
                segment("\u{e9} e\u{301} x", true),
                segment(token, false),
                segment(half, true),
                segment(rest, false),
                segment(half, true),
                segment(rest, true),
                segment("", false),
            ]);
            let ids = ids.expect("encodes");
            let found = ids.iter().filter(|found| **found == id).count();
            assert_eq!((found, ids.last()), (1, Some(&id)), "{name}");
            let whole = tokenizer.encode(&[token; 3].concat(), false);
            assert!(!whole.expect("encodes").contains(&id), "{name}");
        }
    }
}

#[test]
fn what_the_model_names_goes_before_the_file() {
    let spec = file("llama3_1").tokenizer;
    let prompt = |named: &Vocabulary| {
        let json = spec.to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), rows(&spec), named).expect("valid");
        (tokenizer.encode_prompt("a").expect("encodes"), tokenizer)
    };
    let (ids, tokenizer) = prompt(&Vocabulary::default());
    let [bos, a] = ids[..] else {
        panic!("{ids:?}");
    };
    assert_eq!(tokenizer.bos_text(), "<|begin_of_text|>");
    assert_eq!(tokenizer.eos(), None);
    let named = Vocabulary {
        bos: Some(a),
        eos: Some(bos),
        add_eos: Some(true),
        ..Vocabulary::default()
    };
    let (ids, tokenizer) = prompt(&named);
    assert_eq!(ids, [bos, a, bos]);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(a), Some(bos)));
    assert!(tokenizer.end_ids().contains(&bos));
    let named = Vocabulary {
        add_bos: Some(false),
        ..Vocabulary::default()
    };
    assert_eq!(prompt(&named).0, [a]);
}

#[test]
fn rows_past_the_tokens_stand_for_nothing_and_tokens_past_the_rows_are_left_out() {
    let mut spec = file("gemma3").tokenizer;
    let size = rows(&spec);
    let mut extra = spec["added_tokens"][0].clone();
    extra["id"] = json!(size + 7);
    extra["content"] = json!("<picture>");
    let list = spec["added_tokens"].as_array_mut().expect("a list");
    list.push(extra);
    let json = spec.to_string();
    let build =
        |rows| Tokenizer::from_json(json.as_bytes(), rows, &Vocabulary::default()).expect("valid");
    let without = build(size);
    let ids = without.encode("a<picture>", true).expect("encodes");
    assert!(ids.len() > 2 && without.decode(&ids) == "a<picture>");
    let with = build(size + 9);
    assert_eq!(with.vocab_size(), size + 9);
    let picture = u32::try_from(size + 7).expect("small");
    let ids = with.encode("a<picture>", true).expect("encodes");
    assert_eq!((ids.len(), ids[1]), (2, picture));
    assert_eq!(with.token_bytes(picture + 1), Some(&b""[..]));
    assert_eq!(with.token_bytes(picture + 2), None);
}
