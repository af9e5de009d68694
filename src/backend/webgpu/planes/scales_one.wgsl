// scales_one.wgsl: one f16 scale a block, two blocks a word; codes are biased by ZERO
//
// Needs     ZERO; params.blocks
@group(0) @binding(2) var<storage, read> scales: array<u32>;

// Both halves of a block have the same scales.
const HALVES = false;

fn load_scales(row: u32, b: u32) -> vec4<f32> {
    let word = scales[row * ((params.blocks + 1u) / 2u) + b / 2u];
    let d = unpack2x16float(word >> (16u * (b & 1u))).x;
    return vec4<f32>(d, -ZERO * d, d, -ZERO * d);
}
