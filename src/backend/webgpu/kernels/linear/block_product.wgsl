// block_product.wgsl: products of a block of weights with 32 elements of x
//
// Needs     planes/*.wgsl; x_*.wgsl::Quads
// To be multiplied with PLACES; the minima are not in it.
fn block_product(block: Block, x: Quads) -> vec4<f32> {
    let first = quad_0(block) * x.x0 + quad_1(block) * x.x1 + quad_2(block) * x.x2
        + quad_3(block) * x.x3;
    let second = quad_4(block) * x.x4 + quad_5(block) * x.x5 + quad_6(block) * x.x6
        + quad_7(block) * x.x7;
    let scales = block_scales(block);
    if HALVES {
        return first * scales.x + second * scales.z;
    }
    return (first + second) * scales.x;
}

// The same summed, of x that was multiplied with PLACES: fewer sums are kept from block to block.
fn block_dot(block: Block, x: Quads) -> f32 {
    let first = (dot(quad_0(block), x.x0) + dot(quad_1(block), x.x1))
        + (dot(quad_2(block), x.x2) + dot(quad_3(block), x.x3));
    let second = (dot(quad_4(block), x.x4) + dot(quad_5(block), x.x5))
        + (dot(quad_6(block), x.x6) + dot(quad_7(block), x.x7));
    let scales = block_scales(block);
    if HALVES {
        return first * scales.x + second * scales.z;
    }
    return (first + second) * scales.x;
}

// What the minima add, from the sums of x over both halves.
fn block_minimum(block: Block, sums: vec2<f32>) -> f32 {
    let scales = block_scales(block);
    if HALVES {
        return scales.y * sums.x + scales.w * sums.y;
    }
    return scales.y * (sums.x + sums.y);
}
