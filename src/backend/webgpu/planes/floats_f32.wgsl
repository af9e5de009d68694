// floats_f32.wgsl: blocks of f32
//
// Needs     floats.wgsl; params.blocks, blocks of a row
fn load_block(row: u32, b: u32) -> Block {
    let at = 8u * (row * params.blocks + b);
    return Block(
        bitcast<vec4<f32>>(codes[at]),
        bitcast<vec4<f32>>(codes[at + 1u]),
        bitcast<vec4<f32>>(codes[at + 2u]),
        bitcast<vec4<f32>>(codes[at + 3u]),
        bitcast<vec4<f32>>(codes[at + 4u]),
        bitcast<vec4<f32>>(codes[at + 5u]),
        bitcast<vec4<f32>>(codes[at + 6u]),
        bitcast<vec4<f32>>(codes[at + 7u]),
    );
}

fn load_pair(row: u32, b: u32, p: u32) -> Pair {
    let at = 8u * (row * params.blocks + b) + p;
    return Pair(bitcast<vec4<f32>>(codes[at]), bitcast<vec4<f32>>(codes[at + 4u]));
}
