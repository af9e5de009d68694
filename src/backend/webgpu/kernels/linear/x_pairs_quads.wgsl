// x_pairs_quads.wgsl: quantized activations in pairs, each loaded by one of four invocations
// that share them
//
// Needs     pairs_*.wgsl; fast_products.wgsl; params.wgsl; subgroups of 4 lanes or more, whose
//           lanes follow one another; every lane calls
@group(0) @binding(5) var<storage, read> quantized: array<vec4<u32>>;

fn load_quantized(block: u32, lane: u32) -> Quantized {
    let at = 5u * block;
    let own = quantized[at + (lane & 3u)];
    return Quantized(
        Half(quadBroadcast(own, 0u), quadBroadcast(own, 1u)),
        Half(quadBroadcast(own, 2u), quadBroadcast(own, 3u)),
        bitcast<vec4<f32>>(quantized[at + 4u]),
    );
}

// Block `b` of the lane's one of four rows of x from row `first` on; none is past `last`.
fn four_blocks(first: u32, last: u32, b: u32, lane: u32) -> Quantized {
    let at = 5u * (min(first + (lane & 3u), last) * params.blocks + b);
    return Quantized(
        Half(quantized[at], quantized[at + 1u]),
        Half(quantized[at + 2u], quantized[at + 3u]),
        bitcast<vec4<f32>>(quantized[at + 4u]),
    );
}

fn block_of_0(own: Quantized) -> Quantized {
    return Quantized(
        Half(quadBroadcast(own.first.even, 0u), quadBroadcast(own.first.odd, 0u)),
        Half(quadBroadcast(own.second.even, 0u), quadBroadcast(own.second.odd, 0u)),
        quadBroadcast(own.scales, 0u),
    );
}

fn block_of_1(own: Quantized) -> Quantized {
    return Quantized(
        Half(quadBroadcast(own.first.even, 1u), quadBroadcast(own.first.odd, 1u)),
        Half(quadBroadcast(own.second.even, 1u), quadBroadcast(own.second.odd, 1u)),
        quadBroadcast(own.scales, 1u),
    );
}

fn block_of_2(own: Quantized) -> Quantized {
    return Quantized(
        Half(quadBroadcast(own.first.even, 2u), quadBroadcast(own.first.odd, 2u)),
        Half(quadBroadcast(own.second.even, 2u), quadBroadcast(own.second.odd, 2u)),
        quadBroadcast(own.scales, 2u),
    );
}

fn block_of_3(own: Quantized) -> Quantized {
    return Quantized(
        Half(quadBroadcast(own.first.even, 3u), quadBroadcast(own.first.odd, 3u)),
        Half(quadBroadcast(own.second.even, 3u), quadBroadcast(own.second.odd, 3u)),
        quadBroadcast(own.scales, 3u),
    );
}
