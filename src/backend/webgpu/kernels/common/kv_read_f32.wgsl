// kv_read_f32.wgsl: rows of the cache in 32-bit floats
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read> cache: array<vec4<f32>>;

fn kv_quad(row: u32, quad: u32) -> vec4<f32> {
    return cache[row * QUADS + quad];
}
