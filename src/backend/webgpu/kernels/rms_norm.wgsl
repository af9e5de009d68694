// rms_norm.wgsl: y[t,c] = x[t,c] * weight[c] / sqrt(mean_c(x[t,c]^2) + eps)
//
// Shapes    x, y: [T, C] f32, rows ROW_STRIDE apart; weight: [C] f32
// Dispatch  (T, 1, 1): one workgroup per row, WG_SIZE lanes stride over C
// Limits    C >= 1
// Numerics  f32; the order of summation differs from the twin's; NMSE <= 1e-10
// Twin      kernels/rms_norm.rs::plain
// Params    kernels/rms_norm.rs::Params
// Needs     WG_SIZE; common/reduce_*.wgsl::workgroup_sum
// Source    Zhang & Sennrich 2019, arXiv:1910.07467; eps placed as in Llama
struct Params {
    width: u32, // C, elements
    stride: u32, // from row to row of x and y, elements
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn rms_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * params.stride;
    var square_sum = 0.0;
    for (var c = lane; c < params.width; c += WG_SIZE) {
        square_sum += x[row + c] * x[row + c];
    }
    let mean_square = workgroup_sum(lane, square_sum) / f32(params.width);
    let scale = inverseSqrt(mean_square + params.eps);
    for (var c = lane; c < params.width; c += WG_SIZE) {
        y[row + c] = x[row + c] * scale * weight[c];
    }
}
