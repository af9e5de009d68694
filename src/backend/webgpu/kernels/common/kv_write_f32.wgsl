// kv_write_f32.wgsl: rows of the cache in 32-bit floats
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read_write> cache: array<vec4<f32>>;

// Whether `largest` has to be that of the 32 elements around the quad.
const NEEDS_LARGEST: bool = false;

fn kv_store(row: u32, quad: u32, values: vec4<f32>, largest: f32) {
    cache[row * QUADS + quad] = values;
}
