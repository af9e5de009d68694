// finish_logits.wgsl: y = cap * tanh(scale * product / cap), without a cap y = scale * product
//
// Needs     params.wgsl; bias*.wgsl; y at binding 6
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn finish_one(t: u32, n: u32, value: f32) {
    var logit = params.scale * value;
    if params.cap > 0.0 {
        // Beyond 20 it is 1 in f32, and an implementation by exponentials may overflow.
        logit = params.cap * tanh(clamp(logit / params.cap, -20.0, 20.0));
    }
    y[t * params.y_stride + params.column + n] = logit;
}
