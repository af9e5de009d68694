// floats_bf16.wgsl: blocks of bf16, two in a word
//
// Needs     floats.wgsl; params.blocks, blocks of a row
fn widen(words: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(
        words.x << 16u,
        words.x & 0xffff0000u,
        words.y << 16u,
        words.y & 0xffff0000u,
    ));
}

fn load_block(row: u32, b: u32) -> Block {
    let at = 4u * (row * params.blocks + b);
    let first = codes[at];
    let second = codes[at + 1u];
    let third = codes[at + 2u];
    let fourth = codes[at + 3u];
    return Block(
        widen(first.xy),
        widen(first.zw),
        widen(second.xy),
        widen(second.zw),
        widen(third.xy),
        widen(third.zw),
        widen(fourth.xy),
        widen(fourth.zw),
    );
}

fn load_pair(row: u32, b: u32, p: u32) -> Pair {
    let at = 4u * (row * params.blocks + b) + p / 2u;
    let first = codes[at];
    let second = codes[at + 2u];
    let is_odd = (p & 1u) == 1u;
    return Pair(
        widen(select(first.xy, first.zw, is_odd)),
        widen(select(second.xy, second.zw, is_odd)),
    );
}
