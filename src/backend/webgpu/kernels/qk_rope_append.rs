//! Norm and rotation of query and key heads, and keys and values to the cache: one dispatch.

use crate::backend::RopeKind;
use crate::backend::ops::Cache;

use super::super::kv::{KvLayout, table_part};
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::shader::{Constant, Needs, Shader};
use super::super::{Capabilities, row_stride};

pub use super::qk_rope_append_case::{AppendCase, Judged, case, plain};

/// Lanes of a workgroup.
const WG_SIZE: u32 = 64;

/// How heads are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One invocation a head and row.
    Serial,
    /// One workgroup a head and row, sums through its memory.
    Tree,
    /// One workgroup a head and row, sums by subgroups.
    Subgroup,
}

impl Variant {
    /// All that a device can run on heads of this size.
    #[must_use]
    pub fn available(capabilities: &Capabilities, layout: &KvLayout) -> Vec<Self> {
        let mut variants = vec![Self::Serial];
        // A head and the sums are in workgroup memory.
        if layout.quads() <= 512 {
            variants.push(Self::Tree);
            if capabilities.subgroups.is_some_and(|[least, _]| least >= 4) {
                variants.push(Self::Subgroup);
            }
        }
        variants
    }
}

/// Uniform of the shaders.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    stride: u32,
    q_eps: f32,
    k_eps: f32,
    padding: u32,
}

/// Norm of each head by itself.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm<'a> {
    /// `[D]`.
    pub weight: &'a wgpu::Buffer,
    /// Added to the mean square.
    pub eps: f32,
}

/// Rotation of the first `2 pairs` elements of a head.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// Table of the pass, by [`rope_table`](super::rope_table::rope_table).
    pub rotations: &'a wgpu::Buffer,
    /// Pairs of a head.
    pub pairs: usize,
    /// How elements pair up.
    pub kind: RopeKind,
}

/// Arguments of [`qk_rope_append`].
#[derive(Clone, Copy, Debug)]
pub struct QkRopeAppend<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// The layer's cache.
    pub cache: &'a wgpu::Buffer,
    /// Shape of the cache.
    pub layout: KvLayout,
    /// Which of the two kinds it is.
    pub kind: Cache,
    /// `H`.
    pub num_heads: usize,
    /// `[T, (H + 2 G) D]`; queries and keys are changed in place.
    pub qkv: &'a wgpu::Buffer,
    /// Rotation; `None` where a layer has no positions.
    pub rotation: Option<Rotation<'a>>,
    /// Norm of queries.
    pub q_norm: Option<HeadNorm<'a>>,
    /// Norm of keys.
    pub k_norm: Option<HeadNorm<'a>>,
}

/// Records norm, rotation and append for every row.
pub fn qk_rope_append(recorder: &mut Recorder<'_>, variant: Variant, op: &QkRopeAppend<'_>) {
    let heads = op.num_heads + 2 * op.layout.num_kv_heads;
    let eps = |norm: Option<HeadNorm<'_>>| norm.map_or(0.0, |norm| norm.eps);
    let params = Params {
        stride: count(row_stride(heads * op.layout.head_dim)),
        q_eps: eps(op.q_norm),
        k_eps: eps(op.k_norm),
        padding: 0,
    };
    // What is not used has to be bound all the same; the step is always there.
    let gain = |norm: Option<HeadNorm<'_>>| norm.map_or(0, |_| 1);
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Write(op.cache),
        Bind::Write(op.qkv),
        Bind::Read(op.q_norm.map_or(op.step, |norm| norm.weight)),
        Bind::Read(op.k_norm.map_or(op.step, |norm| norm.weight)),
        Bind::Read(op.rotation.map_or(op.step, |rotation| rotation.rotations)),
    ];
    let mut shader = shader(variant, op);
    shader.constants.extend([
        ("NORM_Q", Constant::U32(gain(op.q_norm))),
        ("NORM_K", Constant::U32(gain(op.k_norm))),
    ]);
    let rows = |times, per_group| Extent::Rows { times, per_group };
    let grid = match variant {
        Variant::Serial => [
            rows(count(heads), WG_SIZE),
            Extent::Fixed(1),
            Extent::Fixed(1),
        ],
        _ => [Extent::Fixed(count(heads)), rows(1, 1), Extent::Fixed(1)],
    };
    recorder.dispatch(&shader, &binds, grid, Cost::default());
}

/// Sizes are bounded by the device's memory long before a word is full.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn shader(variant: Variant, op: &QkRopeAppend<'_>) -> Shader {
    let (name, own): (_, &[_]) = match variant {
        Variant::Serial => (
            "qk_rope_append_serial",
            &[include_str!("qk_rope_append_serial.wgsl")],
        ),
        Variant::Tree => (
            "qk_rope_append",
            &[
                include_str!("common/reduce_tree.wgsl"),
                include_str!("qk_rope_append.wgsl"),
            ],
        ),
        Variant::Subgroup => (
            "qk_rope_append",
            &[
                include_str!("common/reduce_subgroup.wgsl"),
                include_str!("qk_rope_append.wgsl"),
            ],
        ),
    };
    let pairs = op.rotation.map_or(0, |rotation| count(rotation.pairs));
    let halves = op
        .rotation
        .map_or(0, |rotation| u32::from(rotation.kind == RopeKind::Halves));
    let mut shader = Shader {
        name,
        parts: vec![table_part(op.kind), op.layout.format.write_part()],
        constants: vec![
            ("WG_SIZE", Constant::U32(WG_SIZE)),
            ("HEADS", Constant::U32(count(op.num_heads))),
            ("PAIRS", Constant::U32(pairs)),
            ("ROPE_HALVES", Constant::U32(halves)),
        ],
        needs: Needs {
            subgroups: variant == Variant::Subgroup,
            ..Needs::default()
        },
    };
    shader.parts.extend(own);
    op.layout.complete(&mut shader);
    shader
}
