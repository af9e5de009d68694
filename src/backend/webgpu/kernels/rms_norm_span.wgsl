// rms_norm_span.wgsl: norm of a part of each row, in place
//
// Shapes    x: [T, ..] f32, rows a stride apart, of which [first, first + C) changes;
//           weight: [C] f32
// Dispatch  (T, 1, 1): one workgroup a row, WG_SIZE lanes stride over C
// Limits    C >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/rms_norm.rs::plain
// Params    kernels/rms_norm_span.rs::Params
// Needs     WG_SIZE; common/reduce_*.wgsl::workgroup_sum
// Source    Zhang & Sennrich 2019, arXiv:1910.07467
struct Params {
    width: u32, // C, elements
    stride: u32, // from row to row of x, elements
    first: u32, // of the span in its row
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn rms_norm_span(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x * params.stride + params.first;
    var square_sum = 0.0;
    for (var c = lane; c < params.width; c += WG_SIZE) {
        square_sum += x[row + c] * x[row + c];
    }
    let mean_square = workgroup_sum(lane, square_sum) / f32(params.width);
    let scale = inverseSqrt(mean_square + params.eps);
    // Each lane changes what it alone has read.
    for (var c = lane; c < params.width; c += WG_SIZE) {
        x[row + c] *= scale * weight[c];
    }
}
