// embed.wgsl: y[t] = scale * w[id of row t]
//
// Shapes    w: [V, C] in planes; y: [T, C] f32
// Dispatch  (ceil(C / 32 / WG_SIZE), T, 1): a block of 32 an invocation, once a piece of w
// Limits    C >= 1; ids below V
// Numerics  f32, one rounding more than the plain dequantizer; NMSE <= 1e-10
// Twin      kernels/embed.rs::plain
// Params    kernels/embed.rs::Params
// Needs     WG_SIZE; common/step.wgsl; planes
struct Params {
    blocks: u32, // blocks of 32 in a row of weights
    rows: u32, // rows of the piece
    first_row: u32, // first row of the piece in the matrix
    width: u32, // C, elements
    y_stride: u32, // elements
    scale: f32,
}

@group(0) @binding(4) var<storage, read> ring: array<u32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;

const RING_SLOT_WORDS: u32 = 64u;

fn store(at: u32, c: u32, quad: vec4<f32>) {
    if c < params.width {
        y[at + c] = quad.x;
    }
    if c + 1u < params.width {
        y[at + c + 1u] = quad.y;
    }
    if c + 2u < params.width {
        y[at + c + 2u] = quad.z;
    }
    if c + 3u < params.width {
        y[at + c + 3u] = quad.w;
    }
}

@compute @workgroup_size(WG_SIZE)
fn embed(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let b = invocation.x;
    let t = invocation.y;
    if b >= params.blocks || t >= step_rows() {
        return;
    }
    var id = row_id(t);
    if t == 0u && step_ring_slot() != IDS_GIVEN {
        id = ring[step_ring_slot() * RING_SLOT_WORDS];
    }
    // Other pieces have the other rows.
    if id < params.first_row || id - params.first_row >= params.rows {
        return;
    }
    let block = load_block(id - params.first_row, b);
    let scales = block_scales(block);
    let first = PLACES * scales.x;
    let second = PLACES * scales.z;
    let at = t * params.y_stride;
    let c = 32u * b;
    store(at, c, params.scale * (quad_0(block) * first + scales.y));
    store(at, c + 4u, params.scale * (quad_1(block) * first + scales.y));
    store(at, c + 8u, params.scale * (quad_2(block) * first + scales.y));
    store(at, c + 12u, params.scale * (quad_3(block) * first + scales.y));
    store(at, c + 16u, params.scale * (quad_4(block) * second + scales.w));
    store(at, c + 20u, params.scale * (quad_5(block) * second + scales.w));
    store(at, c + 24u, params.scale * (quad_6(block) * second + scales.w));
    store(at, c + 28u, params.scale * (quad_7(block) * second + scales.w));
}
