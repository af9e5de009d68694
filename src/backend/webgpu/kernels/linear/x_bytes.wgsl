// x_bytes.wgsl: quantized activations in bytes
//
// Needs     bytes.wgsl; fast_products.wgsl
@group(0) @binding(5) var<storage, read> quantized: array<vec4<u32>>;

fn load_quantized(block: u32) -> Quantized {
    let at = 3u * block;
    return Quantized(
        Half(quantized[at]),
        Half(quantized[at + 1u]),
        bitcast<vec4<f32>>(quantized[at + 2u]),
    );
}
