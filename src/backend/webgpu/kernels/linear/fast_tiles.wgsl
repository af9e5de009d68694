// fast_tiles.wgsl: tiles.wgsl on quantized activations
//
// Shapes    quantized x: [T, B] blocks; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (ceil(quarter / WG_SIZE), ceil(T / 8), 1)
// Limits    K >= 1, N >= 1
// Numerics  exact integers in a block, f32 over blocks; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain of quantized x
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, pairs_*, fast_products, x_pairs_*,
//           finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

fn finish_row(t: u32, n: u32, values: vec4<f32>) {
    if n < params.quarter && t < output_rows() {
        finish(t, n, values);
    }
}

@compute @workgroup_size(WG_SIZE)
fn linear_fast_tiles(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x * WG_SIZE + lane;
    let t = 8u * group.y;
    let rows = rows_of(n);
    let x_row = t + first_input_row();
    let last = step_rows() - 1u;
    var first = vec4<f32>();
    var second = vec4<f32>();
    var third = vec4<f32>();
    var fourth = vec4<f32>();
    var fifth = vec4<f32>();
    var sixth = vec4<f32>();
    var seventh = vec4<f32>();
    var eighth = vec4<f32>();
    for (var b = 0u; b < params.blocks; b++) {
        let w0 = load_bytes(rows.x, b);
        let w1 = load_bytes(rows.y, b);
        let w2 = load_bytes(rows.z, b);
        let w3 = load_bytes(rows.w, b);
        let low = four_blocks(x_row, last, b, lane);
        first += block_products(w0, w1, w2, w3, block_of_0(low));
        second += block_products(w0, w1, w2, w3, block_of_1(low));
        third += block_products(w0, w1, w2, w3, block_of_2(low));
        fourth += block_products(w0, w1, w2, w3, block_of_3(low));
        let high = four_blocks(x_row + 4u, last, b, lane);
        fifth += block_products(w0, w1, w2, w3, block_of_0(high));
        sixth += block_products(w0, w1, w2, w3, block_of_1(high));
        seventh += block_products(w0, w1, w2, w3, block_of_2(high));
        eighth += block_products(w0, w1, w2, w3, block_of_3(high));
    }
    finish_row(t, n, first);
    finish_row(t + 1u, n, second);
    finish_row(t + 2u, n, third);
    finish_row(t + 3u, n, fourth);
    finish_row(t + 4u, n, fifth);
    finish_row(t + 5u, n, sixth);
    finish_row(t + 6u, n, seventh);
    finish_row(t + 7u, n, eighth);
}
