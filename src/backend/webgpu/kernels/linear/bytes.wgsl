// bytes.wgsl: 16 codes times 16 signed bytes, four at a time
//
// Needs     the packed dot product; BIAS, of codes of 8 bits: 0x80808080, otherwise 0
struct Half {
    words: vec4<u32>,
}

fn half_product(codes: vec4<u32>, x: Half) -> i32 {
    // Flipping the top bit takes a bias of 128 off.
    let own = codes ^ vec4<u32>(BIAS);
    return (dot4I8Packed(own.x, x.words.x) + dot4I8Packed(own.y, x.words.y))
        + (dot4I8Packed(own.z, x.words.z) + dot4I8Packed(own.w, x.words.w));
}
