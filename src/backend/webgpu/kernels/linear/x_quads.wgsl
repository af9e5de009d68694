// x_quads.wgsl: activations, each loaded by one of four invocations that share them: a
// processor that plays a GPU loads for each invocation by itself, and that costs more than the
// products
//
// Needs     subgroups of 4 lanes or more, whose lanes follow one another; every lane calls
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;

struct Quads {
    x0: vec4<f32>,
    x1: vec4<f32>,
    x2: vec4<f32>,
    x3: vec4<f32>,
    x4: vec4<f32>,
    x5: vec4<f32>,
    x6: vec4<f32>,
    x7: vec4<f32>,
}

fn share(own: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        quadBroadcast(own, 0u),
        quadBroadcast(own, 1u),
        quadBroadcast(own, 2u),
        quadBroadcast(own, 3u),
    );
}

// A block of 32 elements, the first quad at `at`.
fn load_quads(at: u32, lane: u32) -> Quads {
    let own = at + (lane & 3u);
    let first = share(x[own]);
    let second = share(x[own + 4u]);
    return Quads(
        first[0],
        first[1],
        first[2],
        first[3],
        second[0],
        second[1],
        second[2],
        second[3],
    );
}

// The same times PLACES.
fn load_placed_quads(at: u32, lane: u32) -> Quads {
    let own = at + (lane & 3u);
    let first = share(x[own] * PLACES);
    let second = share(x[own + 4u] * PLACES);
    return Quads(
        first[0],
        first[1],
        first[2],
        first[3],
        second[0],
        second[1],
        second[2],
        second[3],
    );
}

// Where eight rows of x are.
struct TileRows {
    low: u32,
    high: u32,
}

// Four rows of x from row `first` on, as load_quad_of wants them; none is past `last`.
fn four_rows(first: u32, last: u32, lane: u32) -> u32 {
    return min(first + (lane & 3u), last) * (params.x_stride / 4u);
}

// The same quad of four rows.
fn load_quad_of(own_row: u32, quad: u32) -> mat4x4<f32> {
    return share(x[own_row + quad]);
}
