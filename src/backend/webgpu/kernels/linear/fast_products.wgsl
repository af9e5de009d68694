// fast_products.wgsl: a block of four rows of w times a block of quantized x
//
// Needs     planes/codes.wgsl, block_*.wgsl; pairs_*.wgsl or bytes.wgsl
struct Quantized {
    first: Half,
    second: Half,
    scales: vec4<f32>, // scale, sums over both halves
}

// What load_block gives, unpacked once for all products with it.
struct Bytes {
    low: vec4<u32>,
    high: vec4<u32>,
    scales: vec4<f32>,
}

fn load_bytes(row: u32, b: u32) -> Bytes {
    let block = load_block(row, b);
    return Bytes(low_bytes(block), high_bytes(block), block_scales(block));
}

fn half_products(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>, x: Half) -> vec4<i32> {
    return vec4<i32>(
        half_product(a, x),
        half_product(b, x),
        half_product(c, x),
        half_product(d, x),
    );
}

fn block_products(w0: Bytes, w1: Bytes, w2: Bytes, w3: Bytes, x: Quantized) -> vec4<f32> {
    let first = half_products(w0.low, w1.low, w2.low, w3.low, x.first);
    let second = half_products(w0.high, w1.high, w2.high, w3.high, x.second);
    let scale = vec4<f32>(w0.scales.x, w1.scales.x, w2.scales.x, w3.scales.x);
    let minimum = vec4<f32>(w0.scales.y, w1.scales.y, w2.scales.y, w3.scales.y);
    if HALVES {
        let scale_2 = vec4<f32>(w0.scales.z, w1.scales.z, w2.scales.z, w3.scales.z);
        let minimum_2 = vec4<f32>(w0.scales.w, w1.scales.w, w2.scales.w, w3.scales.w);
        let sums = vec4<f32>(first) * scale + vec4<f32>(second) * scale_2;
        return x.scales.x * sums + (x.scales.y * minimum + x.scales.z * minimum_2);
    }
    return (x.scales.x * scale) * vec4<f32>(first + second)
        + (x.scales.y + x.scales.z) * minimum;
}
