//! Every architecture against `transformers`: tiny random models whose float32 logits lie in
//! `data/architectures`, beside the script that makes them.
//!
//! Each prompt is longer than the model's window. On both backends the logits must be within
//! 1e-3 of the reference, and their maxima the same, whether the prompt is one chunk, several
//! of odd sizes, or one token at a time.

mod common;

use common::fixtures::{Case, TOLERANCE, arg_max, compare, load, logits, path};
use common::model::{greedy, run, session_from_bytes};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::measure::FinishReason;
use tokenbrook::session::Progress;

const MAX_ROWS: usize = 320;

/// All ways to feed all prompts of one model through both backends.
fn check(name: &str) {
    let (file, reference) = load(name);
    for case in &reference.cases {
        let vocab = case.logits[0].len();
        for chunks in [&[MAX_ROWS][..], &[5, 1, 11, 3], &[1]] {
            let what = |backend| format!("{name} on {backend} in chunks of {chunks:?}");
            let exact = logits(CpuBackend::new(Precision::Exact), &file, case, chunks);
            let plain = logits(ReferenceBackend::new(), &file, case, chunks);
            assert_eq!(exact.len(), case.ids.len() * vocab);
            let worst = [
                compare(&what("the CPU"), case, &exact, TOLERANCE),
                compare(&what("the reference"), case, &plain, TOLERANCE),
            ];
            eprintln!("{}: {worst:?}", what("both"));
        }
    }
    let case = &reference.cases[0];
    let backend = CpuBackend::new(Precision::Exact);
    let mut session =
        session_from_bytes(backend, &file, Some(case.context_length)).expect("a session loads it");
    assert_eq!(session.description().architecture, reference.architecture);
    let first = run(&mut session, case.ids.clone(), greedy(1));
    let last = case.logits.last().expect("the last position is there");
    assert_eq!(
        first[0].id as usize,
        arg_max(last),
        "{name}: the session's first token"
    );
}

/// The file with a key renamed, so that nothing finds it.
fn without(file: &[u8], key: &str) -> Vec<u8> {
    let mut file = file.to_vec();
    let found = file
        .windows(key.len())
        .position(|window| window == key.as_bytes());
    let at = found.unwrap_or_else(|| panic!("{key} is in the file"));
    file[at + key.len() - 1] = b'?';
    file
}

/// The fixtures would show a key that is not read: without it the logits are others.
#[test]
fn a_key_that_is_left_out_changes_the_logits() {
    for (name, key) in [
        ("llama-linear", "llama.rope.scaling.factor"),
        ("llama-yarn", "llama.rope.scaling.type"),
        ("llama-yarn", "llama.rope.scaling.original_context_length"),
        ("mistral", "llama.attention.sliding_window"),
        ("qwen2", "qwen2.rope.freq_base"),
        ("gemma2", "gemma2.attention.key_length"),
        ("gemma3", "gemma3.attention.sliding_window"),
        ("gemma3", "gemma3.rope.freq_base"),
        ("gemma3", "gemma3.rope.scaling.factor"),
        ("phi3", "phi3.attention.sliding_window"),
        ("phi3-longrope", "phi3.rope.scaling.attn_factor"),
        ("olmo3", "olmo2.attention.sliding_window"),
        ("granite", "granite.attention.scale"),
        ("granite", "granite.embedding_scale"),
        ("granite", "granite.residual_scale"),
    ] {
        let (file, reference) = load(name);
        let case = &reference.cases[0];
        let run = |file: &[u8]| {
            session_from_bytes(CpuBackend::new(Precision::Exact), file, None).ok()?;
            let backend = CpuBackend::new(Precision::Exact);
            Some(logits(backend, file, case, &[MAX_ROWS]))
        };
        let with = run(&file).expect("the model loads");
        // A file that is refused without the key is not silently wrong either.
        let Some(left_out) = run(&without(&file, key)) else {
            continue;
        };
        let differences = with.iter().zip(&left_out).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0.0, f32::max);
        assert!(worst > 100.0 * TOLERANCE, "{name} without {key}: {worst}");
    }
}

/// One set of factors without the other would leave some contexts without any.
#[test]
fn rejects_long_factors_without_short_ones() {
    let (file, _) = load("phi3-longrope");
    let left_out = without(&file, "rope_factors_short.weight");
    let error = session_from_bytes(CpuBackend::new(Precision::Exact), &left_out, Some(64));
    let error = error.err().expect("the file is refused");
    assert_eq!(error.code(), "unsupported-architecture", "{error}");
}

