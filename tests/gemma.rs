//! Gemma 3 270M (Q4_K_M) against float32 reference tokens and log-probabilities, by ids.
//!
//! The tiers and what they ask for are those of `reference_parity.rs`.

mod common;

use common::gemma_model;
use common::model::BareModel;
use serde_json::Value;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::{Backend, BlockId, Outputs, arg_max, log_sum_exp};

const UNCERTAIN_MARGIN: f64 = 0.05;

/// Rows of a scoring pass: each has a vocabulary of 262,144 logits.
const ROWS: usize = 16;

/// Positions of the one KV block, enough for every case.
const POSITIONS: usize = 256;

fn cases() -> Vec<Value> {
    let text = include_str!("data/reference/gemma-3-270m-q4_k_m.json");
    let reference: Value = serde_json::from_str(text).expect("the reference is JSON");
    reference["cases"]
        .as_array()
        .expect("the reference has cases")
        .clone()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).expect("the reference has numbers here")
}

fn load(precision: Precision) -> (BareModel<CpuBackend>, [BlockId; 1]) {
    let file = std::fs::read(gemma_model()).expect("the model file reads");
    let mut model = BareModel::load(CpuBackend::new(precision), &file, ROWS, POSITIONS);
    let block = model
        .backend
        .allocate_block(Cache::Full)
        .expect("memory for a block");
    (model, [block])
}

/// The likeliest next id, its log-probability, and that of the id that follows.
struct Position {
    top1: u32,
    top1_logprob: f64,
    next_logprob: f64,
}

/// Every position of `ids` but the last.
fn score(model: &mut BareModel<CpuBackend>, blocks: &[BlockId], ids: &[u32]) -> Vec<Position> {
    let mut positions = Vec::new();
    let known = &ids[..ids.len() - 1];
    for (chunk, first) in known.chunks(ROWS).zip((0..).step_by(ROWS)) {
        let logits = model.pass(chunk, first, blocks, Outputs::AllRows);
        for row in logits.chunks(logits.len() / chunk.len()) {
            let best = arg_max(row).expect("the logits are numbers");
            let total = log_sum_exp(row, row[best]);
            let next = ids[positions.len() + 1] as usize;
            positions.push(Position {
                top1: u32::try_from(best).expect("an id"),
                top1_logprob: f64::from(row[best]) - total,
                next_logprob: f64::from(row[next]) - total,
            });
        }
    }
    positions
}

/// Share of equal top-1 ids, and mean |Δ log-prob| of the next ids.
fn distance(case: &Value, scored: &[Position]) -> (f64, f64) {
    let top1: Vec<u32> = numbers(&case["forced"]["top1"]);
    let next: Vec<f64> = numbers(&case["forced"]["next_logprob"]);
    assert_eq!((scored.len(), scored.len()), (top1.len(), next.len()));
    let equal = scored.iter().zip(&top1).filter(|(a, b)| a.top1 == **b);
    let difference = scored.iter().zip(&next);
    let difference: f64 = difference.map(|(a, b)| (a.next_logprob - b).abs()).sum();
    let count = scored.len() as f64;
    (equal.count() as f64 / count, difference / count)
}

#[test]
fn exact_tier_follows_the_reference() {
    let (mut model, blocks) = load(Precision::Exact);
    for case in cases() {
        let name = &case["name"];
        let prompt: Vec<u32> = numbers(&case["prompt_ids"]);
        if !case["forced"].is_null() {
            let scored = score(&mut model, &blocks, &prompt);
            let (agreement, difference) = distance(&case, &scored);
            eprintln!("{name}: top-1 agreement {agreement:.4}, mean difference {difference:.5}");
            assert!(agreement >= 0.98, "{name}: {agreement}");
            assert!(difference <= 0.02, "{name}: {difference}");
            continue;
        }
        let want: Vec<u32> = numbers(&case["greedy_ids"]);
        let margins: Vec<f64> = numbers(&case["greedy_margin"]);
        let sure = margins.iter().take_while(|&&m| m >= UNCERTAIN_MARGIN);
        let sure = sure.count();
        assert!(sure > 0, "{name}: the first margin is large enough");
        let scored = score(&mut model, &blocks, &[&prompt[..], &want[..sure]].concat());
        let got: Vec<u32> = scored[prompt.len() - 1..].iter().map(|p| p.top1).collect();
        assert_eq!(got, want[..sure], "{name}: greedy ids");
    }
}

#[test]
fn fast_tier_is_no_further_from_the_reference_than_llama_cpp() {
    let (mut model, blocks) = load(Precision::Fast);
    for case in cases() {
        let name = &case["name"];
        let prompt: Vec<u32> = numbers(&case["prompt_ids"]);
        if case["forced"].is_null() {
            let greedy: Vec<u32> = numbers(&case["greedy_ids"]);
            let first = prompt.len() - 1;
            let scored = score(&mut model, &blocks, &[prompt, greedy].concat());
            for (at, position) in scored.iter().enumerate().skip(first) {
                let gap = position.top1_logprob - position.next_logprob;
                assert!(
                    gap <= 0.5,
                    "{name}: id {} is {gap} nat below the best",
                    at + 1
                );
            }
        } else {
            let peer = &case["llama_cpp_int8"];
            let scored = score(&mut model, &blocks, &prompt);
            let (agreement, difference) = distance(&case, &scored);
            eprintln!("{name}: top-1 agreement {agreement:.4}, mean difference {difference:.5}");
            let least = peer["top1_agreement"].as_f64().expect("a number") - 0.01;
            let most = peer["mean_abs_dlogprob"].as_f64().expect("a number") * 1.15;
            assert!(agreement >= least, "{name}: {agreement} < {least}");
            assert!(difference <= most, "{name}: {difference} > {most}");
        }
    }
}
