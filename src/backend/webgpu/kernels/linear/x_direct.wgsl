// x_direct.wgsl: activations, loaded by every invocation that needs them
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

// A block of 32 elements, the first quad at `at`.
fn load_quads(at: u32, lane: u32) -> Quads {
    return Quads(
        x[at],
        x[at + 1u],
        x[at + 2u],
        x[at + 3u],
        x[at + 4u],
        x[at + 5u],
        x[at + 6u],
        x[at + 7u],
    );
}

// The same times PLACES.
fn load_placed_quads(at: u32, lane: u32) -> Quads {
    let places = PLACES;
    return Quads(
        x[at] * places,
        x[at + 1u] * places,
        x[at + 2u] * places,
        x[at + 3u] * places,
        x[at + 4u] * places,
        x[at + 5u] * places,
        x[at + 6u] * places,
        x[at + 7u] * places,
    );
}

// Where eight rows of x are.
struct TileRows {
    low: vec4<u32>,
    high: vec4<u32>,
}

// Four rows of x from row `first` on, as load_quad_of wants them; none is past `last`.
fn four_rows(first: u32, last: u32, lane: u32) -> vec4<u32> {
    return min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(last))
        * (params.x_stride / 4u);
}

// The same quad of four rows.
fn load_quad_of(rows: vec4<u32>, quad: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        x[rows.x + quad],
        x[rows.y + quad],
        x[rows.z + quad],
        x[rows.w + quad],
    );
}
