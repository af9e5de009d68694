// pairs_8.wgsl: pairs_4.wgsl for codes of 8 bits, biased by 128: 2 elements fit a half once the
// bias is taken off (2 * 128 * 127 < 32768)
struct Half {
    even: vec4<u32>,
    odd: vec4<u32>,
}

const FIELDS = vec4<u32>(0x00ff00ffu);

fn exact(fields: vec4<u32>, x: vec4<u32>) -> vec4<i32> {
    let products = (fields - vec4<u32>(0x00800080u)) * x;
    return bitcast<vec4<i32>>(products + vec4<u32>(0x8000u)) >> vec4<u32>(16u);
}

fn half_product(codes: vec4<u32>, x: Half) -> i32 {
    let sums = exact(codes & FIELDS, x.even) + exact((codes >> vec4<u32>(8u)) & FIELDS, x.odd);
    return (sums.x + sums.y) + (sums.z + sums.w);
}
