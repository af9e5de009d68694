//! Architectures that candle-transformers runs, against `transformers`: tiny random models whose
//! float32 logits lie in `data/architectures/compat`, beside the script that makes them.
#![cfg(feature = "compat")]

mod common;

use std::path::PathBuf;

use common::compat::{bare, session, step};
use common::model::{greedy, ids, run, session_from_bytes};
use serde::Deserialize;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::compat::{CompatBackend, Family};
use tokenbrook::measure::FinishReason;
use tokenbrook::model::{COMPAT_ARCHITECTURES, ModelError};
use tokenbrook::session::{EmbedInput, EmbedOptions, Progress, ScoreProgress, Session};

const TOLERANCE: f32 = 1e-3;

/// A list of the fixtures, and a test of the logits of each.
macro_rules! logits {
    ($($test:ident: $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                logits_are_those_of_transformers($name);
            }
        )*
    };
}

logits! {
    logits_of_glm4_are_those_of_transformers: "glm4",
    logits_of_lfm2_are_those_of_transformers: "lfm2",
    logits_of_mixtral_are_those_of_transformers: "mixtral",
    logits_of_a_mixtral_with_a_tensor_an_expert_are_those_of_transformers: "mixtral-split",
    logits_of_phi2_are_those_of_transformers: "phi2",
    logits_of_a_phi2_with_parted_projections_are_those_of_transformers: "phi2-split",
}

#[derive(Deserialize)]
struct Reference {
    architecture: String,
    ids: Vec<u32>,
    /// Positions whose logits are given.
    rows: Vec<usize>,
    /// `[rows, V]`.
    logits: Vec<Vec<f32>>,
    /// What follows the ids, likeliest by likeliest.
    greedy: Vec<u32>,
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(path(&format!("{name}.gguf"))).expect("the model reads")
}

fn reference(name: &str) -> Reference {
    let text = std::fs::read(path(&format!("{name}.json"))).expect("the reference reads");
    serde_json::from_slice(&text).expect("the reference is as described")
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/architectures/compat")
        .join(name)
}

fn arg_max(logits: &[f32]) -> usize {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.expect("a vocabulary")
}

fn logits_are_those_of_transformers(name: &str) {
    let reference = reference(name);
    let mut backend = bare(&file(name));
    let vocab = reference.logits[0].len();
    // The second time its cache is not empty when it starts.
    for chunk in [64, 5] {
        let mut all = Vec::new();
        for ids in reference.ids.chunks(chunk) {
            all.extend(step(&mut backend, ids, all.len() / vocab));
        }
        assert_eq!(all.len(), reference.ids.len() * vocab);
        let mut worst = 0.0_f32;
        for (&row, want) in reference.rows.iter().zip(&reference.logits) {
            let got = &all[row * vocab..(row + 1) * vocab];
            for (got, want) in got.iter().zip(want) {
                let difference = (got - want).abs();
                assert!(
                    difference <= TOLERANCE,
                    "{name}, position {row}: {got} instead of {want}"
                );
                worst = worst.max(difference);
            }
            assert_eq!(arg_max(got), arg_max(want), "{name}, position {row}");
        }
        eprintln!("{name} in chunks of {chunk}: {worst:.2e}");
    }
}

#[test]
fn sessions_write_what_transformers_writes() {
    for &name in NAMES {
        let reference = reference(name);
        let mut session = session(&file(name)).expect("it loads");
        assert_eq!(session.description().architecture, reference.architecture);
        assert_eq!(session.description().quantization, "F32");
        assert_eq!(session.description().context_length, 64);
        let count = reference.greedy.len();
        let tokens = run(&mut session, reference.ids.clone(), greedy(count));
        assert_eq!(ids(&tokens), reference.greedy, "{name}");
        let memory = session.memory();
        assert!(
            memory.kv_cache_bytes > 0 && memory.weights_bytes > 100_000,
            "{name}"
        );
    }
}

/// Runs a generation to its end; its ids and how many tokens were cached.
fn cached(session: &mut Session<CompatBackend>, prompt: &[u32], count: usize) -> (Vec<u32>, usize) {
    let mut generation = session
        .generation(prompt.to_vec(), greedy(count))
        .expect("the prompt fits");
    loop {
        let progress = pollster::block_on(session.advance(&mut generation)).expect("it runs");
        if progress == Progress::Finished {
            let stats = generation.stats(FinishReason::Length);
            let answer = generation.ids()[prompt.len()..].to_vec();
            return (answer, stats.cached_tokens);
        }
    }
}

