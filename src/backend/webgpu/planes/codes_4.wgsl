// codes_4.wgsl: blocks of 4-bit codes
//
// Needs     codes.wgsl; scales_*.wgsl::load_scales; params.blocks, blocks of a row
fn load_block(row: u32, b: u32) -> Block {
    let words = codes[row * params.blocks + b];
    let mask = vec4<u32>(0x0f0f0f0fu);
    return Block(words & mask, (words >> vec4<u32>(4u)) & mask, load_scales(row, b));
}
