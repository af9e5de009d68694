//! Where a model's tokenizer comes from: the file's vocabulary, the `tokenizer.json` in the
//! file, or the caller's.

mod common;

use std::rc::Rc;
use std::time::Instant;

use common::default_model;
use common::gguf_builder::GgufBuilder;
use common::model::{SystemClock, prompt, session_from_bytes};
use common::tiny_llama::{metadata_with, tensors, with_tensors};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::gguf::{Metadata, Parsed, parse};
use tokenbrook::session::{Input, LoadOptions, Loader, Session, SessionError};
use tokenbrook::tokenizer::{Tokenizer, TokenizerError, Vocabulary};

fn tiny() -> GgufBuilder {
    metadata_with(|builder| builder.str("general.architecture", "llama"))
}

fn load(builder: GgufBuilder) -> Result<Session<CpuBackend>, SessionError> {
    let file = with_tensors(builder, &tensors()).build();
    session_from_bytes(CpuBackend::new(Precision::Exact), &file, None)
}

fn load_with(builder: GgufBuilder, json: &str) -> Result<Session<CpuBackend>, SessionError> {
    let file = with_tensors(builder, &tensors()).build();
    let backend = CpuBackend::new(Precision::Exact);
    let clock = Rc::new(SystemClock::from(Instant::now()));
    let options = LoadOptions {
        context_length: None,
        file_bytes: vec![None],
    };
    let mut loader = Loader::new(backend, options, clock).with_tokenizer(json.as_bytes().to_vec());
    loader.push(&file)?;
    loader.end_file()?;
    loader.finish()
}

/// The steps of SmolLM2's `tokenizer.json`, around a vocabulary.
fn smollm(tokens: &[&str], types: &[i32], merges: &[&str]) -> String {
    let controls = tokens.iter().zip(types).enumerate();
    let controls: Vec<Value> = controls
        .filter(|(_, (_, kind))| **kind == 3)
        .map(|(id, (text, _))| {
            json!({ "id": id, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true })
        })
        .collect();
    let vocab: Map<String, Value> = tokens
        .iter()
        .enumerate()
        .map(|(id, text)| ((*text).to_owned(), json!(id)))
        .collect();
    let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true });
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": controls,
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Digits", "individual_digits": true }, level.clone(),
        ] },
        "post_processor": null,
        "decoder": level,
        "model": { "type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "vocab": vocab, "merges": merges },
    })
    .to_string()
}

fn metadata(file: &[u8]) -> Metadata {
    match parse(file, Some(file.len() as u64)).expect("a header") {
        Parsed::Header(header) => header.metadata,
        Parsed::NeedMore { total_bytes } => panic!("needs {total_bytes} bytes"),
    }
}

fn texts<'a>(metadata: &'a Metadata, key: &str) -> Vec<&'a str> {
    let list = metadata.strings(key).expect("strings").expect("a list");
    let text = |index| std::str::from_utf8(list.get(index).expect("an entry")).expect("UTF-8");
    (0..list.len()).map(text).collect()
}

/// The `tokenizer.json` that a file with the rule `smollm` could have been made from.
fn json_of(file: &[u8]) -> String {
    let metadata = metadata(file);
    let types = metadata.i32s("tokenizer.ggml.token_type");
    smollm(
        &texts(&metadata, "tokenizer.ggml.tokens"),
        &types.expect("numbers").expect("a list"),
        &texts(&metadata, "tokenizer.ggml.merges"),
    )
}

fn raw(session: &Session<CpuBackend>, text: &str) -> Vec<u32> {
    prompt(session, &Input::Raw(text.to_owned()))
}

#[test]
fn the_file_of_the_default_model_gives_the_same_ids_either_way() {
    #[derive(Deserialize)]
    struct Fixture {
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
        special_ids: Vec<u32>,
    }
    let file = std::fs::read(default_model()).expect("the model file reads");
    let json = json_of(&file);
    let tokenizer = Tokenizer::from_json(json.as_bytes(), 49_152, &Vocabulary::default());
    let tokenizer = tokenizer.expect("valid");
    let data = include_str!("data/tokenizer/smollm2.json");
    let fixture: Fixture = serde_json::from_str(data).expect("valid data");
    assert_eq!(fixture.cases.len(), 57);
    for Case {
        text,
        ids,
        special_ids,
    } in fixture.cases
    {
        assert_eq!(tokenizer.encode(&text, false), Ok(ids), "{text:?}");
        assert_eq!(tokenizer.encode(&text, true), Ok(special_ids), "{text:?}");
    }
    let metadata = metadata(&file);
    for (id, text) in (0_u32..).zip(texts(&metadata, "tokenizer.ggml.tokens")) {
        let is_control = tokenizer.is_control(id);
        assert_eq!(is_control, text.starts_with("<|") || id < 17, "{id} {text}");
    }
}

