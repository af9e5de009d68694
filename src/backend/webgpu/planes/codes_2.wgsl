// codes_2.wgsl: blocks of 2-bit codes
//
// Needs     codes.wgsl, block_bytes.wgsl; scales_*.wgsl::load_scales; params.blocks,
//           an even number of blocks
fn load_block(row: u32, b: u32) -> Block {
    let words = codes[(row * params.blocks + b) / 2u];
    let pair = select(words.xy, words.zw, (b & 1u) == 1u);
    let shifts = vec4<u32>(0u, 2u, 4u, 6u);
    let mask = vec4<u32>(0x03030303u);
    return Block(
        (pair.xxxx >> shifts) & mask,
        (pair.yyyy >> shifts) & mask,
        load_scales(row, b),
    );
}
