//! Attention's twin, and cases of it.

use crate::backend::ops::Cache;

use super::super::check::{Case, Seeded, strided};
use super::super::kv::KvLayout;
use super::super::{Gpu, GpuError};
use super::attention::{Attention, Scratch, Variant, attention};
use super::cached::Cached;

/// Shape of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionCase {
    /// Shape of the cache.
    pub layout: KvLayout,
    /// Which of the two kinds it is; a ring needs a window.
    pub kind: Cache,
    /// `H`.
    pub num_heads: usize,
    /// Positions that a row sees.
    pub window: Option<usize>,
    /// Cap on the scores.
    pub soft_cap: Option<f32>,
    /// Rows and first position of each sequence.
    pub sequences: Vec<[usize; 2]>,
}

/// The twin, of one row and head: `keys` and `values` at the positions that it sees.
#[must_use]
pub fn plain(
    query: &[f32],
    keys: &[&[f32]],
    values: &[&[f32]],
    (scale, soft_cap): (f32, Option<f32>),
) -> Vec<f64> {
    let score = |key: &&[f32]| {
        let products = query
            .iter()
            .zip(*key)
            .map(|(q, k)| f64::from(*q) * f64::from(*k));
        let score = products.sum::<f64>() * f64::from(scale);
        soft_cap
            .map(f64::from)
            .map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let largest = scores
        .iter()
        .fold(f64::NEG_INFINITY, |most, &score| most.max(score));
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; query.len()];
    for (weight, value) in weights.iter().zip(values) {
        for (out, value) in out.iter_mut().zip(*value) {
            *out += weight / sum * f64::from(*value);
        }
    }
    out
}

/// A case; keys and values that no row sees are not numbers.
#[must_use]
pub fn case(gpu: &Gpu, variant: Variant, shape: &AttentionCase, seed: u64) -> Case {
    let mut seeded = Seeded::new(seed);
    let AttentionCase {
        layout,
        kind,
        num_heads,
        window,
        soft_cap,
        ..
    } = *shape;
    let cached = Cached::new(layout, kind, &shape.sequences, window, (true, &mut seeded));
    let (head_dim, rows) = (layout.head_dim, cached.rows.len());
    let qkv_len = (num_heads + 2 * layout.num_kv_heads) * head_dim;
    // Sharp enough that a wrong position shows.
    let scale = 4.0 / (head_dim as f32).sqrt();
    let mut qkv = vec![f32::NAN; rows * qkv_len];
    let mut want = Vec::new();
    for (qkv, &[sequence, position]) in qkv.chunks_mut(qkv_len).zip(&cached.rows) {
        let queries = &mut qkv[..num_heads * head_dim];
        queries.copy_from_slice(&seeded.values(num_heads * head_dim));
        let begin = window.map_or(0, |window| (position + 1).saturating_sub(window));
        for (head, query) in queries.chunks(head_dim).enumerate() {
            let kv_head = head / (num_heads / layout.num_kv_heads);
            let rows = |kind| -> Vec<&[f32]> {
                (begin..=position)
                    .map(|at| cached.row(sequence, [at, kind, kv_head]))
                    .collect()
            };
            let out = plain(query, &rows(0), &rows(1), (scale, soft_cap));
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
            want.extend(out.iter().map(|&value| value as f32));
        }
    }
    let buffers = Buffers::new(gpu, variant, shape, &cached, &qkv);
    Case {
        kernel: format!("attention {variant:?}"),
        description: format!("{shape:?}, seed {seed}"),
        extents: cached.step.extents(),
        rows,
        width: num_heads * head_dim,
        want,
        before: None,
        max_nmse: 1e-10,
        record: Box::new(move |recorder, out| {
            let op = Attention {
                step: &buffers.step,
                cache: &buffers.cache,
                layout,
                kind,
                num_heads,
                qkv: &buffers.qkv,
                out,
                scratch: Scratch {
                    parts: &buffers.parts,
                    stats: &buffers.stats,
                },
                scale,
                window,
                soft_cap,
            };
            attention(recorder, variant, &op);
            Ok::<(), GpuError>(())
        }),
    }
}

struct Buffers {
    step: wgpu::Buffer,
    cache: wgpu::Buffer,
    qkv: wgpu::Buffer,
    parts: wgpu::Buffer,
    stats: wgpu::Buffer,
}

impl Buffers {
    fn new(
        gpu: &Gpu,
        variant: Variant,
        shape: &AttentionCase,
        cached: &Cached,
        qkv: &[f32],
    ) -> Self {
        let rows = cached.rows.len();
        let scratch = variant.scratch_bytes(&shape.layout, shape.num_heads, rows);
        #[expect(clippy::cast_possible_truncation, reason = "sizes of a case")]
        let [parts, stats] = scratch.map(|bytes| vec![f32::NAN; bytes as usize / 4]);
        Self {
            step: gpu.storage_of("step", cached.step.words()),
            cache: cached.buffer(gpu),
            qkv: gpu.storage_of("qkv", &strided(qkv, qkv.len() / rows)),
            parts: gpu.storage_of("parts", &parts),
            stats: gpu.storage_of("stats", &stats),
        }
    }
}
