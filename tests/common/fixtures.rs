//! Tiny models of every architecture with the float32 logits that `transformers` gives; they lie
//! in `data/architectures`, beside the script that makes them.

use std::path::PathBuf;

use serde::Deserialize;
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::{Backend, Outputs};

use super::model::BareModel;

/// Largest difference of logits that is allowed in the exact tier.
pub(crate) const TOLERANCE: f32 = 1e-3;

/// Positions of a KV block: no divisor of any prompt, chunk or window.
const BLOCK_TOKENS: usize = 19;

#[derive(Deserialize)]
pub(crate) struct Reference {
    pub(crate) architecture: String,
    pub(crate) cases: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) context_length: usize,
    pub(crate) ids: Vec<u32>,
    /// Positions whose logits are given.
    pub(crate) rows: Vec<usize>,
    /// `[rows, V]`.
    pub(crate) logits: Vec<Vec<f32>>,
}

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/architectures")
        .join(name)
}

pub(crate) fn load(name: &str) -> (Vec<u8>, Reference) {
    let file = std::fs::read(path(&format!("{name}.gguf"))).expect("the model reads");
    let text = std::fs::read(path(&format!("{name}.json"))).expect("the reference reads");
    (
        file,
        serde_json::from_slice(&text).expect("the reference is as described"),
    )
}

/// Logits of all positions, `[ids, V]`, fed in chunks of these sizes, over and over.
pub(crate) fn logits<B: Backend>(
    backend: B,
    file: &[u8],
    case: &Case,
    chunks: &[usize],
) -> Vec<f32> {
    // No more rows than the longest chunk: so a window's ring goes round where it can.
    let longest = chunks.iter().max().expect("there are chunks");
    let sizes = [*longest.min(&case.ids.len()), BLOCK_TOKENS];
    let mut model = BareModel::load_for(backend, file, Some(case.context_length), sizes);
    let blocks: Vec<_> = (0..case.ids.len().div_ceil(BLOCK_TOKENS))
        .map(|_| {
            model
                .backend
                .allocate_block(Cache::Full)
                .expect("memory for a block")
        })
        .collect();
    let mut chunks = chunks.iter().copied().cycle();
    let (mut rest, mut all) = (&case.ids[..], Vec::new());
    while !rest.is_empty() {
        let position = case.ids.len() - rest.len();
        let (chunk, after) = rest.split_at(chunks.next().unwrap_or(1).min(rest.len()));
        all.extend(model.pass(chunk, position, &blocks, Outputs::AllRows));
        rest = after;
    }
    all
}

pub(crate) fn arg_max(logits: &[f32]) -> usize {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.expect("a vocabulary")
}

/// Checks the rows that the reference has; returns the largest difference.
pub(crate) fn compare(what: &str, case: &Case, got: &[f32], tolerance: f32) -> f32 {
    let mut worst = 0.0_f32;
    for (&row, want) in case.rows.iter().zip(&case.logits) {
        let got = &got[row * want.len()..(row + 1) * want.len()];
        for (id, (got, want)) in got.iter().zip(want).enumerate() {
            let difference = (got - want).abs();
            assert!(
                difference <= tolerance,
                "{what}, position {row}, id {id}: {got} instead of {want}"
            );
            worst = worst.max(difference);
        }
        assert_eq!(arg_max(got), arg_max(want), "{what}, position {row}");
    }
    worst
}
