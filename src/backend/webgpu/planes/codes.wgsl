// codes.wgsl: a block of 32 small integers with scales
//
// Element 16 h + i is scales[2 h] * code + scales[2 h + 1]. Quads are 4 elements, times the
// inverse of PLACES: bytes are not moved down, which saves a shift an element, and a power of
// two changes no rounding. Sums of products with quads are multiplied with PLACES once.
//
// load_pair gives two dequantized quads, p and p + 4, of a block.
//
// Needs     bindings 1 to 3; codes_*.wgsl::load_block
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;

const PLACES = vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 1.0);

struct Block {
    low: vec4<u32>, // quads 0 to 3, a byte an element
    high: vec4<u32>, // quads 4 to 7
    scales: vec4<f32>,
}

// The sign bit stays clear, so that the cheaper signed conversion may be taken.
fn spread(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(
        word & 0xffu,
        word & 0xff00u,
        word & 0xff0000u,
        word >> 24u,
    )));
}

fn quad_0(block: Block) -> vec4<f32> { return spread(block.low.x); }
fn quad_1(block: Block) -> vec4<f32> { return spread(block.low.y); }
fn quad_2(block: Block) -> vec4<f32> { return spread(block.low.z); }
fn quad_3(block: Block) -> vec4<f32> { return spread(block.low.w); }
fn quad_4(block: Block) -> vec4<f32> { return spread(block.high.x); }
fn quad_5(block: Block) -> vec4<f32> { return spread(block.high.y); }
fn quad_6(block: Block) -> vec4<f32> { return spread(block.high.z); }
fn quad_7(block: Block) -> vec4<f32> { return spread(block.high.w); }

fn block_scales(block: Block) -> vec4<f32> { return block.scales; }

struct Pair {
    first: vec4<f32>,
    second: vec4<f32>,
}

fn load_pair(row: u32, b: u32, p: u32) -> Pair {
    let block = load_block(row, b);
    let places = PLACES;
    return Pair(
        spread(block.low[p]) * places * block.scales.x + block.scales.y,
        spread(block.high[p]) * places * block.scales.z + block.scales.w,
    );
}
