//! The twin of norm, rotation and append, and cases of it.

use crate::backend::RopeKind;
use crate::backend::ops::Cache;

use super::super::check::{Case, Seeded, strided};
use super::super::kv::{KvFormat, KvLayout};
use super::super::recorder::Recorder;
use super::super::{Gpu, GpuError};
use super::attention::{self, Attention, Scratch, attention};
use super::attention_case;
use super::cached::Cached;
use super::kv_read::{KvRead, kv_read};
use super::qk_rope_append::{HeadNorm, QkRopeAppend, Rotation, Variant, qk_rope_append};
use super::rope_table::{RopeTable, rope_table, table_bytes};

const EPS: f32 = 1e-5;
const MAGNITUDE: f32 = 1.25;

/// How [`Judged::Attended`] attends.
const ATTENTION: attention::Variant = attention::Variant::Serial { splits: 1 };

/// Shape of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendCase {
    /// Shape of the cache.
    pub layout: KvLayout,
    /// Which of the two kinds it is; a ring needs a window.
    pub kind: Cache,
    /// `H`.
    pub num_heads: usize,
    /// Positions that a row sees.
    pub window: Option<usize>,
    /// Rotation of so many pairs.
    pub rope: Option<(RopeKind, usize)>,
    /// Norm of queries, of keys.
    pub norms: [bool; 2],
    /// Rows and first position of each sequence.
    pub sequences: Vec<[usize; 2]>,
}

/// What a case compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Queries, keys and values where they were.
    Qkv,
    /// Keys and values in the cache.
    Cache,
    /// What attention makes of both, where every sequence starts at position 0.
    Attended,
    /// Keys and values of as many rows before, which have to stay. Every sequence has them, and
    /// a window reaches back to them.
    Earlier,
}

