// kv_read_q8_0.wgsl: rows of the cache in 8-bit integers, four a word, then one f32 for each
// 32 of them: their largest magnitude
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read> cache: array<u32>;

const ROW_WORDS: u32 = QUADS + (QUADS + 7u) / 8u;

fn kv_quad(row: u32, quad: u32) -> vec4<f32> {
    let first = row * ROW_WORDS;
    let largest = bitcast<f32>(cache[first + QUADS + quad / 8u]);
    return unpack4x8snorm(cache[first + quad]) * largest;
}
