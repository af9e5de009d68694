// tiles.wgsl: y[t,n] = finish(sum_k x[t,k] * w[n,k]), four rows of w and eight of x an
// invocation, no barrier: for several rows of x on processors that play a GPU
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (ceil(quarter / WG_SIZE), ceil(T / 8), 1)
// Limits    K >= 1, N >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params, rows_*, x_*, finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

// Products with rows 0 to 3 and 4 to 7 of x: a column a row of w, an element a row of x.
struct Products {
    low: mat4x4<f32>,
    high: mat4x4<f32>,
}

// Quads of four rows of w with the same quad of eight rows of x.
fn add_quads(sums: Products, rows: TileRows, quad: u32, w: mat4x4<f32>) -> Products {
    let low = load_quad_of(rows.low, quad);
    let high = load_quad_of(rows.high, quad);
    return Products(
        mat4x4<f32>(
            sums.low[0] + w[0] * low,
            sums.low[1] + w[1] * low,
            sums.low[2] + w[2] * low,
            sums.low[3] + w[3] * low,
        ),
        mat4x4<f32>(
            sums.high[0] + w[0] * high,
            sums.high[1] + w[1] * high,
            sums.high[2] + w[2] * high,
            sums.high[3] + w[3] * high,
        ),
    );
}

fn finish_four(t: u32, n: u32, products: mat4x4<f32>) {
    let values = transpose(products);
    let last = output_rows();
    if t < last {
        finish(t, n, values[0]);
    }
    if t + 1u < last {
        finish(t + 1u, n, values[1]);
    }
    if t + 2u < last {
        finish(t + 2u, n, values[2]);
    }
    if t + 3u < last {
        finish(t + 3u, n, values[3]);
    }
}

@compute @workgroup_size(WG_SIZE)
fn linear_tiles(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x * WG_SIZE + lane;
    let t = 8u * group.y;
    let rows = rows_of(n);
    let x_rows = TileRows(
        four_rows(t + first_input_row(), step_rows() - 1u, lane),
        four_rows(t + 4u + first_input_row(), step_rows() - 1u, lane),
    );
    var products = Products();
    for (var b = 0u; b < params.blocks; b++) {
        let w0 = load_block(rows.x, b);
        let w1 = load_block(rows.y, b);
        let w2 = load_block(rows.z, b);
        let w3 = load_block(rows.w, b);
        let s0 = block_scales(w0);
        let s1 = block_scales(w1);
        let s2 = block_scales(w2);
        let s3 = block_scales(w3);
        var place0 = PLACES * s0.x;
        var place1 = PLACES * s1.x;
        var place2 = PLACES * s2.x;
        var place3 = PLACES * s3.x;
        products = add_quads(products, x_rows, 8u * b + 0u, mat4x4<f32>(
            quad_0(w0) * place0 + s0.y,
            quad_0(w1) * place1 + s1.y,
            quad_0(w2) * place2 + s2.y,
            quad_0(w3) * place3 + s3.y,
        ));
        products = add_quads(products, x_rows, 8u * b + 1u, mat4x4<f32>(
            quad_1(w0) * place0 + s0.y,
            quad_1(w1) * place1 + s1.y,
            quad_1(w2) * place2 + s2.y,
            quad_1(w3) * place3 + s3.y,
        ));
        products = add_quads(products, x_rows, 8u * b + 2u, mat4x4<f32>(
            quad_2(w0) * place0 + s0.y,
            quad_2(w1) * place1 + s1.y,
            quad_2(w2) * place2 + s2.y,
            quad_2(w3) * place3 + s3.y,
        ));
        products = add_quads(products, x_rows, 8u * b + 3u, mat4x4<f32>(
            quad_3(w0) * place0 + s0.y,
            quad_3(w1) * place1 + s1.y,
            quad_3(w2) * place2 + s2.y,
            quad_3(w3) * place3 + s3.y,
        ));
        place0 = PLACES * s0.z;
        place1 = PLACES * s1.z;
        place2 = PLACES * s2.z;
        place3 = PLACES * s3.z;
        products = add_quads(products, x_rows, 8u * b + 4u, mat4x4<f32>(
            quad_4(w0) * place0 + s0.w,
            quad_4(w1) * place1 + s1.w,
            quad_4(w2) * place2 + s2.w,
            quad_4(w3) * place3 + s3.w,
        ));
        products = add_quads(products, x_rows, 8u * b + 5u, mat4x4<f32>(
            quad_5(w0) * place0 + s0.w,
            quad_5(w1) * place1 + s1.w,
            quad_5(w2) * place2 + s2.w,
            quad_5(w3) * place3 + s3.w,
        ));
        products = add_quads(products, x_rows, 8u * b + 6u, mat4x4<f32>(
            quad_6(w0) * place0 + s0.w,
            quad_6(w1) * place1 + s1.w,
            quad_6(w2) * place2 + s2.w,
            quad_6(w3) * place3 + s3.w,
        ));
        products = add_quads(products, x_rows, 8u * b + 7u, mat4x4<f32>(
            quad_7(w0) * place0 + s0.w,
            quad_7(w1) * place1 + s1.w,
            quad_7(w2) * place2 + s2.w,
            quad_7(w3) * place3 + s3.w,
        ));
    }
    if n < params.quarter {
        finish_four(t, n, products.low);
        finish_four(t + 4u, n, products.high);
    }
}
