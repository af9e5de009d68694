// tiles.wgsl: rows.wgsl for four rows of x at a time: a block of weights is unpacked once for
// all four
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32; sums: [T, B] pairs of f32
// Dispatch  (ceil(pairs / WG_SIZE), ceil(T / 4), 1)
// Limits    K >= 1, N >= 1
// Numerics  f32, integer codes summed before they are scaled; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, block_product, finish_*.wgsl; planes
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> sums: array<vec2<f32>>;
@group(0) @binding(8) var<uniform> params: Params;

struct Tile {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    minima: vec4<f32>,
}

// One quad of weights with one quad of four rows of x.
fn add_quad(tile: Tile, w: vec4<f32>, rows: vec4<u32>, quad: u32) -> Tile {
    return Tile(
        tile.a + w * x[rows.x + quad],
        tile.b + w * x[rows.y + quad],
        tile.c + w * x[rows.z + quad],
        tile.d + w * x[rows.w + quad],
        tile.minima,
    );
}

fn scaled(into: Tile, tile: Tile, scale: f32) -> Tile {
    return Tile(
        into.a + tile.a * scale,
        into.b + tile.b * scale,
        into.c + tile.c * scale,
        into.d + tile.d * scale,
        into.minima,
    );
}

fn add_block(into: Tile, block: Block, rows: vec4<u32>, first: mat4x2<f32>) -> Tile {
    let scales = block_scales(block);
    var tile = Tile();
    tile = add_quad(tile, quad_0(block), rows, 0u);
    tile = add_quad(tile, quad_1(block), rows, 1u);
    tile = add_quad(tile, quad_2(block), rows, 2u);
    tile = add_quad(tile, quad_3(block), rows, 3u);
    var sum = into;
    if HALVES {
        sum = scaled(sum, tile, scales.x);
        tile = Tile();
    }
    tile = add_quad(tile, quad_4(block), rows, 4u);
    tile = add_quad(tile, quad_5(block), rows, 5u);
    tile = add_quad(tile, quad_6(block), rows, 6u);
    tile = add_quad(tile, quad_7(block), rows, 7u);
    sum = scaled(sum, tile, scales.z);
    sum.minima += vec4<f32>(
        dot(first[0], scales.yw),
        dot(first[1], scales.yw),
        dot(first[2], scales.yw),
        dot(first[3], scales.yw),
    );
    return sum;
}

fn values(tile: Tile) -> vec4<f32> {
    let sums = vec4<f32>(
        dot(tile.a, PLACES),
        dot(tile.b, PLACES),
        dot(tile.c, PLACES),
        dot(tile.d, PLACES),
    );
    return sums + tile.minima;
}

@compute @workgroup_size(WG_SIZE)
fn linear_tiles(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = id.x;
    let last = output_rows();
    let t = 4u * id.y;
    if n >= output_columns() || t >= last {
        return;
    }
    let second_n = min(n + params.pair, params.rows - 1u);
    // Rows past the last are computed as the last and not stored.
    let inputs = first_input_row() + min(t + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last - 1u));
    let x_rows = inputs * (params.x_stride / 4u);
    let sums_rows = inputs * params.blocks;
    var first = Tile();
    var second = Tile();
    for (var b = 0u; b < params.blocks; b++) {
        let pairs = mat4x2<f32>(
            sums[sums_rows.x + b],
            sums[sums_rows.y + b],
            sums[sums_rows.z + b],
            sums[sums_rows.w + b],
        );
        first = add_block(first, load_block(n, b), x_rows + 8u * b, pairs);
        second = add_block(second, load_block(second_n, b), x_rows + 8u * b, pairs);
    }
    let a = values(first);
    let b = values(second);
    finish(t, n, a.x, b.x);
    if t + 1u < last {
        finish(t + 1u, n, a.y, b.y);
    }
    if t + 2u < last {
        finish(t + 2u, n, a.z, b.z);
    }
    if t + 3u < last {
        finish(t + 3u, n, a.w, b.w);
    }
}
