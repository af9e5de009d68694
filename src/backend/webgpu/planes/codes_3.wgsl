// codes_3.wgsl: blocks of 3-bit codes
//
// Needs     codes.wgsl, block_bytes.wgsl; scales_*.wgsl::load_scales; params.blocks,
//           an even number of blocks
@group(0) @binding(3) var<storage, read> high_bits: array<u32>;

fn load_block(row: u32, b: u32) -> Block {
    let words = codes[(row * params.blocks + b) / 2u];
    let thirds = vec4<u32>(high_bits[row * params.blocks + b]);
    let pair = select(words.xy, words.zw, (b & 1u) == 1u);
    let shifts = vec4<u32>(0u, 2u, 4u, 6u);
    let mask = vec4<u32>(0x03030303u);
    let ones = vec4<u32>(0x01010101u);
    let low = ((thirds >> vec4<u32>(0u, 1u, 2u, 3u)) & ones) << vec4<u32>(2u);
    let high = ((thirds >> vec4<u32>(4u, 5u, 6u, 7u)) & ones) << vec4<u32>(2u);
    return Block(
        ((pair.xxxx >> shifts) & mask) | low,
        ((pair.yyyy >> shifts) & mask) | high,
        load_scales(row, b),
    );
}
