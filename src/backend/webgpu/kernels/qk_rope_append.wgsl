// qk_rope_append.wgsl: norm and rotation of query and key heads, keys and values to the cache
//
// Shapes    qkv: [T, (H + 2 G) D] f32, rows a stride apart, queries and keys changed in place;
//           q_gain, k_gain: [D]; rotations: [T, PAIRS] (cos, sin); cache: backend/webgpu/kv.rs
// Dispatch  (H + 2 G, T, 1): one workgroup a head and row
// Limits    2 PAIRS <= D <= 2048
// Numerics  f32; NMSE <= 1e-11 before the cache's own rounding
// Twin      kernels/qk_rope_append.rs::plain
// Params    kernels/qk_rope_append.rs::Params
// Needs     WG_SIZE, HEADS, KV_HEADS, HEAD_DIM, QUADS, PAIRS, ROPE_HALVES, NORM_Q, NORM_K;
//           common/step.wgsl, kv_rows.wgsl, kv_table_*.wgsl, kv_write_*.wgsl,
//           reduce_*.wgsl::workgroup_sum
// Source    Su et al. 2021, arXiv:2104.09864; Zhang & Sennrich 2019, arXiv:1910.07467
struct Params {
    stride: u32, // from row to row of qkv, elements
    q_eps: f32,
    k_eps: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(4) var<storage, read> q_gain: array<f32>;
@group(0) @binding(5) var<storage, read> k_gain: array<f32>;
@group(0) @binding(6) var<storage, read> rotations: array<vec2<f32>>;

// The head, zeros after D.
var<workgroup> row: array<f32, 4u * QUADS>;

fn norm_own(lane: u32, scale: f32, is_query: bool) {
    for (var d = lane; d < HEAD_DIM; d += WG_SIZE) {
        if is_query {
            row[d] *= scale * q_gain[d];
        } else {
            row[d] *= scale * k_gain[d];
        }
    }
}

fn largest_around(quad: u32) -> f32 {
    var largest = 0.0;
    let first = quad / 8u * 32u;
    for (var d = first; d < min(first + 32u, 4u * QUADS); d++) {
        largest = max(largest, abs(row[d]));
    }
    return largest;
}

@compute @workgroup_size(WG_SIZE)
fn qk_rope_append(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let head = group.x;
    let t = group.y;
    let is_query = head < HEADS;
    let is_key = !is_query && head < HEADS + KV_HEADS;
    let first = t * params.stride + head * HEAD_DIM;
    var squares = 0.0;
    for (var d = lane; d < 4u * QUADS; d += WG_SIZE) {
        var value = 0.0;
        if d < HEAD_DIM {
            value = qkv[first + d];
        }
        row[d] = value;
        squares += value * value;
    }
    if NORM_Q + NORM_K > 0u {
        let mean_square = workgroup_sum(lane, squares) / f32(HEAD_DIM);
        if is_query && NORM_Q == 1u {
            norm_own(lane, inverseSqrt(mean_square + params.q_eps), true);
        }
        if is_key && NORM_K == 1u {
            norm_own(lane, inverseSqrt(mean_square + params.k_eps), false);
        }
    }
    workgroupBarrier();
    if is_query || is_key {
        for (var pair = lane; pair < PAIRS; pair += WG_SIZE) {
            let a = select(2u * pair, pair, ROPE_HALVES == 1u);
            let b = select(2u * pair + 1u, pair + PAIRS, ROPE_HALVES == 1u);
            let turn = rotations[t * PAIRS + pair];
            let was = vec2<f32>(row[a], row[b]);
            row[a] = was.x * turn.x - was.y * turn.y;
            row[b] = was.x * turn.y + was.y * turn.x;
        }
    }
    workgroupBarrier();
    if is_query || is_key {
        for (var d = lane; d < HEAD_DIM; d += WG_SIZE) {
            qkv[first + d] = row[d];
        }
    }
    if !is_query {
        let kind = select(VALUES, KEYS, is_key);
        let kv_head = (head - HEADS) % KV_HEADS;
        let cached = kv_row(t, kind, kv_head, row_position(t));
        for (var quad = lane; quad < QUADS; quad += WG_SIZE) {
            let d = 4u * quad;
            var largest = 0.0;
            if NEEDS_LARGEST {
                largest = largest_around(quad);
            }
            let values = vec4<f32>(row[d], row[d + 1u], row[d + 2u], row[d + 3u]);
            kv_store(cached, quad, values, largest);
        }
    }
}
