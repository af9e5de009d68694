// activation_gelu_tanh.wgsl: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//
// Source    Hendrycks & Gimpel 2016, arXiv:1606.08415
fn activation(x: f32) -> f32 {
    let inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    // Beyond 20 it is 1 in f32, and an implementation by exponentials may overflow.
    return 0.5 * x * (1.0 + tanh(clamp(inner, -20.0, 20.0)));
}
