// x_pairs_direct.wgsl: quantized activations in pairs, loaded by every invocation
//
// Needs     pairs_*.wgsl; fast_products.wgsl; params.wgsl
@group(0) @binding(5) var<storage, read> quantized: array<vec4<u32>>;

fn load_quantized(block: u32, lane: u32) -> Quantized {
    let at = 5u * block;
    return Quantized(
        Half(quantized[at], quantized[at + 1u]),
        Half(quantized[at + 2u], quantized[at + 3u]),
        bitcast<vec4<f32>>(quantized[at + 4u]),
    );
}

// Blocks `b` of four rows of x from row `first` on; none is past `last`.
fn four_blocks(first: u32, last: u32, b: u32, lane: u32) -> vec4<u32> {
    return min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(last))
        * params.blocks + b;
}

fn block_of_0(blocks: vec4<u32>) -> Quantized { return load_quantized(blocks.x, 0u); }
fn block_of_1(blocks: vec4<u32>) -> Quantized { return load_quantized(blocks.y, 0u); }
fn block_of_2(blocks: vec4<u32>) -> Quantized { return load_quantized(blocks.z, 0u); }
fn block_of_3(blocks: vec4<u32>) -> Quantized { return load_quantized(blocks.w, 0u); }
