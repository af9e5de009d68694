// scales_both.wgsl: f16 scale and minimum of a block in one word
//
// Needs     params.blocks
@group(0) @binding(2) var<storage, read> scales: array<u32>;

// Both halves of a block have the same scales.
const HALVES = false;

fn load_scales(row: u32, b: u32) -> vec4<f32> {
    return unpack2x16float(scales[row * params.blocks + b]).xyxy;
}
