// norm_rms.wgsl: x times gains; what the products have to be multiplied with afterwards comes
// from the sum of squares
//
// Needs     params.wgsl
// Source    Zhang & Sennrich 2019, arXiv:1910.07467
@group(0) @binding(5) var<storage, read> gains: array<vec4<f32>>;

fn gain(quad: u32, value: vec4<f32>) -> vec4<f32> {
    return value * gains[quad];
}

fn norm_scale(square_sum: f32) -> f32 {
    return inverseSqrt(square_sum / params.width + params.eps);
}
