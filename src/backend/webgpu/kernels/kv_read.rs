//! What a cache holds at the positions of the step's rows, as floats: for checks.

use crate::backend::ops::Cache;

use super::super::kv::{KvLayout, table_part};
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::row_stride;
use super::super::shader::{Constant, Needs, Shader};

/// Lanes of a workgroup.
const WG_SIZE: u32 = 64;

/// Uniform of the shader.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    stride: u32,
    padding: [u32; 3],
}

/// Arguments of [`kv_read`].
#[derive(Clone, Copy, Debug)]
pub struct KvRead<'a> {
    /// The step state.
    pub step: &'a wgpu::Buffer,
    /// The layer's cache.
    pub cache: &'a wgpu::Buffer,
    /// Shape of the cache.
    pub layout: KvLayout,
    /// Which of the two kinds it is.
    pub kind: Cache,
    /// `[T, 2 G D]`: keys, then values.
    pub out: &'a wgpu::Buffer,
}

/// Records a copy of keys and values of every row.
pub fn kv_read(recorder: &mut Recorder<'_>, op: &KvRead<'_>) {
    let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let heads = 2 * op.layout.num_kv_heads;
    let params = Params {
        stride: count(row_stride(heads * op.layout.head_dim)),
        padding: [0; 3],
    };
    let mut shader = Shader {
        name: "kv_read",
        parts: vec![
            table_part(op.kind),
            op.layout.format.read_part(),
            include_str!("kv_read.wgsl"),
        ],
        constants: vec![("WG_SIZE", Constant::U32(WG_SIZE))],
        needs: Needs::default(),
    };
    op.layout.complete(&mut shader);
    let binds = [
        Bind::Read(op.step),
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.cache),
        Bind::Write(op.out),
    ];
    let all = Extent::Rows {
        times: count(heads * op.layout.quads()),
        per_group: WG_SIZE,
    };
    let grid = [all, Extent::Fixed(1), Extent::Fixed(1)];
    recorder.dispatch(&shader, &binds, grid, Cost::default());
}