/// The twin, of one head: `rotations` are `(cos, sin)` of each pair, in `f64`.
#[must_use]
pub fn plain(
    head: &[f32],
    gain: Option<&[f32]>,
    kind: RopeKind,
    rotations: &[(f64, f64)],
) -> Vec<f64> {
    let mut head: Vec<f64> = head.iter().map(|&value| f64::from(value)).collect();
    if let Some(gain) = gain {
        let squares: f64 = head.iter().map(|value| value * value).sum();
        let scale = 1.0 / (squares / head.len() as f64 + f64::from(EPS)).sqrt();
        for (value, gain) in head.iter_mut().zip(gain) {
            *value *= scale * f64::from(*gain);
        }
    }
    for (i, (cos, sin)) in rotations.iter().enumerate() {
        let [a, b] = match kind {
            RopeKind::Interleaved => [2 * i, 2 * i + 1],
            RopeKind::Halves => [i, i + rotations.len()],
        };
        (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
    }
    head
}

/// What goes in.
struct Inputs {
    qkv: Vec<f32>,
    gains: [Vec<f32>; 2],
    frequencies: Vec<f32>,
}

impl Inputs {
    fn new(shape: &AppendCase, rows: usize, seeded: &mut Seeded) -> Self {
        let head_dim = shape.layout.head_dim;
        let pairs = shape.rope.map_or(0, |(_, pairs)| pairs);
        Self {
            qkv: seeded.values(rows * shape.qkv_len()),
            gains: [seeded.values(head_dim), seeded.values(head_dim)],
            frequencies: (0..pairs)
                .map(|i| 10000_f32.powf(-(i as f32) / pairs as f32))
                .collect(),
        }
    }

    /// `qkv` after norms and rotation.
    fn changed(&self, shape: &AppendCase, rows: &[[usize; 2]]) -> Vec<f32> {
        let head_dim = shape.layout.head_dim;
        let keys = shape.num_heads + shape.layout.num_kv_heads;
        let kind = shape.rope.map_or(RopeKind::Halves, |(kind, _)| kind);
        let mut changed = Vec::new();
        for (row, &[_, position]) in self.qkv.chunks(shape.qkv_len()).zip(rows) {
            let turn = |frequency: &f32| {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                (cos * f64::from(MAGNITUDE), sin * f64::from(MAGNITUDE))
            };
            let rotations: Vec<_> = self.frequencies.iter().map(turn).collect();
            for (h, head) in row.chunks(head_dim).enumerate() {
                let part = usize::from(h >= shape.num_heads);
                let gain = shape.norms[part].then_some(&self.gains[part][..]);
                let head = if h < keys {
                    plain(head, gain, kind, &rotations)
                } else {
                    head.iter().map(|&value| f64::from(value)).collect()
                };
                #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
                changed.extend(head.iter().map(|&value| value as f32));
            }
        }
        changed
    }
}

impl AppendCase {
    fn qkv_len(&self) -> usize {
        (self.num_heads + 2 * self.layout.num_kv_heads) * self.layout.head_dim
    }

    fn wanted(&self, changed: &[f32], cached: &Cached, judged: Judged) -> Vec<f32> {
        match judged {
            Judged::Qkv => changed.to_vec(),
            Judged::Cache => self.stored(changed),
            Judged::Attended => self.attended(changed, cached),
            Judged::Earlier => self.earlier(cached),
        }
    }

    fn earlier(&self, cached: &Cached) -> Vec<f32> {
        let kv_heads = self.layout.num_kv_heads;
        let mut values = Vec::new();
        for (i, &[rows, position]) in self.sequences.iter().enumerate() {
            for at in position - rows..position {
                for head in 0..2 * kv_heads {
                    values.extend(cached.row(i, [at, head / kv_heads, head % kv_heads]));
                }
            }
        }
        values
    }

    fn attended(&self, changed: &[f32], cached: &Cached) -> Vec<f32> {
        let (head_dim, kv_heads) = (self.layout.head_dim, self.layout.num_kv_heads);
        let stored = self.stored(changed);
        let mut out = Vec::new();
        for (t, &[_, position]) in cached.rows.iter().enumerate() {
            let row = &changed[t * self.qkv_len()..][..self.num_heads * head_dim];
            for (head, query) in row.chunks(head_dim).enumerate() {
                let kv_head = head / (self.num_heads / kv_heads);
                let rows = |kind: usize| -> Vec<&[f32]> {
                    let row = |at| (at * 2 + kind) * kv_heads + kv_head;
                    (t - position..=t)
                        .map(|at| &stored[row(at) * head_dim..][..head_dim])
                        .collect()
                };
                let head = attention_case::plain(query, &rows(0), &rows(1), (1.0, None));
                #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
                out.extend(head.iter().map(|&value| value as f32));
            }
        }
        out
    }

    fn stored(&self, changed: &[f32]) -> Vec<f32> {
        let (head_dim, format) = (self.layout.head_dim, self.layout.format);
        changed
            .chunks(self.qkv_len())
            .flat_map(|row| row[self.num_heads * head_dim..].chunks(head_dim))
            .flat_map(|head| format.round(head))
            .collect()
    }
}

/// A case; the cache holds nothing but poison before.
#[must_use]
pub fn case(
    gpu: &Gpu,
    variant: Variant,
    (shape, judged): (&AppendCase, Judged),
    seed: u64,
) -> Case {
    let mut seeded = Seeded::new(seed);
    let cached = Cached::new(
        shape.layout,
        shape.kind,
        &shape.sequences,
        shape.window,
        (false, &mut seeded),
    );
    let rows = cached.rows.len();
    let inputs = Inputs::new(shape, rows, &mut seeded);
    let changed = inputs.changed(shape, &cached.rows);
    let want = shape.wanted(&changed, &cached, judged);
    let width = want.len() / rows;
    let max_nmse = tolerance(shape, &want);
    let buffers = Buffers::new(gpu, shape, &cached, &inputs);
    let shape = shape.clone();
    Case {
        kernel: format!("qk_rope_append {variant:?}"),
        description: format!("{shape:?}, {judged:?}, seed {seed}"),
        extents: cached.step.extents(),
        rows,
        width,
        want,
        before: (judged == Judged::Qkv).then(|| inputs.qkv.clone()),
        max_nmse,
        record: Box::new(move |recorder, output| {
            let op = buffers.op(&shape, judged, output);
            if let Some(rotation) = op.rotation {
                let table = RopeTable {
                    step: op.step,
                    frequencies: &buffers.frequencies,
                    rotations: rotation.rotations,
                    pairs: rotation.pairs,
                    magnitude: MAGNITUDE,
                };
                rope_table(recorder, &table);
            }
            qk_rope_append(recorder, variant, &op);
            buffers.look(recorder, (&shape, judged), output);
            Ok::<(), GpuError>(())
        }),
    }
}

/// The kernel's own error, and what elements on the other side of a tie add: some of f16,
/// whose ties are near, two of `q8_0`.
fn tolerance(shape: &AppendCase, want: &[f32]) -> f64 {
    match shape.layout.format {
        KvFormat::F32 => 1e-11,
        KvFormat::F16 => 1e-9,
        KvFormat::Q8_0 => {
            let squares = || want.iter().map(|&value| f64::from(value).powi(2));
            let code = squares().fold(0.0, f64::max) / 127_f64.powi(2);
            1e-10 + 2.0 * code / squares().sum::<f64>()
        }
    }
}

struct Buffers {
    step: wgpu::Buffer,
    earlier: wgpu::Buffer,
    cache: wgpu::Buffer,
    qkv: wgpu::Buffer,
    gains: [wgpu::Buffer; 2],
    frequencies: wgpu::Buffer,
    rotations: wgpu::Buffer,
    parts: wgpu::Buffer,
    stats: wgpu::Buffer,
}

impl Buffers {
    fn new(gpu: &Gpu, shape: &AppendCase, cached: &Cached, inputs: &Inputs) -> Self {
        let rows = cached.rows.len();
        let table = table_bytes(rows, inputs.frequencies.len());
        let [parts, stats] = ATTENTION.scratch_bytes(&shape.layout, shape.num_heads, rows);
        Self {
            parts: gpu.storage("parts", parts),
            stats: gpu.storage("stats", stats),
            step: gpu.storage_of("step", cached.step.words()),
            earlier: gpu.storage_of("step", cached.earlier.words()),
            cache: cached.buffer(gpu),
            qkv: gpu.storage_of("qkv", &strided(&inputs.qkv, shape.qkv_len())),
            gains: inputs
                .gains
                .each_ref()
                .map(|gain| gpu.storage_of("gain", gain)),
            frequencies: gpu.storage_of("frequencies", &inputs.frequencies),
            rotations: gpu.storage("rotations", table),
        }
    }

    /// Records what brings the result to `output`, where it is not there already.
    fn look(
        &self,
        recorder: &mut Recorder<'_>,
        (shape, judged): (&AppendCase, Judged),
        output: &wgpu::Buffer,
    ) {
        let step = match judged {
            Judged::Qkv => return,
            Judged::Earlier => &self.earlier,
            Judged::Cache | Judged::Attended => &self.step,
        };
        if judged != Judged::Attended {
            let op = KvRead {
                step,
                cache: &self.cache,
                layout: shape.layout,
                kind: shape.kind,
                out: output,
            };
            return kv_read(recorder, &op);
        }
        let op = Attention {
            step,
            cache: &self.cache,
            layout: shape.layout,
            kind: shape.kind,
            num_heads: shape.num_heads,
            qkv: &self.qkv,
            out: output,
            scratch: Scratch {
                parts: &self.parts,
                stats: &self.stats,
            },
            scale: 1.0,
            window: shape.window,
            soft_cap: None,
        };
        attention(recorder, ATTENTION, &op);
    }

    fn op<'a>(
        &'a self,
        shape: &AppendCase,
        judged: Judged,
        output: &'a wgpu::Buffer,
    ) -> QkRopeAppend<'a> {
        let norm = |part: usize| {
            shape.norms[part].then_some(HeadNorm {
                weight: &self.gains[part],
                eps: EPS,
            })
        };
        QkRopeAppend {
            step: &self.step,
            cache: &self.cache,
            layout: shape.layout,
            kind: shape.kind,
            num_heads: shape.num_heads,
            qkv: match judged {
                Judged::Qkv => output,
                _ => &self.qkv,
            },
            rotation: shape.rope.map(|(kind, pairs)| Rotation {
                rotations: &self.rotations,
                pairs,
                kind,
            }),
            q_norm: norm(0),
            k_norm: norm(1),
        }
    }
}
