// bias_none.wgsl: no bias
fn bias(n: u32) -> f32 {
    return 0.0;
}
