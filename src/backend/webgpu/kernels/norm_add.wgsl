// norm_add.wgsl: residual[t,c] += scale * y[t,c] * weight[c] / sqrt(mean_c(y[t,c]^2) + eps)
//
// Shapes    y, residual: [T, C] f32, rows a stride apart; weight: [C] f32
// Dispatch  (T, 1, 1): one workgroup a row, WG_SIZE lanes stride over C
// Limits    C >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/norm_add.rs::plain
// Params    kernels/norm_add.rs::Params
// Needs     WG_SIZE; common/reduce_*.wgsl::workgroup_sum
// Source    Zhang & Sennrich 2019, arXiv:1910.07467
struct Params {
    width: u32, // C, elements
    stride: u32, // from row to row of y and residual, elements
    eps: f32,
    scale: f32, // factor on what is added
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn norm_add(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * params.stride;
    var square_sum = 0.0;
    for (var c = lane; c < params.width; c += WG_SIZE) {
        square_sum += y[row + c] * y[row + c];
    }
    let mean_square = workgroup_sum(lane, square_sum) / f32(params.width);
    let scale = params.scale * inverseSqrt(mean_square + params.eps);
    for (var c = lane; c < params.width; c += WG_SIZE) {
        residual[row + c] += y[row + c] * scale * weight[c];
    }
}
