// activation_silu.wgsl: x * sigmoid(x)
//
// Source    Elfwing et al. 2017, arXiv:1702.03118
fn activation(x: f32) -> f32 {
    // exp overflows beyond 88.
    return x / (1.0 + exp(min(-x, 88.0)));
}