#[test]
fn a_prompt_that_goes_on_is_cached_and_any_other_starts_anew() {
    for &name in NAMES {
        let bytes = file(name);
        let reference = reference(name);
        let prompt = &reference.ids;
        let mut session = session(&bytes).expect("it loads");
        assert_eq!(
            cached(&mut session, prompt, 3),
            (reference.greedy[..3].to_vec(), 0)
        );
        // Prompt and answer, but for the last token, which was never fed.
        let longer = [&prompt[..], &reference.greedy[..3]].concat();
        let kept = longer.len() - 1;
        assert_eq!(
            cached(&mut session, &longer, 4),
            (reference.greedy[3..7].to_vec(), kept)
        );
        assert_eq!(
            cached(&mut session, prompt, 2),
            (reference.greedy[..2].to_vec(), 0)
        );
        // One token at the start of a cache that is not empty: as in one that is.
        for prompt in [&prompt[..1], &prompt[..2], &prompt[7..8]] {
            let mut fresh = common::compat::session(&bytes).expect("it loads");
            let want = cached(&mut fresh, prompt, 5);
            assert_eq!(cached(&mut session, prompt, 5), want, "{name}");
        }
    }
}

#[test]
fn an_answer_that_is_left_leaves_the_next_as_it_would_have_been() {
    for &name in NAMES {
        let reference = reference(name);
        let mut session = session(&file(name)).expect("it loads");
        let mut left = session
            .generation(reference.ids[5..25].to_vec(), greedy(9))
            .expect("the prompt fits");
        let mut chunks = 0;
        while !matches!(
            pollster::block_on(session.advance(&mut left)).expect("it runs"),
            Progress::Token(_)
        ) {
            chunks += 1;
        }
        assert!(chunks > 1, "a stop is heard between chunks of the prompt");
        assert_eq!(
            cached(&mut session, &reference.ids, 2).0,
            reference.greedy[..2]
        );
    }
}

#[test]
fn scores_are_those_of_the_logits() {
    for &name in NAMES {
        let reference = reference(name);
        let mut session = session(&file(name)).expect("it loads");
        let mut job = session.score_job(reference.ids.clone()).expect("it fits");
        let result = loop {
            match pollster::block_on(session.score(&mut job)).expect("it runs") {
                ScoreProgress::Scored { .. } => {}
                ScoreProgress::Finished(result) => break result,
            }
        };
        for (&row, logits) in reference.rows.iter().zip(&reference.logits) {
            // The last position has no successor.
            if row + 1 == reference.ids.len() {
                continue;
            }
            let best = arg_max(logits);
            assert_eq!(result.top1[row] as usize, best, "{name}, position {row}");
            let total: f64 = logits.iter().map(|&z| f64::from(z).exp()).sum();
            let next = f64::from(logits[reference.ids[row + 1] as usize]) - total.ln();
            assert!(
                (result.next_logprob[row] - next).abs() < 2e-3,
                "{name}, position {row}"
            );
        }
    }
}

#[test]
fn embeddings_are_refused_by_name() {
    let mut session = session(&file("lfm2")).expect("it loads");
    let options = EmbedOptions {
        texts: vec![EmbedInput::Text("hein".to_owned())],
        pooling: None,
    };
    let mut job = session.embed_job(options).expect("it fits");
    let error = pollster::block_on(session.embed(&mut job)).expect_err("there are no states");
    assert_eq!(error.code(), "unsupported-architecture");
    let message = error.to_string();
    assert!(
        message.contains("embeddings") && message.contains("lfm2"),
        "{message}"
    );
}

/// The file with one text put in place of another of the same length.
fn replaced(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let found = file.windows(from.len()).position(|window| window == from);
    let at = found.unwrap_or_else(|| panic!("{from:?} is in the file"));
    file[at..at + to.len()].copy_from_slice(to);
    file
}

/// The file with the number after a key replaced; the type's four bytes lie between.
fn with_number(file: &[u8], key: &str, number: [u8; 4]) -> Vec<u8> {
    let found = file
        .windows(key.len())
        .position(|window| window == key.as_bytes());
    let at = found.unwrap_or_else(|| panic!("{key} is in the file")) + key.len() + 4;
    let mut file = file.to_vec();
    file[at..at + 4].copy_from_slice(&number);
    file
}

fn refusal(bytes: &[u8]) -> (&'static str, String) {
    let error = session(bytes).err().expect("the file is refused");
    (error.code(), error.to_string())
}

#[test]
fn the_forward_pass_leaves_these_files_to_the_compat_artifact() {
    for &name in NAMES {
        let bytes = file(name);
        let error = session_from_bytes(CpuBackend::new(Precision::Exact), &bytes, None);
        let error = error.err().expect("it has no such architecture");
        let name = reference(name).architecture;
        assert_eq!(error, ModelError::CompatArchitecture { name }.into());
        assert_eq!(error.code(), "unsupported-architecture");
    }
}

