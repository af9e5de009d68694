// fast_cooperative.wgsl: cooperative.wgsl on quantized activations
//
// Shapes    quantized x: [T, B] blocks; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (quarter, T, 1)
// Limits    K >= 1, N >= 1
// Numerics  exact integers in a block, f32 over blocks; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain of quantized x
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; SUMS = 1; common/step.wgsl; params, rows_*, bytes, fast_products, x_bytes,
//           reduce_*, finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn linear_fast_cooperative(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x;
    let rows = rows_of(n);
    let first = min(group.y + first_input_row(), step_rows() - 1u) * params.blocks;
    var own = vec4<f32>();
    for (var b = lane; b < params.blocks; b += WG_SIZE) {
        own += block_products(
            load_bytes(rows.x, b),
            load_bytes(rows.y, b),
            load_bytes(rows.z, b),
            load_bytes(rows.w, b),
            load_quantized(first + b),
        );
    }
    let sums = reduce(lane, array<vec4<f32>, SUMS>(own));
    if lane == 0u && group.y < output_rows() {
        finish(group.y, n, sums[0]);
    }
}
