//! Causal attention of the step's rows over a cache.
//!
//! [`Variant::Serial`] and [`Variant::Decode`] cut each row's positions into shares, whose
//! partial sums a second dispatch merges; their scratch depends on the rows and heads alone.
//! [`Variant::Prefill`] walks tiles of keys under tiles of queries and needs none.

use crate::backend::ops::Cache;

use super::super::kv::{KvLayout, table_part};
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::shader::{Constant, Needs, Shader};
use super::super::{Capabilities, row_stride};

pub use super::attention_case::{AttentionCase, case, plain};

/// Lanes of a workgroup where nothing else decides.
const WG_SIZE: u32 = 64;

/// Lanes of a workgroup of [`Variant::Serial`]: few, because workgroups are what a processor's
/// threads share, and a pass of one row has no more than some dozens of invocations.
const SERIAL_WG_SIZE: u32 = 16;

/// Lines of a tile of queries, as in `attention_prefill.wgsl`.
const LINES: u32 = 16;

/// How rows are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One invocation for a share of a row's positions, for up to four heads of a KV head.
    Serial {
        /// Shares of a row's positions.
        splits: u32,
    },
    /// One workgroup for a share of a row and KV head's positions: few rows, many positions.
    Decode {
        /// Shares of a row's positions.
        splits: u32,
        /// Maxima by subgroups instead of workgroup memory.
        subgroups: bool,
    },
    /// One workgroup for 16 queries of a KV head: many rows.
    Prefill,
}

impl Variant {
    /// All that a device can run on heads of this size, with few and many shares.
    #[must_use]
    pub fn available(capabilities: &Capabilities, layout: &KvLayout) -> Vec<Self> {
        let mut variants = vec![Self::Serial { splits: 1 }, Self::Serial { splits: 8 }];
        let quads = layout.quads();
        if quads <= 256 {
            variants.extend([1, 16].map(|splits| Self::Decode {
                splits,
                subgroups: false,
            }));
            // Smaller ones than the maxima's array has room for.
            if capabilities.subgroups.is_some_and(|[least, _]| least >= 4) {
                variants.push(Self::Decode {
                    splits: 16,
                    subgroups: true,
                });
            }
        }
        if quads <= 128 {
            variants.push(Self::Prefill);
        }
        variants
    }

    /// [`Variant::Serial`] for contexts of up to `positions`, with at least `splits` shares:
    /// Mesa's llvmpipe ends a shader, without a word, after 65535 rounds of all its loops.
    #[must_use]
    pub fn serial(layout: &KvLayout, positions: usize, splits: u32) -> Self {
        // A tile of eight positions passes over the quads twice; blocks may cut tiles in two.
        let rounds = |splits: u32| {
            let share = positions.div_ceil(splits as usize);
            (share / 8 + share / layout.block_tokens + 3) * (2 * layout.quads() + 1)
        };
        let enough = (0..12)
            .map(|i| 1 << i)
            .find(|&splits| rounds(splits) < 60_000);
        Self::Serial {
            splits: enough.unwrap_or(1 << 12).max(splits),
        }
    }

    /// Bytes of the two buffers of [`Scratch`] for `rows` rows.
    #[must_use]
    pub fn scratch_bytes(self, layout: &KvLayout, num_heads: usize, rows: usize) -> [u64; 2] {
        let parts = rows as u64 * num_heads as u64 * u64::from(self.parts(layout));
        [parts * 16 * layout.quads() as u64, parts * 8]
    }

    /// Partial sums of a row and head.
    fn parts(self, layout: &KvLayout) -> u32 {
        match self {
            Self::Serial { splits } => splits,
            Self::Decode { splits, .. } => splits * (decode_lanes(layout) / count(layout.quads())),
            Self::Prefill => 0,
        }
    }
}

/// A lane a quad, at least [`SERIAL_WG_SIZE`].
fn decode_lanes(layout: &KvLayout) -> u32 {
    count(layout.quads())
        .next_power_of_two()
        .max(SERIAL_WG_SIZE)
}

/// A lane a quad, twice, so that no lane has more than eight lines.
fn prefill_lanes(layout: &KvLayout) -> u32 {
    if layout.quads() <= 64 { 128 } else { 256 }
}

