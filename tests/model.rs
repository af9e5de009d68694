//! What a model description refuses, and with which words.

mod common;

use common::gguf_builder::GgufBuilder;
use common::model::session_from_bytes;
use common::tiny_llama::{self, CONTEXT};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::session::SessionError;

fn load(bytes: &[u8], context_length: Option<usize>) -> Result<(), SessionError> {
    let backend = CpuBackend::new(Precision::Fast);
    session_from_bytes(backend, bytes, context_length).map(|_| ())
}

/// The error of a file in which `change` speaks first: a later duplicate key is refused, so
/// the usual keys of that name are left out.
fn refusal(bytes: &[u8]) -> (&'static str, String) {
    let error = load(bytes, None).expect_err("the file is refused");
    (error.code(), error.to_string())
}

/// The tiny model's file with one metadata value overwritten in place.
fn patched(key: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut file = tiny_llama::file();
    let needle = [key.as_bytes(), old].concat();
    let found = file
        .windows(needle.len())
        .position(|window| window == needle);
    let at = found.unwrap_or_else(|| panic!("{key} is in the file")) + key.len();
    file[at..at + old.len()].copy_from_slice(new);
    file
}

fn patched_u32(key: &str, old: u32, new: u32) -> Vec<u8> {
    let typed = |value: u32| [4_u32.to_le_bytes(), value.to_le_bytes()].concat();
    patched(key, &typed(old), &typed(new))
}

fn patched_f32(key: &str, old: f32, new: f32) -> Vec<u8> {
    let typed = |value: f32| [6_u32.to_le_bytes(), value.to_le_bytes()].concat();
    patched(key, &typed(old), &typed(new))
}

fn llama() -> GgufBuilder {
    tiny_llama::metadata_with(|builder| builder.str("general.architecture", "llama"))
}

#[test]
fn rejects_an_architecture_that_is_not_known_with_the_list_of_those_that_are() {
    let file = tiny_llama::metadata_with(|b| b.str("general.architecture", "clip")).build();
    let (code, text) = refusal(&file);
    assert_eq!(code, "unsupported-architecture");
    assert!(
        text.contains("\"clip\"") && text.contains("llama"),
        "{text}"
    );
    let (code, text) = refusal(&tiny_llama::metadata().build());
    assert_eq!(code, "invalid-gguf");
    assert!(text.contains("general.architecture"), "{text}");
}

#[test]
fn rejects_hyperparameters_outside_their_limits() {
    let eps = "llama.attention.layer_norm_rms_epsilon";
    for (file, key) in [
        (
            patched_u32("llama.embedding_length", 24, 0),
            "llama.embedding_length",
        ),
        (
            patched_u32("llama.embedding_length", 24, u32::MAX),
            "llama.embedding_length",
        ),
        (patched_u32("llama.block_count", 2, 0), "llama.block_count"),
        (
            patched_u32("llama.block_count", 2, 70_000),
            "llama.block_count",
        ),
        (
            patched_u32("llama.context_length", 300, 0),
            "llama.context_length",
        ),
        (
            patched_u32("llama.attention.head_count", 6, 7),
            "llama.attention.head_count",
        ),
        (
            patched_u32("llama.attention.head_count_kv", 2, 4),
            "llama.attention.head_count_kv",
        ),
        (patched_f32(eps, 1e-5, f32::NAN), eps),
        (patched_f32(eps, 1e-5, 0.0), eps),
        (patched_f32(eps, 1e-5, f32::INFINITY), eps),
        (patched_f32(eps, 1e-5, -1.0), eps),
    ] {
        let (code, text) = refusal(&file);
        assert_eq!(code, "invalid-gguf", "{text}");
        assert!(text.contains(key) && text.contains("must be"), "{text}");
    }
}

#[test]
fn rejects_features_that_would_change_the_computation() {
    for (builder, key) in [
        // Experts are the compat engine's.
        (llama().u32("llama.expert_count", 8), "compat"),
        (
            llama().str("llama.rope.scaling.type", "dynamic"),
            "llama.rope.scaling.type",
        ),
        (
            llama().u32("llama.attention.value_length", 8),
            "llama.attention.value_length",
        ),
    ] {
        let (code, text) = refusal(&builder.build());
        assert_eq!(code, "unsupported-architecture", "{text}");
        assert!(text.contains(key), "{text}");
    }
}

