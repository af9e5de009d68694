// codes_6.wgsl: blocks of 6-bit codes
//
// Needs     codes.wgsl, block_bytes.wgsl; scales_*.wgsl::load_scales; params.blocks,
//           blocks of a row
@group(0) @binding(3) var<storage, read> high_bits: array<u32>;

fn load_block(row: u32, b: u32) -> Block {
    let at = row * params.blocks + b;
    let words = codes[at];
    let pair = vec2<u32>(high_bits[2u * at], high_bits[2u * at + 1u]);
    let shifts = vec4<u32>(0u, 2u, 4u, 6u);
    let twos = vec4<u32>(0x03030303u);
    let mask = vec4<u32>(0x0f0f0f0fu);
    return Block(
        (words & mask) | (((pair.xxxx >> shifts) & twos) << vec4<u32>(4u)),
        ((words >> vec4<u32>(4u)) & mask) | (((pair.yyyy >> shifts) & twos) << vec4<u32>(4u)),
        load_scales(row, b),
    );
}
