// block_bytes.wgsl: a block as bytes, one an element
//
// Needs     codes.wgsl
struct Block {
    low: vec4<u32>, // quads 0 to 3
    high: vec4<u32>, // quads 4 to 7
    scales: vec4<f32>,
}

const PLACES = BYTE_PLACES;

fn low_bytes(block: Block) -> vec4<u32> { return block.low; }
fn high_bytes(block: Block) -> vec4<u32> { return block.high; }

fn quad_0(block: Block) -> vec4<f32> { return spread_bytes(block.low.x); }
fn quad_1(block: Block) -> vec4<f32> { return spread_bytes(block.low.y); }
fn quad_2(block: Block) -> vec4<f32> { return spread_bytes(block.low.z); }
fn quad_3(block: Block) -> vec4<f32> { return spread_bytes(block.low.w); }
fn quad_4(block: Block) -> vec4<f32> { return spread_bytes(block.high.x); }
fn quad_5(block: Block) -> vec4<f32> { return spread_bytes(block.high.y); }
fn quad_6(block: Block) -> vec4<f32> { return spread_bytes(block.high.z); }
fn quad_7(block: Block) -> vec4<f32> { return spread_bytes(block.high.w); }