#[test]
fn rejects_missing_unknown_and_misshapen_tensors() {
    let all = tiny_llama::tensors();
    for missing in [
        "token_embd.weight",
        "output_norm.weight",
        "blk.1.ffn_up.weight",
    ] {
        let rest: Vec<_> = all
            .iter()
            .filter(|(name, _)| name != missing)
            .cloned()
            .collect();
        let (code, text) = refusal(&tiny_llama::with_tensors(llama(), &rest).build());
        assert_eq!(code, "invalid-gguf");
        assert!(text.contains(missing), "{text}");
    }
    let mut more = all.clone();
    more.push(("blk.0.attn_q_norm.weight".to_owned(), vec![4]));
    let (code, text) = refusal(&tiny_llama::with_tensors(llama(), &more).build());
    assert_eq!(code, "unsupported-architecture");
    assert!(text.contains("blk.0.attn_q_norm.weight"), "{text}");
    let mut wrong = all.clone();
    wrong[3].1 = vec![24, 23];
    let (code, text) = refusal(&tiny_llama::with_tensors(llama(), &wrong).build());
    assert_eq!(code, "invalid-gguf");
    assert!(
        text.contains("blk.0.attn_q.weight") && text.contains("[24, 24]"),
        "{text}"
    );
}

#[test]
fn rejects_a_norm_that_is_not_a_number_and_factors_that_are_zero() {
    let file = llama()
        .tensor_f32("output_norm.weight", &[24], &[f32::NAN; 24])
        .build();
    let (code, text) = refusal(&file);
    assert_eq!(code, "invalid-gguf");
    assert!(
        text.contains("output_norm.weight") && text.contains("NaN"),
        "{text}"
    );
    let factors = llama().tensor_f32("rope_freqs.weight", &[2], &[1.0, 0.0]);
    let (code, text) = refusal(&tiny_llama::with_tensors(factors, &tiny_llama::tensors()).build());
    assert_eq!(code, "invalid-gguf");
    assert!(text.contains("rope_freqs.weight"), "{text}");
}

#[test]
fn rejects_a_context_longer_than_the_models() {
    let error = load(&tiny_llama::file(), Some(CONTEXT + 1)).expect_err("too long");
    assert_eq!(error.code(), "invalid-option");
    assert!(error.to_string().contains("contextLength"), "{error}");
    assert_eq!(load(&tiny_llama::file(), Some(CONTEXT)), Ok(()));
}

#[test]
fn an_output_matrix_of_its_own_biases_and_frequency_factors_change_the_answer() {
    use common::model::{greedy, ids, prompt, run};
    use tokenbrook::session::Input;

    let answer = |file: &[u8]| {
        let backend = CpuBackend::new(Precision::Exact);
        let mut session = session_from_bytes(backend, file, None).expect("it loads");
        let prompt = prompt(&session, &Input::Raw("Hello there".to_owned()));
        let options = tokenbrook::session::GenerateOptions {
            ignore_eos: true,
            ..greedy(16)
        };
        ids(&run(&mut session, prompt, options))
    };
    let plain = answer(&tiny_llama::file());
    let with = |builder: GgufBuilder, more: &[(&str, Vec<u64>)]| {
        let mut tensors = tiny_llama::tensors();
        tensors.extend(
            more.iter()
                .map(|(name, shape)| ((*name).to_owned(), shape.clone())),
        );
        answer(&tiny_llama::with_tensors(builder, &tensors).build())
    };
    assert_ne!(
        plain,
        with(llama(), &[("output.weight", vec![24, 259])]),
        "output"
    );
    let factors = llama().tensor_f32("rope_freqs.weight", &[2], &[1.0, 40.0]);
    assert_ne!(plain, with(factors, &[]), "factors");
    let linear = llama()
        .str("llama.rope.scaling.type", "linear")
        .f32("llama.rope.scaling.factor", 8.0);
    assert_ne!(plain, with(linear, &[]), "linear scaling");
    let biases = [("q", 24_u64), ("k", 8), ("v", 8)].map(|(part, len)| (part, vec![len]));
    let named: Vec<(String, Vec<u64>)> = biases
        .iter()
        .map(|(part, shape)| (format!("blk.0.attn_{part}.bias"), shape.clone()))
        .collect();
    let named: Vec<(&str, Vec<u64>)> = named
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone()))
        .collect();
    assert_ne!(plain, with(llama(), &named), "biases");
}
