// gemm.wgsl: y[t,n] = finish(sum_k x[t,k] * w[n,k]), a workgroup for 64 rows of w and 64 of x,
// 4 by 4 of them an invocation; a block of 32 columns at a time is dequantized once into
// workgroup memory
//
// Shapes    x: [T, K] f32; w: [N, K] in planes; y: [T, N] f32
// Dispatch  (ceil(quarter / 16), ceil(T / 64), 1)
// Limits    K >= 1, N >= 1; 256 invocations and 16 KiB of workgroup memory
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/linear/params.rs::Params
// Needs     common/step.wgsl; params, rows_*, finish_*.wgsl; planes
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(8) var<uniform> params: Params;

const TILE: u32 = 64u;
const QUADS: u32 = 8u;

var<workgroup> w_tile: array<vec4<f32>, TILE * QUADS>;
var<workgroup> x_tile: array<vec4<f32>, TILE * QUADS>;

// Place of a quad. Neighbouring rows are read at once, so their quads go to other banks.
fn tile_place(row: u32, quad: u32) -> u32 {
    return row * QUADS + (quad ^ (row & 7u));
}

fn add_product(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// A row of x with four rows of w.
fn add_row(sums: vec4<f32>, w: mat4x4<f32>, own: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(
        add_product(sums.x, w[0], own),
        add_product(sums.y, w[1], own),
        add_product(sums.z, w[2], own),
        add_product(sums.w, w[3], own),
    );
}

@compute @workgroup_size(256)
fn linear_gemm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let across = lane % 16u;
    let down = lane / 16u;
    let n = 16u * group.x + across;
    let t = TILE * group.y + down;
    // What the lane loads: a quarter of a block of w, two quads of x.
    let slot = lane / 4u;
    let part = lane % 4u;
    let w_row = rows_of(16u * group.x + slot % 16u)[slot / 16u];
    let x_row = min(TILE * group.y + slot + first_input_row(), step_rows() - 1u)
        * (params.x_stride / 4u);
    var first = vec4<f32>();
    var second = vec4<f32>();
    var third = vec4<f32>();
    var fourth = vec4<f32>();
    for (var b = 0u; b < params.blocks; b++) {
        let pair = load_pair(w_row, b, part);
        let x_first = x[x_row + 8u * b + part];
        let x_second = x[x_row + 8u * b + part + 4u];
        workgroupBarrier();
        w_tile[tile_place(slot, part)] = pair.first;
        w_tile[tile_place(slot, part + 4u)] = pair.second;
        x_tile[tile_place(slot, part)] = x_first;
        x_tile[tile_place(slot, part + 4u)] = x_second;
        workgroupBarrier();
        for (var q = 0u; q < QUADS; q++) {
            let w = mat4x4<f32>(
                w_tile[tile_place(across, q)],
                w_tile[tile_place(across + 16u, q)],
                w_tile[tile_place(across + 32u, q)],
                w_tile[tile_place(across + 48u, q)],
            );
            first = add_row(first, w, x_tile[tile_place(down, q)]);
            second = add_row(second, w, x_tile[tile_place(down + 16u, q)]);
            third = add_row(third, w, x_tile[tile_place(down + 32u, q)]);
            fourth = add_row(fourth, w, x_tile[tile_place(down + 48u, q)]);
        }
    }
    let last = output_rows();
    if n < params.quarter {
        if t < last {
            finish(t, n, first);
        }
        if t + 16u < last {
            finish(t + 16u, n, second);
        }
        if t + 32u < last {
            finish(t + 32u, n, third);
        }
        if t + 48u < last {
            finish(t + 48u, n, fourth);
        }
    }
}
