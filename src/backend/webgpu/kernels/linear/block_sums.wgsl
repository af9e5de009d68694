// block_sums.wgsl: sums of x over each 16 elements, so that minima and zero points of weights
// cost one multiplication a block
//
// Shapes    x: [T, K] f32, rows x_stride apart; sums: [T, B] pairs of f32
// Dispatch  (ceil(rows B / WG_SIZE), 1, 1)
// Limits    K >= 1
// Numerics  f32
// Twin      none of its own: it is part of the products
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params.wgsl; rows_*.wgsl
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> sums: array<vec2<f32>>;

@compute @workgroup_size(WG_SIZE)
fn block_sums(@builtin(global_invocation_id) id: vec3<u32>) {
    let t = id.x / params.blocks + first_input_row();
    let b = id.x % params.blocks;
    if t >= step_rows() {
        return;
    }
    let at = t * params.x_stride / 4u + 8u * b;
    let first = (x[at] + x[at + 1u]) + (x[at + 2u] + x[at + 3u]);
    let second = (x[at + 4u] + x[at + 5u]) + (x[at + 6u] + x[at + 7u]);
    let ones = vec4<f32>(1.0);
    sums[t * params.blocks + b] = vec2<f32>(dot(first, ones), dot(second, ones));
}
