// pairs_6.wgsl: pairs_4.wgsl for codes of at most 6 bits: 4 elements fit a half
// (4 * 63 * 127 < 32768)
struct Half {
    even: vec4<u32>,
    odd: vec4<u32>,
}

const FIELDS = vec4<u32>(0x00ff00ffu);

fn half_product(codes: vec4<u32>, x: Half) -> i32 {
    let products = (codes & FIELDS) * x.even + ((codes >> vec4<u32>(8u)) & FIELDS) * x.odd;
    let sums = bitcast<vec4<i32>>(products + vec4<u32>(0x8000u)) >> vec4<u32>(16u);
    return (sums.x + sums.y) + (sums.z + sums.w);
}
