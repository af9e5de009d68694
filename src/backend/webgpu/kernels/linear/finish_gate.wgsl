// finish_gate.wgsl: y = activation(gate) * up; of the four rows of an invocation the first two
// are gates, the others their ups
//
// Needs     params.wgsl; activation_*.wgsl::activation
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn finish(t: u32, n: u32, values: vec4<f32>) {
    let at = t * params.y_stride + params.column;
    y[at + n] = activation(values.x) * values.z;
    let second = n + params.quarter;
    if second < params.half {
        y[at + second] = activation(values.y) * values.w;
    }
}