/// Sizes are bounded by the device's memory long before a word is full.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Uniform of the shaders.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    qkv_stride: u32,
    out_stride: u32,
    window: u32,
    scale: f32,
    soft_cap: f32,
    padding: [u32; 3],
}

/// Partial results between the two dispatches; sizes by [`Variant::scratch_bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Scratch<'a> {
    /// Sums of weighted values.
    pub parts: &'a wgpu::Buffer,
    /// Largest scores and sums of weights.
    pub stats: &'a wgpu::Buffer,
}

/// Arguments of [`attention`].
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// The layer's cache; the step's rows are in it already.
    pub cache: &'a wgpu::Buffer,
    /// Shape of the cache.
    pub layout: KvLayout,
    /// Which of the two kinds it is.
    pub kind: Cache,
    /// `H`.
    pub num_heads: usize,
    /// `[T, (H + 2 G) D]`, of which the queries are read.
    pub qkv: &'a wgpu::Buffer,
    /// `[T, H D]`.
    pub out: &'a wgpu::Buffer,
    /// Not read by [`Variant::Prefill`].
    pub scratch: Scratch<'a>,
    /// Factor on the scores.
    pub scale: f32,
    /// A row sees this many positions, itself included; `None`: all.
    pub window: Option<usize>,
    /// Scores become `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
}

impl Attention<'_> {
    fn params(&self) -> Params {
        let heads = self.num_heads + 2 * self.layout.num_kv_heads;
        Params {
            qkv_stride: count(row_stride(heads * self.layout.head_dim)),
            out_stride: count(row_stride(self.num_heads * self.layout.head_dim)),
            window: self.window.map_or(0, count),
            scale: self.scale,
            soft_cap: self.soft_cap.unwrap_or(0.0),
            padding: [0; 3],
        }
    }

    /// With `rows` rows, and `heads` query heads of a KV head, to a reading of keys and values.
    fn cost(&self, rows: u32, heads: usize) -> Cost {
        let layout = &self.layout;
        let sets = (self.num_heads / layout.num_kv_heads).div_ceil(heads);
        Cost {
            kv_bytes: (2 * layout.num_kv_heads * sets) as u64 * layout.row_bytes(),
            rows_a_kv_read: rows,
            kv_macs: 2 * (self.num_heads * layout.head_dim) as u64,
            window: self.window.map_or(0, count),
            ..Cost::default()
        }
    }

    fn shader(&self, name: &'static str, lanes: u32, parts: &[&'static str]) -> Shader {
        let queries = if self.layout.head_dim.is_multiple_of(4) {
            include_str!("common/query_quads.wgsl")
        } else {
            include_str!("common/query_scalars.wgsl")
        };
        let mut shader = Shader {
            name,
            parts: vec![
                table_part(self.kind),
                self.layout.format.read_part(),
                include_str!("common/attention.wgsl"),
                queries,
            ],
            constants: vec![
                ("WG_SIZE", Constant::U32(lanes)),
                ("HEADS", Constant::U32(count(self.num_heads))),
            ],
            needs: Needs::default(),
        };
        shader.parts.extend(parts);
        self.layout.complete(&mut shader);
        shader
    }
}

/// Records `out[t, h] = sum_s softmax_s(scale q[t, h] k[s, h / (H / G)]) v[s, h / (H / G)]` over
/// the positions `s` that row `t` sees: one dispatch, or two with [`Scratch`].
pub fn attention(recorder: &mut Recorder<'_>, variant: Variant, op: &Attention<'_>) {
    match variant {
        Variant::Serial { splits } => serial(recorder, splits, op),
        Variant::Decode { splits, subgroups } => decode(recorder, splits, subgroups, op),
        Variant::Prefill => return prefill(recorder, op),
    }
    merge(recorder, variant.parts(&op.layout), op);
}

fn dispatch_share(
    recorder: &mut Recorder<'_>,
    shader: &Shader,
    op: &Attention<'_>,
    (grid, heads): ([Extent; 3], usize),
) {
    let params = op.params();
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.cache),
        Bind::Read(op.qkv),
        Bind::Write(op.scratch.parts),
        Bind::Write(op.scratch.stats),
    ];
    recorder.dispatch(shader, &binds, grid, op.cost(1, heads));
}

