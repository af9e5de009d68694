// scales_min.wgsl: superblocks of 8 blocks, each with a byte of scale and one of minimum
//
// Needs     params.blocks, a multiple of 8
@group(0) @binding(2) var<storage, read> scales: array<u32>;

// Both halves of a block have the same scales.
const HALVES = false;

fn load_scales(row: u32, b: u32) -> vec4<f32> {
    let at = (row * (params.blocks / 8u) + b / 8u) * 5u;
    let d = unpack2x16float(scales[at]);
    let bytes = scales[at + 1u + (b % 8u) / 2u] >> (16u * (b & 1u));
    let scale = d.x * f32(bytes & 0xffu);
    let minimum = -d.y * f32((bytes >> 8u) & 0xffu);
    return vec4<f32>(scale, minimum, scale, minimum);
}
