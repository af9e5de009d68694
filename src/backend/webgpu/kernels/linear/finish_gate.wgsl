// finish_gate.wgsl: y = activation(gate) * up, the first and the second row of an invocation
//
// Needs     params.wgsl; activation_*.wgsl::activation
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn output_columns() -> u32 {
    return params.pair;
}

fn finish(t: u32, n: u32, gate: f32, up: f32) {
    y[t * params.y_stride + params.column + n] = activation(gate) * up;
}