fn serial(recorder: &mut Recorder<'_>, splits: u32, op: &Attention<'_>) {
    let mut shader = op.shader(
        "attention_serial",
        SERIAL_WG_SIZE,
        &[include_str!("attention_serial.wgsl")],
    );
    // Equal sets, of at most four heads.
    let group = op.num_heads / op.layout.num_kv_heads;
    let sets = group.div_ceil(4);
    shader.constants.extend([
        ("SPLITS", Constant::U32(splits)),
        ("SET_HEADS", Constant::U32(count(group.div_ceil(sets)))),
    ]);
    let all = Extent::Rows {
        times: count(op.layout.num_kv_heads * sets) * splits,
        per_group: SERIAL_WG_SIZE,
    };
    dispatch_share(
        recorder,
        &shader,
        op,
        ([all, Extent::Fixed(1), Extent::Fixed(1)], 4),
    );
}

fn decode(recorder: &mut Recorder<'_>, splits: u32, subgroups: bool, op: &Attention<'_>) {
    let maxima = if subgroups {
        include_str!("common/max_subgroup.wgsl")
    } else {
        include_str!("common/max_tree.wgsl")
    };
    let mut shader = op.shader(
        "attention_decode",
        decode_lanes(&op.layout),
        &[maxima, include_str!("attention_decode.wgsl")],
    );
    shader.constants.push(("SPLITS", Constant::U32(splits)));
    shader.needs.subgroups = subgroups;
    let group = op.num_heads / op.layout.num_kv_heads;
    let head_sets = count(op.layout.num_kv_heads * group.div_ceil(8));
    let rows = Extent::Rows {
        times: 1,
        per_group: 1,
    };
    dispatch_share(
        recorder,
        &shader,
        op,
        ([Extent::Fixed(splits), Extent::Fixed(head_sets), rows], 8),
    );
}

fn prefill(recorder: &mut Recorder<'_>, op: &Attention<'_>) {
    let lanes = prefill_lanes(&op.layout);
    let mut shader = op.shader(
        "attention_prefill",
        lanes,
        &[include_str!("attention_prefill.wgsl")],
    );
    let lines_each = LINES.div_ceil(lanes / count(op.layout.quads()));
    shader
        .constants
        .push(("LINES_EACH", Constant::U32(lines_each)));
    let params = op.params();
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.cache),
        Bind::Read(op.qkv),
        Bind::Write(op.out),
    ];
    let tiles = Extent::Rows {
        times: count(op.num_heads / op.layout.num_kv_heads),
        per_group: LINES,
    };
    let kv_heads = Extent::Fixed(count(op.layout.num_kv_heads));
    recorder.dispatch(
        &shader,
        &binds,
        [tiles, kv_heads, Extent::Fixed(1)],
        op.cost(
            (LINES / count(op.num_heads / op.layout.num_kv_heads)).max(1),
            LINES as usize,
        ),
    );
}

fn merge(recorder: &mut Recorder<'_>, parts: u32, op: &Attention<'_>) {
    let mut constants = op.layout.constants();
    constants.extend([
        ("WG_SIZE", Constant::U32(WG_SIZE)),
        ("HEADS", Constant::U32(count(op.num_heads))),
        ("PARTS", Constant::U32(parts)),
    ]);
    let shader = Shader {
        name: "attention_merge",
        parts: vec![
            include_str!("common/step.wgsl"),
            include_str!("common/attention.wgsl"),
            include_str!("attention_merge.wgsl"),
        ],
        constants,
        needs: Needs::default(),
    };
    let params = op.params();
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.scratch.parts),
        Bind::Read(op.scratch.stats),
        Bind::Write(op.out),
    ];
    let all = Extent::Rows {
        times: count(op.num_heads * op.layout.quads()),
        per_group: WG_SIZE,
    };
    recorder.dispatch(
        &shader,
        &binds,
        [all, Extent::Fixed(1), Extent::Fixed(1)],
        Cost::default(),
    );
}