#[test]
fn what_neither_has_is_refused_with_its_name_and_both_lists() {
    let unknown = replaced(&file("phi2"), b"phi2", b"mamb");
    let here = session(&unknown).err().expect("it is refused");
    let there = session_from_bytes(CpuBackend::new(Precision::Exact), &unknown, None);
    let there = there.err().expect("it is refused");
    for error in [here, there] {
        assert_eq!(error.code(), "unsupported-architecture");
        let message = error.to_string();
        let names = [
            "\"mamb\"",
            "llama, qwen2",
            "granite",
            "glm4, lfm2, llama with experts, phi2",
        ];
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

#[test]
fn every_architecture_of_the_list_has_its_model_and_its_fixture() {
    for (architecture, _) in COMPAT_ARCHITECTURES {
        let family = Family::by_name(architecture, true).expect("a model runs it");
        assert_eq!(family.architecture(), *architecture);
        assert!(
            NAMES
                .iter()
                .any(|name| reference(name).architecture == *architecture)
        );
    }
    // Without experts it is the forward pass's.
    assert_eq!(Family::by_name("llama", false), None);
}

#[test]
fn refuses_what_the_model_would_get_wrong() {
    let three = 3_u32.to_le_bytes();
    for (name, key, number, code, word) in [
        (
            "phi2",
            "phi2.rope.dimension_count",
            three,
            "unsupported-architecture",
            "dimension_count",
        ),
        (
            "glm4",
            "glm4.rope.dimension_count",
            three,
            "unsupported-architecture",
            "dimension_count",
        ),
        (
            "glm4",
            "glm4.attention.value_length",
            three,
            "unsupported-architecture",
            "value_length",
        ),
        (
            "glm4",
            "glm4.attention.key_length",
            three,
            "unsupported-architecture",
            "value_length",
        ),
        (
            "phi2",
            "phi2.attention.head_count_kv",
            [1, 0, 0, 0],
            "unsupported-architecture",
            "kv",
        ),
        (
            "mixtral",
            "llama.attention.head_count_kv",
            [2, 0, 0, 0],
            "invalid-gguf",
            "divisor of 3",
        ),
        (
            "mixtral",
            "llama.expert_used_count",
            [6, 0, 0, 0],
            "invalid-gguf",
            "at most 5",
        ),
        (
            "mixtral",
            "llama.expert_count",
            [4, 0, 0, 0],
            "invalid-gguf",
            "shape",
        ),
        (
            "mixtral",
            "llama.expert_count",
            [255; 4],
            "invalid-gguf",
            "expert_count",
        ),
        (
            "lfm2",
            "lfm2.shortconv.l_cache",
            [4, 0, 0, 0],
            "invalid-gguf",
            "shortconv.conv",
        ),
        (
            "lfm2",
            "lfm2.block_count",
            [5, 0, 0, 0],
            "invalid-gguf",
            "one number a layer",
        ),
        (
            "glm4",
            "glm4.block_count",
            [2, 0, 0, 0],
            "unsupported-architecture",
            "blk.2",
        ),
        (
            "glm4",
            "glm4.block_count",
            [4, 0, 0, 0],
            "invalid-gguf",
            "blk.3",
        ),
    ] {
        let (got, message) = refusal(&with_number(&file(name), key, number));
        assert_eq!(got, code, "{name} with another {key}: {message}");
        assert!(
            message.contains(word),
            "{name} with another {key}: {message}"
        );
    }
}

#[test]
fn refuses_tensors_that_are_missing_or_left_over() {
    // Parts of queries, keys and values are none of its tensors while one of them is missing.
    let bytes = file("phi2-split");
    let (code, message) = refusal(&replaced(
        &bytes,
        b"blk.1.attn_v.weight",
        b"blk.1.attn_w.weight",
    ));
    assert_eq!(code, "unsupported-architecture", "{message}");
    assert!(message.contains("blk.1.attn_w.weight"), "{message}");
    let (code, message) = refusal(&replaced(&bytes, b"phi2.block_count", b"phi2.block_coun?"));
    assert_eq!(code, "invalid-gguf", "{message}");
    assert!(message.contains("phi2.block_count"), "{message}");
}

/// Damaged headers: refused or loaded, but nothing panics, and what loads runs or says why not.
#[test]
fn damaged_files_do_no_harm() {
    let mut random = common::Random(47);
    for &name in NAMES {
        let whole = file(name);
        let header = 9000;
        let mut refused = 0;
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(header);
                bytes[at] = u8::try_from(random.below(256)).expect("it is a byte");
            }
            let Ok(mut session) = session(&bytes) else {
                refused += 1;
                continue;
            };
            let Ok(mut generation) = session.generation(vec![5, 9], greedy(2)) else {
                continue;
            };
            while let Ok(progress) = pollster::block_on(session.advance(&mut generation)) {
                if progress == Progress::Finished {
                    break;
                }
            }
        }
        assert!(refused > 5, "{name}: {refused} refused");
    }
}
