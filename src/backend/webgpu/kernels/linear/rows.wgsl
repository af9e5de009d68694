// rows.wgsl: y[t,n] = finish(sum_k x[t,k] * w[n,k]), four rows of w an invocation, no barrier:
// for one row of x on processors that play a GPU
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32; sums: [T, B] pairs of f32
// Dispatch  (ceil(quarter / WG_SIZE), T, 1)
// Limits    K >= 1, N >= 1
// Numerics  f32, integer codes summed before they are scaled; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, x_*, block_product, finish_*.wgsl; planes
@group(0) @binding(5) var<storage, read> sums: array<vec2<f32>>;
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn linear_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x * WG_SIZE + lane;
    let rows = rows_of(n);
    let t = group.y + first_input_row();
    let x_row = t * (params.x_stride / 4u);
    let sums_row = t * params.blocks;
    var products = vec4<f32>();
    var minima = vec4<f32>();
    for (var b = 0u; b < params.blocks; b++) {
        let quads = load_placed_quads(x_row + 8u * b, lane);
        let pair = sums[sums_row + b];
        let w0 = load_block(rows.x, b);
        products.x += block_dot(w0, quads);
        minima.x += block_minimum(w0, pair);
        let w1 = load_block(rows.y, b);
        products.y += block_dot(w1, quads);
        minima.y += block_minimum(w1, pair);
        let w2 = load_block(rows.z, b);
        products.z += block_dot(w2, quads);
        minima.z += block_minimum(w2, pair);
        let w3 = load_block(rows.w, b);
        products.w += block_dot(w3, quads);
        minima.w += block_minimum(w3, pair);
    }
    if n < params.quarter && group.y < output_rows() {
        finish(group.y, n, products + minima);
    }
}
