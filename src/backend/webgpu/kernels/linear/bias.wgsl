// bias.wgsl: [N] f32 is added to every row of products
@group(0) @binding(7) var<storage, read> biases: array<f32>;

fn bias(n: u32) -> f32 {
    return biases[params.first_row + n];
}
