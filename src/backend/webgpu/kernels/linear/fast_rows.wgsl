// fast_rows.wgsl: rows.wgsl on quantized activations
//
// Shapes    quantized x: [T, B] blocks; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (ceil(quarter / WG_SIZE), T, 1)
// Limits    K >= 1, N >= 1
// Numerics  exact integers in a block, f32 over blocks; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain of quantized x
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, pairs_*, fast_products, x_pairs_*,
//           finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn linear_fast_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x * WG_SIZE + lane;
    let rows = rows_of(n);
    let first = (group.y + first_input_row()) * params.blocks;
    var sums = vec4<f32>();
    for (var b = 0u; b < params.blocks; b++) {
        let x = load_quantized(first + b, lane);
        sums += block_products(
            load_bytes(rows.x, b),
            load_bytes(rows.y, b),
            load_bytes(rows.z, b),
            load_bytes(rows.w, b),
            x,
        );
    }
    if n < params.quarter && group.y < output_rows() {
        finish(group.y, n, sums);
    }
}
