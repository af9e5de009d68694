// quantize_bytes.wgsl: four elements a word, for dot4I8Packed
const BLOCK_VECTORS: u32 = 3u;

fn pack(q: vec4<i32>) -> u32 {
    let bytes = bitcast<vec4<u32>>(q) & vec4<u32>(0xffu);
    return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}

fn store_half(
    place: u32,
    half: u32,
    a: vec4<i32>,
    b: vec4<i32>,
    c: vec4<i32>,
    d: vec4<i32>,
) {
    quantized[place + half] = vec4<u32>(pack(a), pack(b), pack(c), pack(d));
}
