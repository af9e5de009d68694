// finish_each.wgsl: the four rows of an invocation are finished alike
//
// Needs     params.wgsl; finish_*.wgsl::finish_one
fn finish(t: u32, n: u32, values: vec4<f32>) {
    let second = n + params.quarter;
    let third = n + params.half;
    finish_one(t, n, values.x);
    if second < params.rows {
        finish_one(t, second, values.y);
    }
    if third < params.rows {
        finish_one(t, third, values.z);
    }
    if third + params.quarter < params.rows {
        finish_one(t, third + params.quarter, values.w);
    }
}
