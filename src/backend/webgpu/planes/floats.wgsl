// floats.wgsl: a block of 32 floats, with the functions of codes.wgsl
//
// Needs     binding 1; floats_*.wgsl::load_block, load_pair
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;

const PLACES = vec4<f32>(1.0);
const HALVES = false;

struct Block {
    quad_0: vec4<f32>,
    quad_1: vec4<f32>,
    quad_2: vec4<f32>,
    quad_3: vec4<f32>,
    quad_4: vec4<f32>,
    quad_5: vec4<f32>,
    quad_6: vec4<f32>,
    quad_7: vec4<f32>,
}

fn quad_0(block: Block) -> vec4<f32> { return block.quad_0; }
fn quad_1(block: Block) -> vec4<f32> { return block.quad_1; }
fn quad_2(block: Block) -> vec4<f32> { return block.quad_2; }
fn quad_3(block: Block) -> vec4<f32> { return block.quad_3; }
fn quad_4(block: Block) -> vec4<f32> { return block.quad_4; }
fn quad_5(block: Block) -> vec4<f32> { return block.quad_5; }
fn quad_6(block: Block) -> vec4<f32> { return block.quad_6; }
fn quad_7(block: Block) -> vec4<f32> { return block.quad_7; }

fn block_scales(block: Block) -> vec4<f32> { return vec4<f32>(1.0, 0.0, 1.0, 0.0); }

struct Pair {
    first: vec4<f32>,
    second: vec4<f32>,
}
