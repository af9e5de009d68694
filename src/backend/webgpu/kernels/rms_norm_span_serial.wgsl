// rms_norm_span_serial.wgsl: rms_norm_span.wgsl with one invocation a row, for processors that
// play a GPU
//
// Shapes    as rms_norm_span.wgsl
// Dispatch  (ceil(T / WG_SIZE), 1, 1)
// Limits    C >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/rms_norm.rs::plain
// Params    kernels/rms_norm_span.rs::Params
// Needs     WG_SIZE; common/step.wgsl
// Source    Zhang & Sennrich 2019, arXiv:1910.07467
struct Params {
    width: u32, // C, elements
    stride: u32, // from row to row of x, elements
    first: u32, // of the span in its row
    eps: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn rms_norm_span_serial(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let t = invocation.x;
    if t >= step_rows() {
        return;
    }
    let row = t * params.stride + params.first;
    var square_sum = 0.0;
    for (var c = 0u; c < params.width; c++) {
        square_sum += x[row + c] * x[row + c];
    }
    let scale = inverseSqrt(square_sum / f32(params.width) + params.eps);
    for (var c = 0u; c < params.width; c++) {
        x[row + c] *= scale * weight[c];
    }
}
