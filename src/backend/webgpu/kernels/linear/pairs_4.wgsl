// pairs_4.wgsl: 16 codes of at most 4 bits times 16 signed bytes, two at a time: a product of
// two packed numbers has the sum of two products in its upper half, and in its lower half a
// product of no use. Over 16 elements neither leaves its half (16 * 15 * 127 < 32768), and
// 32768 more make the shift exact where the lower one is negative.
struct Half {
    even: vec4<u32>,
    odd: vec4<u32>,
}

const FIELDS = vec4<u32>(0x00ff00ffu);

fn half_product(codes: vec4<u32>, x: Half) -> i32 {
    let products = (codes & FIELDS) * x.even + ((codes >> vec4<u32>(8u)) & FIELDS) * x.odd;
    let sum = (products.x + products.y) + (products.z + products.w);
    return bitcast<i32>(sum + 0x8000u) >> 16u;
}
