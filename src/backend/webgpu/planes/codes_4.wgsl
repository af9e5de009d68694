// codes_4.wgsl: blocks of 4-bit codes
//
// Needs     codes.wgsl, block_nibbles.wgsl; scales_*.wgsl::load_scales; params.blocks, blocks of a
//           row
fn load_block(row: u32, b: u32) -> Block {
    return Block(codes[row * params.blocks + b], load_scales(row, b));
}
