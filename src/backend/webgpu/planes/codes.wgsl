// codes.wgsl: a block of 32 small integers with scales
//
// Element 16 h + i is scales[2 h] * code + scales[2 h + 1]. Quads are 4 elements, times the
// inverse of PLACES: codes are not moved down, which saves a shift an element, and a power of
// two changes no rounding. Sums of products with quads are multiplied with PLACES once.
//
// load_pair gives two dequantized quads, p and p + 4, of a block.
//
// Needs     bindings 1 to 3; codes_*.wgsl::load_block; block_*.wgsl
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;

fn block_scales(block: Block) -> vec4<f32> { return block.scales; }

struct Pair {
    first: vec4<f32>,
    second: vec4<f32>,
}

fn load_pair(row: u32, b: u32, p: u32) -> Pair {
    let block = load_block(row, b);
    let places = BYTE_PLACES;
    return Pair(
        spread_bytes(low_bytes(block)[p]) * places * block.scales.x + block.scales.y,
        spread_bytes(high_bytes(block)[p]) * places * block.scales.z + block.scales.w,
    );
}

const BYTE_PLACES = vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 1.0);

// The sign bit stays clear, so that the cheaper signed conversion may be taken.
fn spread_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(
        word & 0xffu,
        word & 0xff00u,
        word & 0xff0000u,
        word >> 24u,
    )));
}
