// cooperative_4.wgsl: cooperative.wgsl for four rows of x, whose blocks of weights are read once
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (quarter, ceil(T / 4), 1)
// Limits    K >= 1, N >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; SUMS = 5; common/step.wgsl; params, rows_*, x_direct, norm_*, reduce_*,
//           finish_*.wgsl; planes
@group(0) @binding(8) var<uniform> params: Params;

// Products of four rows of w, an element a row of x, and the squares of those.
struct Sums {
    products: mat4x4<f32>,
    squares: vec4<f32>,
}

fn add_four(sums: Sums, rows: vec4<u32>, quad: u32, w: mat4x4<f32>) -> Sums {
    var x = load_quad_of(rows, quad);
    let squares = vec4<f32>(
        dot(x[0], x[0]),
        dot(x[1], x[1]),
        dot(x[2], x[2]),
        dot(x[3], x[3]),
    );
    x = mat4x4<f32>(gain(quad, x[0]), gain(quad, x[1]), gain(quad, x[2]), gain(quad, x[3]));
    return Sums(
        mat4x4<f32>(
            sums.products[0] + w[0] * x,
            sums.products[1] + w[1] * x,
            sums.products[2] + w[2] * x,
            sums.products[3] + w[3] * x,
        ),
        sums.squares + squares,
    );
}

@compute @workgroup_size(WG_SIZE)
fn linear_cooperative_4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = group.x;
    let t = 4u * group.y;
    let rows = rows_of(n);
    let x_rows = four_rows(t + first_input_row(), step_rows() - 1u, lane);
    var sums = Sums();
    for (var b = lane; b < params.blocks; b += WG_SIZE) {
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
        sums = add_four(sums, x_rows, 8u * b + 0u, mat4x4<f32>(
            quad_0(w0) * place0 + s0.y,
            quad_0(w1) * place1 + s1.y,
            quad_0(w2) * place2 + s2.y,
            quad_0(w3) * place3 + s3.y,
        ));
        sums = add_four(sums, x_rows, 8u * b + 1u, mat4x4<f32>(
            quad_1(w0) * place0 + s0.y,
            quad_1(w1) * place1 + s1.y,
            quad_1(w2) * place2 + s2.y,
            quad_1(w3) * place3 + s3.y,
        ));
        sums = add_four(sums, x_rows, 8u * b + 2u, mat4x4<f32>(
            quad_2(w0) * place0 + s0.y,
            quad_2(w1) * place1 + s1.y,
            quad_2(w2) * place2 + s2.y,
            quad_2(w3) * place3 + s3.y,
        ));
        sums = add_four(sums, x_rows, 8u * b + 3u, mat4x4<f32>(
            quad_3(w0) * place0 + s0.y,
            quad_3(w1) * place1 + s1.y,
            quad_3(w2) * place2 + s2.y,
            quad_3(w3) * place3 + s3.y,
        ));
        place0 = PLACES * s0.z;
        place1 = PLACES * s1.z;
        place2 = PLACES * s2.z;
        place3 = PLACES * s3.z;
        sums = add_four(sums, x_rows, 8u * b + 4u, mat4x4<f32>(
            quad_4(w0) * place0 + s0.w,
            quad_4(w1) * place1 + s1.w,
            quad_4(w2) * place2 + s2.w,
            quad_4(w3) * place3 + s3.w,
        ));
        sums = add_four(sums, x_rows, 8u * b + 5u, mat4x4<f32>(
            quad_5(w0) * place0 + s0.w,
            quad_5(w1) * place1 + s1.w,
            quad_5(w2) * place2 + s2.w,
            quad_5(w3) * place3 + s3.w,
        ));
        sums = add_four(sums, x_rows, 8u * b + 6u, mat4x4<f32>(
            quad_6(w0) * place0 + s0.w,
            quad_6(w1) * place1 + s1.w,
            quad_6(w2) * place2 + s2.w,
            quad_6(w3) * place3 + s3.w,
        ));
        sums = add_four(sums, x_rows, 8u * b + 7u, mat4x4<f32>(
            quad_7(w0) * place0 + s0.w,
            quad_7(w1) * place1 + s1.w,
            quad_7(w2) * place2 + s2.w,
            quad_7(w3) * place3 + s3.w,
        ));
    }
    let own = sums.products;
    let all = reduce(
        lane,
        array<vec4<f32>, SUMS>(own[0], own[1], own[2], own[3], sums.squares),
    );
    if lane == 0u {
        let values = transpose(mat4x4<f32>(all[0], all[1], all[2], all[3]));
        let last = output_rows();
        if t < last {
            finish(t, n, norm_scale(all[4].x) * values[0]);
        }
        if t + 1u < last {
            finish(t + 1u, n, norm_scale(all[4].y) * values[1]);
        }
        if t + 2u < last {
            finish(t + 2u, n, norm_scale(all[4].z) * values[2]);
        }
        if t + 3u < last {
            finish(t + 3u, n, norm_scale(all[4].w) * values[3]);
        }
    }
}