#[test]
fn rejects_files_without_the_keys_that_their_architecture_needs() {
    for (name, key) in [
        ("gemma2", "gemma2.attention.sliding_window"),
        ("gemma2", "gemma2.attn_logit_softcapping"),
        ("granite", "granite.logit_scale"),
    ] {
        let left_out = without(&load(name).0, key);
        let error = session_from_bytes(CpuBackend::new(Precision::Exact), &left_out, None);
        let error = error.err().expect("the file is refused");
        assert_eq!(error.code(), "invalid-gguf", "{error}");
        assert!(error.to_string().contains(key), "{error}");
    }
}

/// A session's ring holds its window and the most rows of a pass, in whole blocks: one block of
/// 256 positions for these windows. A rewind by its slack, `256 - window + 1`, keeps what it
/// shares; one more and all is computed anew. Either way the tokens are right.
#[test]
fn rewinding_a_window_gives_right_tokens_and_counts_what_it_kept() {
    for (name, window) in [("gemma3", 5), ("mistral", 7), ("olmo3", 8)] {
        let (file, _) = load(name);
        let mut random = common::Random(31);
        let mut words = |count: usize| -> Vec<u32> {
            let id = |_| u32::try_from(3 + random.below(256)).expect("an id");
            (0..count).map(id).collect()
        };
        let prompt = words(400);
        let slack = 256 - window + 1;
        for (rewound, kept) in [(1, 399), (slack, 400 - slack), (slack + 1, 0)] {
            let backend = CpuBackend::new(Precision::Exact);
            let mut session = session_from_bytes(backend, &file, None).expect("it loads");
            run(&mut session, prompt.clone(), greedy(1));
            let other = [&prompt[..400 - rewound], &words(2)].concat();
            let mut generation = session
                .generation(other.clone(), greedy(1))
                .expect("the prompt fits");
            let token = loop {
                match pollster::block_on(session.advance(&mut generation)).expect("it runs") {
                    Progress::Prefilled { .. } => {}
                    Progress::Token(token) => break token.id,
                    Progress::Finished => panic!("a token comes first"),
                }
            };
            let what = format!("{name} rewound by {rewound}");
            let stats = generation.stats(FinishReason::Length);
            assert_eq!(stats.cached_tokens, kept, "{what}");
            let case = Case {
                context_length: 512,
                ids: other,
                rows: Vec::new(),
                logits: Vec::new(),
            };
            let anew = logits(ReferenceBackend::new(), &file, &case, &[128]);
            let last = anew.len() - anew.len() / case.ids.len();
            assert_eq!(token as usize, arg_max(&anew[last..]), "{what}");
        }
    }
}

macro_rules! equals_transformers {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        /// Every fixture has its test.
        #[test]
        fn no_fixture_goes_untested() {
            let tested = [$($name),*];
            for entry in std::fs::read_dir(path("")).expect("the folder reads") {
                let file = entry.expect("the entry reads").file_name();
                let file = file.to_string_lossy();
                if let Some(name) = file.strip_suffix(".gguf") {
                    assert!(tested.contains(&name), "{name}");
                }
            }
        }
    };
}

equals_transformers! {
    llama_with_linear_rope_scaling_biases_and_tied_output: "llama-linear",
    llama_3_with_frequency_factors_and_one_kv_head: "llama3",
    llama_with_yarn: "llama-yarn",
    mistral_with_a_window_in_every_layer: "mistral",
    qwen_2_with_biases_and_untied_output: "qwen2",
    qwen_3_with_norms_of_queries_and_keys: "qwen3",
    qwen_3_with_yarn: "qwen3-yarn",
    gemma_2_with_soft_caps_and_alternating_windows: "gemma2",
    gemma_3_with_two_rotary_bases: "gemma3",
    phi_3_with_stacked_tensors_and_a_window: "phi3",
    phi_3_with_long_and_short_factors: "phi3-longrope",
    smollm_3_with_unrotated_layers: "smollm3",
    olmo_2_with_norms_only_after: "olmo2",
    olmo_3_with_yarn_outside_its_windows: "olmo3",
    granite_with_multipliers: "granite",
}
