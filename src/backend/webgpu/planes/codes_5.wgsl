// codes_5.wgsl: blocks of 5-bit codes
//
// Needs     codes.wgsl, block_bytes.wgsl; scales_*.wgsl::load_scales; params.blocks,
//           blocks of a row
@group(0) @binding(3) var<storage, read> high_bits: array<u32>;

fn load_block(row: u32, b: u32) -> Block {
    let words = codes[row * params.blocks + b];
    let fifths = vec4<u32>(high_bits[row * params.blocks + b]);
    let mask = vec4<u32>(0x0f0f0f0fu);
    let ones = vec4<u32>(0x01010101u);
    let low = ((fifths >> vec4<u32>(0u, 1u, 2u, 3u)) & ones) << vec4<u32>(4u);
    let high = ((fifths >> vec4<u32>(4u, 5u, 6u, 7u)) & ones) << vec4<u32>(4u);
    return Block(
        (words & mask) | low,
        ((words >> vec4<u32>(4u)) & mask) | high,
        load_scales(row, b),
    );
}