#[test]
fn a_json_in_the_file_stands_in_for_a_rule_that_is_not_built_in() {
    let json = json_of(&tiny().build());
    let rule = |rule: &str| {
        tiny()
            .without("tokenizer.ggml.pre")
            .str("tokenizer.ggml.pre", rule)
    };
    let refused = load(rule("poro-chat")).err().expect("not built in");
    let unknown = TokenizerError::UnsupportedPre {
        found: "poro-chat".to_owned(),
    };
    assert_eq!(refused, SessionError::Tokenizer(unknown));
    let with_json = |builder: GgufBuilder| builder.str("tokenizer.huggingface.json", &json);
    let session = load(with_json(rule("poro-chat"))).expect("it has a tokenizer.json");
    let own = load(tiny()).expect("it has a vocabulary");
    let text = "Gr\u{fc}\u{df}e 12\n<|im_start|>";
    assert_eq!(raw(&session, text), raw(&own, text));
    assert_eq!(session.tokenizer().end_ids(), own.tokenizer().end_ids());
    let kind = tiny()
        .without("tokenizer.ggml.model")
        .str("tokenizer.ggml.model", "bert");
    let session = load(with_json(kind)).expect("it has a tokenizer.json");
    assert_eq!(raw(&session, text), raw(&own, text));
    // What is built in needs none, so that it may be anything.
    let odd = tiny().str("tokenizer.huggingface.json", "{");
    assert_eq!(raw(&load(odd).expect("built in"), text), raw(&own, text));
    let broken = rule("poro-chat").str("tokenizer.huggingface.json", "{");
    let error = load(broken).err().expect("no JSON");
    assert!(
        matches!(
            error,
            SessionError::Tokenizer(TokenizerError::InvalidJson { .. })
        ),
        "{error}"
    );
    assert_eq!(error.code(), "invalid-gguf");
}

#[test]
fn a_file_without_a_vocabulary_takes_its_length_from_the_embedding() {
    let bare = || {
        tiny()
            .without("tokenizer.ggml.")
            .str("tokenizer.ggml.model", "gpt2")
    };
    let error = load(bare()).err().expect("no tokenizer");
    assert_eq!(
        error,
        SessionError::Tokenizer(TokenizerError::EmptyVocabulary)
    );
    let json = json_of(&tiny().build());
    let own = load(tiny()).expect("it has a vocabulary");
    let text = "ab 7 <|im_end|>";
    let within = load(bare().str("tokenizer.huggingface.json", &json)).expect("it has a JSON");
    assert_eq!(raw(&within, text), raw(&own, text));
    let given = load_with(bare(), &json).expect("the caller has a JSON");
    assert_eq!(raw(&given, text), raw(&own, text));
    assert_eq!(given.tokenizer().vocab_size(), 259);
}

#[test]
fn the_callers_json_goes_before_the_vocabulary_of_the_file() {
    let json = json_of(&tiny().build());
    let swapped = json
        .replace("\"a\":", "\"between\":")
        .replace("\"b\":", "\"a\":");
    let swapped = swapped.replace("\"between\":", "\"b\":");
    let own = load(tiny()).expect("it has a vocabulary");
    let given = load_with(tiny(), &swapped).expect("valid");
    assert_ne!(raw(&given, "ab"), raw(&own, "ab"));
    assert_eq!(raw(&given, "ab"), raw(&own, "ba"));
    // The model's own word on BOS counts.
    let asks = tiny()
        .without("tokenizer.ggml.add_bos_token")
        .bool("tokenizer.ggml.add_bos_token", true);
    let given = load_with(asks, &json).expect("valid");
    assert_eq!(raw(&given, "a")[0], 1);
}

#[test]
fn a_json_of_another_model_is_the_callers_fault() {
    let wide: Vec<String> = (0..400).map(|n| format!("t{n}")).collect();
    let wide: Vec<&str> = wide.iter().map(|text| &**text).collect();
    let wide = smollm(&wide, &[], &[]);
    let few = smollm(&["a"], &[1], &[]);
    for (json, tokens) in [(&*wide, 400), (&*few, 1), ("{}", 0), ("[", 0)] {
        let error = load_with(tiny(), json).err().expect("refused");
        let SessionError::TokenizerOption(inner) = &error else {
            panic!("{error}");
        };
        assert_eq!(error.code(), "invalid-option");
        assert!(
            error.to_string().starts_with("option \"tokenizer\""),
            "{error}"
        );
        let mismatch = TokenizerError::OtherVocabulary { tokens, rows: 259 };
        assert_eq!(*inner == mismatch, tokens > 0, "{inner}");
    }
}
