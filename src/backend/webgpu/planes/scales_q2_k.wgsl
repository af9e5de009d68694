// scales_q2_k.wgsl: superblocks of 8 blocks; a byte for each half of a block, scale in its low
// half, minimum in its high half
//
// Needs     params.blocks, a multiple of 8
@group(0) @binding(2) var<storage, read> scales: array<u32>;

// The halves of a block have scales of their own.
const HALVES = true;

fn load_scales(row: u32, b: u32) -> vec4<f32> {
    let at = (row * (params.blocks / 8u) + b / 8u) * 5u;
    let d = unpack2x16float(scales[at]);
    let bytes = scales[at + 1u + (b % 8u) / 2u] >> (16u * (b & 1u));
    let nibbles = (vec4<u32>(bytes) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
    return vec4<f32>(nibbles) * vec4<f32>(d.x, -d.y, d.x, -d.y);
}
