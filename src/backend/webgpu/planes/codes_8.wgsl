// codes_8.wgsl: blocks of 8-bit codes
//
// Needs     codes.wgsl, block_bytes.wgsl; scales_*.wgsl::load_scales; params.blocks,
//           blocks of a row
fn load_block(row: u32, b: u32) -> Block {
    let at = 2u * (row * params.blocks + b);
    return Block(codes[at], codes[at + 1u], load_scales(row, b));
}
