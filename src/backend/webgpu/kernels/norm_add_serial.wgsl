// norm_add_serial.wgsl: norm_add.wgsl with one invocation a row, for processors that play a GPU
//
// Shapes    as norm_add.wgsl
// Dispatch  (ceil(T / WG_SIZE), 1, 1)
// Limits    C >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/norm_add.rs::plain
// Params    kernels/norm_add.rs::Params
// Needs     WG_SIZE; common/step.wgsl
// Source    Zhang & Sennrich 2019, arXiv:1910.07467
struct Params {
    width: u32, // C, elements
    stride: u32, // from row to row of y and residual, elements
    eps: f32,
    scale: f32, // factor on what is added
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn norm_add_serial(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let t = invocation.x;
    if t >= step_rows() {
        return;
    }
    // Beyond C rows are zero, so whole vectors may be summed.
    let row = t * params.stride;
    let quads = (params.width + 3u) / 4u;
    var squares = vec4<f32>();
    for (var i = 0u; i < quads; i++) {
        let quad = y[row / 4u + i];
        squares += quad * quad;
    }
    let mean_square = dot(squares, vec4<f32>(1.0)) / f32(params.width);
    let scale = params.scale * inverseSqrt(mean_square + params.eps);
    for (var c = 0u; c < params.width; c++) {
        residual[row + c] += y[(row + c) / 4u][c % 4u] * scale * weight[c];
    }
}
