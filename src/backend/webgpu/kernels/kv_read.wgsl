// kv_read.wgsl: what the cache holds at the positions of the step's rows
//
// Shapes    cache: backend/webgpu/kv.rs; out: [T, 2 G D] f32, keys then values, rows a stride
//           apart
// Dispatch  (ceil(T 2 G QUADS / WG_SIZE), 1, 1): one invocation a quad
// Limits    any D
// Numerics  exact
// Twin      kv.rs::KvFormat::round
// Params    kernels/kv_read.rs::Params
// Needs     WG_SIZE, KV_HEADS, HEAD_DIM, QUADS, BLOCK_TOKENS; common/step.wgsl, kv_rows.wgsl,
//           kv_table_*.wgsl, kv_read_*.wgsl
// Source    none: a copy
struct Params {
    stride: u32, // from row to row of out, elements
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn kv_read(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let quad = invocation.x % QUADS;
    let head = invocation.x / QUADS % (2u * KV_HEADS);
    let t = invocation.x / QUADS / (2u * KV_HEADS);
    if t >= step_rows() {
        return;
    }
    let row = kv_row(t, head / KV_HEADS, head % KV_HEADS, row_position(t));
    let values = kv_quad(row, quad);
    let first = t * params.stride + head * HEAD_DIM;
    for (var i = 0u; i < 4u; i++) {
        if 4u * quad + i < HEAD_DIM {
            out[first + 4u * quad + i] = values[i];
        }
    }
}
