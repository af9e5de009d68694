// block_nibbles.wgsl: a block of 4-bit codes as the plane has them, quads j and j + 4 in word j
//
// Needs     codes.wgsl
struct Block {
    words: vec4<u32>,
    scales: vec4<f32>,
}

const PLACES = vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 0.000000059604644775390625);

fn low_bytes(block: Block) -> vec4<u32> { return block.words & vec4<u32>(0x0f0f0f0fu); }
fn high_bytes(block: Block) -> vec4<u32> {
    return (block.words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
}

fn spread(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(
        word & 0xfu,
        word & 0xf00u,
        word & 0xf0000u,
        word & 0xf000000u,
    )));
}

fn quad_0(block: Block) -> vec4<f32> { return spread(block.words.x); }
fn quad_1(block: Block) -> vec4<f32> { return spread(block.words.y); }
fn quad_2(block: Block) -> vec4<f32> { return spread(block.words.z); }
fn quad_3(block: Block) -> vec4<f32> { return spread(block.words.w); }
fn quad_4(block: Block) -> vec4<f32> { return spread(block.words.x >> 4u); }
fn quad_5(block: Block) -> vec4<f32> { return spread(block.words.y >> 4u); }
fn quad_6(block: Block) -> vec4<f32> { return spread(block.words.z >> 4u); }
fn quad_7(block: Block) -> vec4<f32> { return spread(block.words.w >> 4u); }
