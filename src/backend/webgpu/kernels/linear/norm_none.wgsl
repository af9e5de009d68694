// norm_none.wgsl: x as it is
fn gain(quad: u32, value: vec4<f32>) -> vec4<f32> {
    return value;
}

fn norm_scale(square_sum: f32) -> f32 {
    return 1.0;
}
