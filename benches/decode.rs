//! The default model on the CPU, one thread, built for this machine rather than for wasm: tokens
//! a second of a prompt and of an answer, in both precisions.
//!
//! The answer to a prompt of the reference is compared with the reference's first.

mod common;
#[path = "../tests/common/mod.rs"]
mod testing;

use std::time::Instant;

use common::{line, rate};
use serde_json::Value;
use testing::model::{greedy, ids, prompt, run, session_from_file};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::session::{GenerateOptions, Input, Session};

const REFERENCE: &str = include_str!("../tests/data/reference/smollm2-135m-q4_1.json");

/// Greedy tokens are compared up to the first whose lead is smaller, in nats.
const CLEAR_LEAD: f64 = 0.5;
const PROMPT_TOKENS: usize = 64;
const ANSWER_TOKENS: usize = 16;
const RUNS: usize = 3;

/// The case with the most tokens that are beyond doubt: input, tokens.
fn clearest() -> (Input, Vec<u32>) {
    let reference: Value = serde_json::from_str(REFERENCE).expect("the reference is JSON");
    let cases = reference["cases"].as_array().expect("it has cases");
    let clear = |case: &Value| {
        let leads: Vec<f64> = serde_json::from_value(case["greedy_margin"].clone()).ok()?;
        let first = leads.iter().position(|lead| *lead < CLEAR_LEAD);
        Some(first.unwrap_or(leads.len()))
    };
    let most = cases.iter().max_by_key(|case| clear(case));
    let case = most.expect("it has cases");
    let input = match case["messages"].is_null() {
        true => &case["raw"],
        false => &case["messages"],
    };
    let tokens: Vec<u32> =
        serde_json::from_value(case["greedy_ids"].clone()).expect("it has an answer");
    let clear = clear(case).expect("it has leads");
    (
        Input::from_json(input).expect("it has an input"),
        tokens[..clear].to_vec(),
    )
}

fn seconds(session: &mut Session<CpuBackend>, prompt: &[u32], [start, tokens]: [usize; 2]) -> f64 {
    let runs = (0..RUNS).map(|run_index| {
        // Each begins with a token of its own, so that nothing is in the cache.
        let own = start + run_index;
        let prompt: Vec<u32> = prompt
            .iter()
            .copied()
            .cycle()
            .skip(own)
            .take(PROMPT_TOKENS)
            .collect();
        let started = Instant::now();
        let options = GenerateOptions {
            ignore_eos: true,
            ..greedy(tokens)
        };
        let made = run(session, prompt, options);
        assert_eq!(made.len(), tokens, "end tokens are passed over");
        started.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min)
}

fn main() {
    let (input, want) = clearest();
    assert!(want.len() >= 8, "the reference has too few clear tokens");
    let head: [&dyn std::fmt::Display; 2] = [&"prompt, tok/s", &"answer, tok/s"];
    line("SmolLM2 135M Q4_1", &head);
    for precision in [Precision::Fast, Precision::Exact] {
        let backend = CpuBackend::new(precision);
        let mut session = session_from_file(backend, &testing::default_model());
        let known = prompt(&session, &input);
        let made = ids(&run(&mut session, known.clone(), greedy(want.len())));
        assert_eq!(made, want, "{precision:?}");
        let one = seconds(&mut session, &known, [0, 1]);
        let all = seconds(&mut session, &known, [RUNS, 1 + ANSWER_TOKENS]);
        let prefill = rate(PROMPT_TOKENS as f64 / one);
        let decode = rate(ANSWER_TOKENS as f64 / (all - one));
        line(&format!("{precision:?}"), &[&prefill, &decode]);
    }
}
