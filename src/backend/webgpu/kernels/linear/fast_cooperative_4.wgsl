// fast_cooperative_4.wgsl: cooperative_4.wgsl on quantized activations
//
// Shapes    quantized x: [T, B] blocks; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (quarter, ceil(T / 4), 1)
// Limits    K >= 1, N >= 1
// Numerics  exact integers in a block, f32 over blocks; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain of quantized x
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; SUMS = 4; common/step.wgsl; params, rows_*, bytes, fast_products, x_bytes,
//           reduce_*, finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn linear_fast_cooperative_4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x;
    let t = 4u * group.y;
    let rows = rows_of(n);
    let x_rows = min(
        t + first_input_row() + vec4<u32>(0u, 1u, 2u, 3u),
        vec4<u32>(step_rows() - 1u),
    ) * params.blocks;
    var first = vec4<f32>();
    var second = vec4<f32>();
    var third = vec4<f32>();
    var fourth = vec4<f32>();
    for (var b = lane; b < params.blocks; b += WG_SIZE) {
        let w0 = load_bytes(rows.x, b);
        let w1 = load_bytes(rows.y, b);
        let w2 = load_bytes(rows.z, b);
        let w3 = load_bytes(rows.w, b);
        first += block_products(w0, w1, w2, w3, load_quantized(x_rows.x + b));
        second += block_products(w0, w1, w2, w3, load_quantized(x_rows.y + b));
        third += block_products(w0, w1, w2, w3, load_quantized(x_rows.z + b));
        fourth += block_products(w0, w1, w2, w3, load_quantized(x_rows.w + b));
    }
    let sums = reduce(lane, array<vec4<f32>, SUMS>(first, second, third, fourth));
    if lane == 0u {
        let last = output_rows();
        if t < last {
            finish(t, n, sums[0]);
        }
        if t + 1u < last {
            finish(t + 1u, n, sums[1]);
        }
        if t + 2u < last {
            finish(t + 2u, n, sums[2]);
        }
        if t + 3u < last {
            finish(t + 3u, n, sums[3]);
        }
    }
}
