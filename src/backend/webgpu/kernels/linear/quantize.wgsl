// quantize.wgsl: x as signed bytes with a scale for each 32 elements: x = scale * q,
// scale = max|x| / 127
//
// Shapes    x: [T, K] f32, rows x_stride apart; quantized: [T, B] blocks of BLOCK_VECTORS
//           vectors, the last of which is scale, scale * sum of q over the first 16 and over
//           the last 16, 0
// Dispatch  (ceil(rows B / WG_SIZE), 1, 1)
// Limits    K >= 1
// Numerics  f32; a quotient near a half may round either way
// Twin      kernels/linear/case.rs::quantized
// Params    kernels/linear/params.rs::Params
// Needs     WG_SIZE; common/step.wgsl; params.wgsl; rows_*.wgsl; quantize_*.wgsl::store
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> quantized: array<vec4<u32>>;

fn largest(a: vec4<f32>) -> f32 {
    return max(max(a.x, a.y), max(a.z, a.w));
}

fn round_quad(value: vec4<f32>, inverse: f32) -> vec4<i32> {
    return vec4<i32>(round(value * inverse));
}

@compute @workgroup_size(WG_SIZE)
fn quantize(@builtin(global_invocation_id) id: vec3<u32>) {
    let t = id.x / params.blocks + first_input_row();
    let b = id.x % params.blocks;
    if t >= step_rows() {
        return;
    }
    let at = t * params.x_stride / 4u + 8u * b;
    let x0 = x[at];
    let x1 = x[at + 1u];
    let x2 = x[at + 2u];
    let x3 = x[at + 3u];
    let x4 = x[at + 4u];
    let x5 = x[at + 5u];
    let x6 = x[at + 6u];
    let x7 = x[at + 7u];
    let low = max(max(abs(x0), abs(x1)), max(abs(x2), abs(x3)));
    let high = max(max(abs(x4), abs(x5)), max(abs(x6), abs(x7)));
    let most = largest(max(low, high));
    // Below this the inverse overflows, and nothing is left of x.
    let inverse = select(0.0, 127.0 / most, most > 1e-30);
    let scale = most / 127.0;
    let q0 = round_quad(x0, inverse);
    let q1 = round_quad(x1, inverse);
    let q2 = round_quad(x2, inverse);
    let q3 = round_quad(x3, inverse);
    let q4 = round_quad(x4, inverse);
    let q5 = round_quad(x5, inverse);
    let q6 = round_quad(x6, inverse);
    let q7 = round_quad(x7, inverse);
    let first = (q0 + q1) + (q2 + q3);
    let second = (q4 + q5) + (q6 + q7);
    let place = (t * params.blocks + b) * BLOCK_VECTORS;
    store_half(place, 0u, q0, q1, q2, q3);
    store_half(place, 1u, q4, q5, q6, q7);
    quantized[place + BLOCK_VECTORS - 1u] = bitcast<vec4<u32>>(vec4<f32>(
        scale,
        scale * f32((first.x + first.y) + (first.z + first.w)),
        scale * f32((second.x + second.y) + (second.z + second.w)),
        0.0,
    ));
}
