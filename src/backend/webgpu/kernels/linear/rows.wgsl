// rows.wgsl: y[t,n] = finish(sum_k x[t,k] * w[n,k]), two rows of w an invocation, no barrier:
// for one row of x on processors that play a GPU
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32; sums: [T, B] pairs of f32
// Dispatch  (ceil(pairs / WG_SIZE), T, 1)
// Limits    K >= 1, N >= 1
// Numerics  f32, integer codes summed before they are scaled; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, block_product, finish_*.wgsl; planes
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> sums: array<vec2<f32>>;
@group(0) @binding(8) var<uniform> params: Params;

fn load_quads(at: u32) -> Quads {
    return Quads(
        x[at],
        x[at + 1u],
        x[at + 2u],
        x[at + 3u],
        x[at + 4u],
        x[at + 5u],
        x[at + 6u],
        x[at + 7u],
    );
}

@compute @workgroup_size(WG_SIZE)
fn linear_rows(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = id.x;
    if n >= output_columns() || id.y >= output_rows() {
        return;
    }
    let second_n = min(n + params.pair, params.rows - 1u);
    let t = id.y + first_input_row();
    let x_row = t * params.x_stride / 4u;
    let sums_row = t * params.blocks;
    var first = vec4<f32>();
    var second = vec4<f32>();
    var minima = vec2<f32>();
    for (var b = 0u; b < params.blocks; b++) {
        let quads = load_quads(x_row + 8u * b);
        let pair = sums[sums_row + b];
        let block = load_block(n, b);
        first += block_product(block, quads);
        minima.x += block_minimum(block, pair);
        let other = load_block(second_n, b);
        second += block_product(other, quads);
        minima.y += block_minimum(other, pair);
    }
    finish(id.y, n, dot(first, PLACES) + minima.x, dot(second, PLACES) + minima.y);
}
