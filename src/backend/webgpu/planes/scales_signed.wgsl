// scales_signed.wgsl: superblocks of 8 blocks, a signed byte of scale for each half of a block;
// codes are biased by ZERO
//
// Needs     ZERO; params.blocks, a multiple of 8
@group(0) @binding(2) var<storage, read> scales: array<u32>;

// The halves of a block have scales of their own.
const HALVES = true;

fn load_scales(row: u32, b: u32) -> vec4<f32> {
    let at = (row * (params.blocks / 8u) + b / 8u) * 5u;
    let d = unpack2x16float(scales[at]).x;
    let bytes = bitcast<i32>(scales[at + 1u + (b % 8u) / 2u] << (16u - 16u * (b & 1u)));
    let first = d * f32((bytes << 8u) >> 24u);
    let second = d * f32(bytes >> 24u);
    return vec4<f32>(first, -ZERO * first, second, -ZERO * second);
}
