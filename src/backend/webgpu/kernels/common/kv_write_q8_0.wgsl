// kv_write_q8_0.wgsl: rows of the cache in 8-bit integers, four a word, then one f32 for each
// 32 of them: their largest magnitude
//
// Needs     QUADS
@group(0) @binding(2) var<storage, read_write> cache: array<u32>;

const ROW_WORDS: u32 = QUADS + (QUADS + 7u) / 8u;

// Whether `largest` has to be that of the 32 elements around the quad.
const NEEDS_LARGEST: bool = true;

fn kv_store(row: u32, quad: u32, values: vec4<f32>, largest: f32) {
    let first = row * ROW_WORDS;
    // Subnormal magnitudes count as nothing: their reciprocal would not be finite.
    let scale = select(0.0, 1.0 / largest, largest > 1e-30);
    cache[first + quad] = pack4x8snorm(values * scale);
    if quad % 8u == 0u {
        cache[first + QUADS + quad / 8u] = bitcast<u32>(largest);
    }
}
