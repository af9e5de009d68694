// qk_rope_append_serial.wgsl: qk_rope_append.wgsl with one invocation a head and row, for
// processors that play a GPU: a barrier costs them more than the head
//
// Shapes    as qk_rope_append.wgsl
// Dispatch  (ceil(T (H + 2 G) / WG_SIZE), 1, 1)
// Limits    2 PAIRS <= D
// Numerics  f32; NMSE <= 1e-11 before the cache's own rounding
// Twin      kernels/qk_rope_append.rs::plain
// Params    kernels/qk_rope_append.rs::Params
// Needs     as qk_rope_append.wgsl, without reduce_*.wgsl
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

fn norm(first: u32, eps: f32, is_query: bool) {
    var squares = 0.0;
    for (var d = 0u; d < HEAD_DIM; d++) {
        squares += qkv[first + d] * qkv[first + d];
    }
    let scale = inverseSqrt(squares / f32(HEAD_DIM) + eps);
    for (var d = 0u; d < HEAD_DIM; d++) {
        if is_query {
            qkv[first + d] *= scale * q_gain[d];
        } else {
            qkv[first + d] *= scale * k_gain[d];
        }
    }
}

fn rotate(first: u32, t: u32) {
    for (var pair = 0u; pair < PAIRS; pair++) {
        let a = first + select(2u * pair, pair, ROPE_HALVES == 1u);
        let b = first + select(2u * pair + 1u, pair + PAIRS, ROPE_HALVES == 1u);
        let turn = rotations[t * PAIRS + pair];
        let was = vec2<f32>(qkv[a], qkv[b]);
        qkv[a] = was.x * turn.x - was.y * turn.y;
        qkv[b] = was.x * turn.y + was.y * turn.x;
    }
}

// An element of the head, 0 after D.
fn element(first: u32, d: u32) -> f32 {
    if d < HEAD_DIM {
        return qkv[first + d];
    }
    return 0.0;
}

fn append(first: u32, cached: u32) {
    var largest = 0.0;
    for (var quad = 0u; quad < QUADS; quad++) {
        let d = 4u * quad;
        if NEEDS_LARGEST && quad % 8u == 0u {
            largest = 0.0;
            for (var i = d; i < min(d + 32u, HEAD_DIM); i++) {
                largest = max(largest, abs(qkv[first + i]));
            }
        }
        let values = vec4<f32>(
            element(first, d),
            element(first, d + 1u),
            element(first, d + 2u),
            element(first, d + 3u),
        );
        kv_store(cached, quad, values, largest);
    }
}

@compute @workgroup_size(WG_SIZE)
fn qk_rope_append_serial(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let all_heads = HEADS + 2u * KV_HEADS;
    let t = invocation.x / all_heads;
    let head = invocation.x % all_heads;
    if t >= step_rows() {
        return;
    }
    let is_query = head < HEADS;
    let is_key = !is_query && head < HEADS + KV_HEADS;
    let first = t * params.stride + head * HEAD_DIM;
    if is_query && NORM_Q == 1u {
        norm(first, params.q_eps, true);
    }
    if is_key && NORM_K == 1u {
        norm(first, params.k_eps, false);
    }
    if is_query || is_key {
        rotate(first, t);
    }
    if !is_query {
        let kind = select(VALUES, KEYS, is_key);
        let kv_head = (head - HEADS) % KV_HEADS;
        append(first, kv_row(t, kind, kv_head, row_position(t)));
    }
}
