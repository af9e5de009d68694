// kv_read_f16.wgsl: rows of the cache in 16-bit floats, two a word
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read> cache: array<vec2<u32>>;

fn kv_quad(row: u32, quad: u32) -> vec4<f32> {
    let words = cache[row * QUADS + quad];
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
