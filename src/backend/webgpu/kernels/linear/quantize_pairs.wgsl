// quantize_pairs.wgsl: two elements a word, as the numbers q2 + 65536 q0 and q3 + 65536 q1 of a
// quad: the upper half of such a number times c0 + 65536 c2 is c0 q0 + c2 q2
const BLOCK_VECTORS: u32 = 5u;

fn store_half(
    place: u32,
    half: u32,
    a: vec4<i32>,
    b: vec4<i32>,
    c: vec4<i32>,
    d: vec4<i32>,
) {
    let even = vec4<i32>(a.z, b.z, c.z, d.z) + 65536 * vec4<i32>(a.x, b.x, c.x, d.x);
    let odd = vec4<i32>(a.w, b.w, c.w, d.w) + 65536 * vec4<i32>(a.y, b.y, c.y, d.y);
    quantized[place + 2u * half] = bitcast<vec4<u32>>(even);
    quantized[place + 2u * half + 1u] = bitcast<vec4<u32>>(odd);
}
