//! SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M) against float32 reference tokens and
//! log-probabilities, from text.
//!
//! `data/reference` holds the reference and the script that made it. Exact tier: forced top-1
//! agreement at least 0.98, mean |Δ log-prob| at most 0.02, greedy ids equal up to the first
//! margin below 0.05. Fast tier: no further from the reference than llama.cpp's int8
//! activations are, and along the reference's greedy ids each one within 0.5 nat of our best.

mod common;

use std::path::PathBuf;

use common::model::{BareModel, greedy, ids, prompt, run, session_from_file};
use common::{default_model, gemma_model};
use serde_json::Value;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::{Backend, Outputs};
use tokenbrook::session::{Input, ScoreProgress, ScoreResult, Session};

const UNCERTAIN_MARGIN: f64 = 0.05;

/// A file and what it is to say.
struct Model {
    file: fn() -> PathBuf,
    reference: &'static str,
}

const SMOLLM2: Model = Model {
    file: default_model,
    reference: include_str!("data/reference/smollm2-135m-q4_1.json"),
};
const GEMMA3: Model = Model {
    file: gemma_model,
    reference: include_str!("data/reference/gemma-3-270m-q4_k_m.json"),
};

fn cases(model: &Model) -> Vec<Value> {
    let reference: Value = serde_json::from_str(model.reference).expect("the reference is JSON");
    reference["cases"]
        .as_array()
        .expect("the reference has cases")
        .clone()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).expect("the reference has numbers here")
}

fn input(case: &Value) -> Input {
    let input = if case["messages"].is_null() {
        &case["raw"]
    } else {
        &case["messages"]
    };
    Input::from_json(input).expect("the case has an input")
}

fn session(model: &Model, precision: Precision) -> Session<CpuBackend> {
    session_from_file(CpuBackend::new(precision), &(model.file)())
}

fn score<B: Backend>(session: &mut Session<B>, ids: Vec<u32>) -> ScoreResult {
    let mut job = session.score_job(ids).expect("the ids fit");
    loop {
        if let ScoreProgress::Finished(result) =
            pollster::block_on(session.score(&mut job)).expect("the chunk runs")
        {
            return result;
        }
    }
}

/// Share of equal top-1 ids, and mean |Δ log-prob| of the next ids.
fn distance(case: &Value, result: &ScoreResult) -> (f64, f64) {
    let top1: Vec<u32> = numbers(&case["forced"]["top1"]);
    let next: Vec<f64> = numbers(&case["forced"]["next_logprob"]);
    assert_eq!(
        (result.top1.len(), result.next_logprob.len()),
        (top1.len(), next.len())
    );
    let count = top1.len() as f64;
    let equal = top1
        .iter()
        .zip(&result.top1)
        .filter(|(a, b)| a == b)
        .count() as f64;
    let difference: f64 = next
        .iter()
        .zip(&result.next_logprob)
        .map(|(a, b)| (a - b).abs())
        .sum();
    (equal / count, difference / count)
}

#[test]
fn exact_tier_of_smollm2_follows_the_reference() {
    exact_tier(&SMOLLM2);
}

#[test]
fn exact_tier_of_gemma3_follows_the_reference() {
    exact_tier(&GEMMA3);
}

fn exact_tier(model: &Model) {
    let mut session = session(model, Precision::Exact);
    for case in cases(model) {
        let name = &case["name"];
        let prompt = prompt(&session, &input(&case));
        assert_eq!(
            prompt,
            numbers::<u32>(&case["prompt_ids"]),
            "{name}: prompt ids"
        );
        if !case["forced"].is_null() {
            let (agreement, difference) = distance(&case, &score(&mut session, prompt));
            eprintln!("{name}: top-1 agreement {agreement:.4}, mean difference {difference:.5}");
            assert!(agreement >= 0.98, "{name}: {agreement}");
            assert!(difference <= 0.02, "{name}: {difference}");
        } else {
            let want: Vec<u32> = numbers(&case["greedy_ids"]);
            let margins: Vec<f64> = numbers(&case["greedy_margin"]);
            let sure = margins
                .iter()
                .take_while(|&&m| m >= UNCERTAIN_MARGIN)
                .count();
            assert!(sure > 0, "{name}: the first margin is large enough");
            let mut options = greedy(sure);
            options.ignore_eos = true;
            let tokens = run(&mut session, prompt, options);
            assert_eq!(ids(&tokens), want[..sure], "{name}: greedy ids");
            let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
            assert!(!text.contains('\u{FFFD}'), "{name}: {text:?}");
        }
    }
}

