// finish_add.wgsl: y += scale * (product + bias)
//
// Needs     params.wgsl; bias*.wgsl; y at binding 6
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn finish_one(t: u32, n: u32, value: f32) {
    y[t * params.y_stride + params.column + n] += params.scale * (value + bias(n));
}
