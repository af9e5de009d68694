// cooperative.wgsl: y[t,n] = finish(sum_k x[t,k] * w[n,k]), a workgroup for four rows of w and
// one of x: lanes stride over the blocks of a row, so that they read side by side
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (quarter, T, 1)
// Limits    K >= 1, N >= 1
// Numerics  f32, integer codes summed before they are scaled; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; SUMS = 2; common/step.wgsl; params, rows_*, x_direct, block_product,
//           norm_*, reduce_*, finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn linear_cooperative(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x;
    let rows = rows_of(n);
    let x_row = min(group.y + first_input_row(), step_rows() - 1u) * (params.x_stride / 4u);
    var first = vec4<f32>();
    var second = vec4<f32>();
    var third = vec4<f32>();
    var fourth = vec4<f32>();
    var minima = vec4<f32>();
    var squares = vec4<f32>();
    for (var b = lane; b < params.blocks; b += WG_SIZE) {
        var q = load_quads(x_row + 8u * b, lane);
        squares += (q.x0 * q.x0 + q.x1 * q.x1) + (q.x2 * q.x2 + q.x3 * q.x3)
            + (q.x4 * q.x4 + q.x5 * q.x5) + (q.x6 * q.x6 + q.x7 * q.x7);
        q = Quads(
            gain(8u * b, q.x0),
            gain(8u * b + 1u, q.x1),
            gain(8u * b + 2u, q.x2),
            gain(8u * b + 3u, q.x3),
            gain(8u * b + 4u, q.x4),
            gain(8u * b + 5u, q.x5),
            gain(8u * b + 6u, q.x6),
            gain(8u * b + 7u, q.x7),
        );
        let ones = vec4<f32>(1.0);
        let pair = vec2<f32>(
            dot((q.x0 + q.x1) + (q.x2 + q.x3), ones),
            dot((q.x4 + q.x5) + (q.x6 + q.x7), ones),
        );
        let w0 = load_block(rows.x, b);
        let w1 = load_block(rows.y, b);
        let w2 = load_block(rows.z, b);
        let w3 = load_block(rows.w, b);
        first += block_product(w0, q);
        second += block_product(w1, q);
        third += block_product(w2, q);
        fourth += block_product(w3, q);
        minima += vec4<f32>(
            block_minimum(w0, pair),
            block_minimum(w1, pair),
            block_minimum(w2, pair),
            block_minimum(w3, pair),
        );
    }
    let products = PLACES * mat4x4<f32>(first, second, third, fourth) + minima;
    let sums = reduce(lane, array<vec4<f32>, SUMS>(products, squares));
    if lane == 0u && group.y < output_rows() {
        let scale = norm_scale(dot(sums[1], vec4<f32>(1.0)));
        finish(group.y, n, scale * sums[0]);
    }
}