#[test]
fn fast_tier_of_smollm2_is_no_further_from_the_reference_than_llama_cpp() {
    fast_tier(&SMOLLM2);
}

#[test]
fn fast_tier_of_gemma3_is_no_further_from_the_reference_than_llama_cpp() {
    fast_tier(&GEMMA3);
}

fn fast_tier(model: &Model) {
    let mut session = session(model, Precision::Fast);
    for case in cases(model) {
        let name = &case["name"];
        let prompt: Vec<u32> = numbers(&case["prompt_ids"]);
        if case["forced"].is_null() {
            let greedy: Vec<u32> = numbers(&case["greedy_ids"]);
            let first = prompt.len() - 1;
            let result = score(&mut session, [prompt, greedy].concat());
            for at in first..result.top1.len() {
                let gap = result.top1_logprob[at] - result.next_logprob[at];
                assert!(
                    gap <= 0.5,
                    "{name}: id {} is {gap} nat below the best",
                    at + 1
                );
            }
        } else {
            let peer = &case["llama_cpp_int8"];
            let (agreement, difference) = distance(&case, &score(&mut session, prompt));
            eprintln!("{name}: top-1 agreement {agreement:.4}, mean difference {difference:.5}");
            let least = peer["top1_agreement"].as_f64().expect("a number") - 0.01;
            let most = peer["mean_abs_dlogprob"].as_f64().expect("a number") * 1.15;
            assert!(agreement >= least, "{name}: {agreement} < {least}");
            assert!(difference <= most, "{name}: {difference} > {most}");
        }
    }
}

/// Decoding with the cache gives the logits of computing everything anew, at every step of a
/// reply of 64 tokens: of one pass over all of it, whose rows see no more than is before them, as
/// passes that end there show.
#[test]
fn cached_decode_equals_recomputing_from_scratch() {
    let bytes = std::fs::read(default_model()).expect("the model file reads");
    let mut model = BareModel::load(CpuBackend::new(Precision::Exact), &bytes, 128, 256);
    let mut block = || {
        let block = model.backend.allocate_block(Cache::Full);
        [block.expect("memory for a block")]
    };
    let (cached, scratch) = (block(), block());
    let mut ids: Vec<u32> = numbers(&cases(&SMOLLM2)[3]["prompt_ids"]);
    let prompt = ids.len();
    let mut steps = Vec::new();
    let mut fed = 0;
    for _ in 0..64 {
        let logits = model.logits(&ids[fed..], fed, &cached);
        fed = ids.len();
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        ids.push(u32::try_from(best.expect("a vocabulary")).expect("an id"));
        steps.push(logits);
    }
    let rows = model.pass(&ids[..fed], 0, &scratch, Outputs::AllRows);
    let rows: Vec<&[f32]> = rows.chunks(rows.len() / fed).skip(prompt - 1).collect();
    assert_eq!(rows.len(), steps.len());
    let distance = |a: &[f32], b: &[f32]| {
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        differences.fold(0.0, f32::max)
    };
    for (step, (decoded, anew)) in steps.iter().zip(&rows).enumerate() {
        let worst = distance(decoded, anew);
        assert!(worst <= 1e-4, "step {step}: {worst}");
    }
    for step in [0, 31, 62] {
        let anew = model.logits(&ids[..prompt + step], 0, &scratch);
        let worst = distance(&steps[step], &anew);
        assert!(worst <= 1e-4, "up to step {step}: {worst}");
    }
    // The comparison is worth something only if a wrong cache shows.
    model.logits(&ids[1..=fed], 0, &cached);
    let stale = model.logits(&ids[fed..], fed, &cached);
    let anew = model.logits(&ids, 0, &scratch);
    assert!(distance(&stale, &anew) > 1e-2);
}
