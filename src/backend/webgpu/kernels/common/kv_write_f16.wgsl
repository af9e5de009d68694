// kv_write_f16.wgsl: rows of the cache in 16-bit floats, two a word
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read_write> cache: array<vec2<u32>>;

// Whether `largest` has to be that of the 32 elements around the quad.
const NEEDS_LARGEST: bool = false;

fn kv_store(row: u32, quad: u32, values: vec4<f32>, largest: f32) {
    // What does not fit would become an infinity, and that a NaN.
    let fitting = clamp(values, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    cache[row * QUADS + quad] = vec2<u32>(pack2x16float(fitting.xy), pack2x16float(fitting.zw));
}
