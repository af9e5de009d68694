// attention_serial.wgsl: a share of the positions of one row and up to four query heads of one
// KV head, online softmax, for processors that play a GPU: no barriers, and each key and value
// is loaded once for the heads, because a load costs them as much as four products
//
// Shapes    qkv: [T, (H + 2 G) D] f32, rows a stride apart; cache: backend/webgpu/kv.rs;
//           parts: [T, H, SPLITS, QUADS] vec4, sums of weighted values;
//           stats: [T, H, SPLITS] (largest score, sum of weights)
// Dispatch  (ceil(T SPLITS G HEAD_SETS / WG_SIZE), 1, 1)
// Limits    any D
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/attention_case.rs::plain
// Params    kernels/attention.rs::Params
// Needs     WG_SIZE, HEADS, KV_HEADS, QUADS, BLOCK_TOKENS, SPLITS, SET_HEADS; common/step.wgsl,
//           attention.wgsl, kv_rows.wgsl, kv_table_*.wgsl, kv_read_*.wgsl, query_*.wgsl
// Source    Milakov & Gimelshein 2018, arXiv:1805.02867
@group(0) @binding(4) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;

// Invocations that share a KV head: SET_HEADS query heads each, 4 at most.
const HEAD_SETS: u32 = (GROUP + SET_HEADS - 1u) / SET_HEADS;

// Positions at a time: eight scores are two vectors, and a sum is loaded and stored once for
// eight values.
const TILE: u32 = 8u;

// One query head over the positions so far.
struct Head {
    own: u32, // its part
    largest: f32, // score
    weight_sum: f32,
    keep: f32, // factor on its sums before the tile
    weights_a: vec4<f32>, // of the tile
    weights_b: vec4<f32>,
}

fn start(own: u32, is_head: bool) -> Head {
    for (var quad = 0u; is_head && quad < QUADS; quad++) {
        parts[own * QUADS + quad] = vec4<f32>();
    }
    return Head(own, LOWEST, 0.0, 1.0, vec4<f32>(), vec4<f32>());
}

// The head after a tile of `count` positions, whose sums are still to be changed.
fn advance(head: Head, products_a: vec4<f32>, products_b: vec4<f32>, count: u32) -> Head {
    let scores_a = scores_of(products_a);
    let scores_b = scores_of(products_b);
    // Repeated positions do not change the maximum.
    let most = max(scores_a, scores_b);
    let largest = max(max(head.largest, max(most.x, most.y)), max(most.z, most.w));
    let weights_a = select(
        vec4<f32>(),
        exp(scores_a - largest),
        vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(count),
    );
    let weights_b = select(
        vec4<f32>(),
        exp(scores_b - largest),
        vec4<u32>(4u, 5u, 6u, 7u) < vec4<u32>(count),
    );
    let keep = exp(head.largest - largest);
    let weight_sum = head.weight_sum * keep + dot(weights_a + weights_b, vec4<f32>(1.0));
    return Head(head.own, largest, weight_sum, keep, weights_a, weights_b);
}

fn add_values(head: Head, quad: u32, values_a: mat4x4<f32>, values_b: mat4x4<f32>) {
    let at = head.own * QUADS + quad;
    let added = values_a * head.weights_a + values_b * head.weights_b;
    parts[at] = parts[at] * head.keep + added;
}

// A quad of four rows.
fn kv_quads(rows: vec4<u32>, quad: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        kv_quad(rows.x, quad),
        kv_quad(rows.y, quad),
        kv_quad(rows.z, quad),
        kv_quad(rows.w, quad),
    );
}

@compute @workgroup_size(WG_SIZE)
fn attention_serial(@builtin(global_invocation_id) invocation: vec3<u32>) {
    // Neighbours share their number of positions.
    let kv_head = invocation.x / HEAD_SETS % KV_HEADS;
    let split = invocation.x / (HEAD_SETS * KV_HEADS) % SPLITS;
    let t = invocation.x / (HEAD_SETS * KV_HEADS * SPLITS);
    if t >= step_rows() {
        return;
    }
    let first_in_group = invocation.x % HEAD_SETS * SET_HEADS;
    let heads = min(SET_HEADS, GROUP - first_in_group);
    let first_head = kv_head * GROUP + first_in_group;
    // What a set lacks is its last head, computed again and not stored.
    let last_head = first_head + heads - 1u;
    let begin = first_visible(row_position(t));
    let end = row_position(t) + 1u;
    let share = (end - begin + SPLITS - 1u) / SPLITS;
    let share_end = min(begin + (split + 1u) * share, end);
    let own = (t * HEADS + first_head) * SPLITS + split;
    var head_0 = start(own, true);
    var head_1 = start(own + 1u * SPLITS, heads > 1u);
    var head_2 = start(own + 2u * SPLITS, heads > 2u);
    var head_3 = start(own + 3u * SPLITS, heads > 3u);
    var position = begin + split * share;
    while position < share_end {
        // Positions of one block follow one another.
        let count = min(min(TILE, share_end - position), BLOCK_TOKENS - position % BLOCK_TOKENS);
        let row = kv_row(t, KEYS, kv_head, position);
        let rows_a = row + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
        let rows_b = row + min(vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(count - 1u));
        var products_0a = vec4<f32>();
        var products_0b = vec4<f32>();
        var products_1a = vec4<f32>();
        var products_1b = vec4<f32>();
        var products_2a = vec4<f32>();
        var products_2b = vec4<f32>();
        var products_3a = vec4<f32>();
        var products_3b = vec4<f32>();
        for (var quad = 0u; quad < QUADS; quad++) {
            let keys_a = kv_quads(rows_a, quad);
            let keys_b = kv_quads(rows_b, quad);
            let query_0 = query_quad(t, first_head, quad);
            products_0a += query_0 * keys_a;
            products_0b += query_0 * keys_b;
            if SET_HEADS > 1u {
                let query_1 = query_quad(t, min(first_head + 1u, last_head), quad);
                products_1a += query_1 * keys_a;
                products_1b += query_1 * keys_b;
            }
            if SET_HEADS > 2u {
                let query_2 = query_quad(t, min(first_head + 2u, last_head), quad);
                products_2a += query_2 * keys_a;
                products_2b += query_2 * keys_b;
            }
            if SET_HEADS > 3u {
                let query_3 = query_quad(t, min(first_head + 3u, last_head), quad);
                products_3a += query_3 * keys_a;
                products_3b += query_3 * keys_b;
            }
        }
        head_0 = advance(head_0, products_0a, products_0b, count);
        if SET_HEADS > 1u {
            head_1 = advance(head_1, products_1a, products_1b, count);
        }
        if SET_HEADS > 2u {
            head_2 = advance(head_2, products_2a, products_2b, count);
        }
        if SET_HEADS > 3u {
            head_3 = advance(head_3, products_3a, products_3b, count);
        }
        for (var quad = 0u; quad < QUADS; quad++) {
            let values_a = kv_quads(rows_a + VALUES_OFFSET, quad);
            let values_b = kv_quads(rows_b + VALUES_OFFSET, quad);
            add_values(head_0, quad, values_a, values_b);
            if SET_HEADS > 1u && heads > 1u {
                add_values(head_1, quad, values_a, values_b);
            }
            if SET_HEADS > 2u && heads > 2u {
                add_values(head_2, quad, values_a, values_b);
            }
            if SET_HEADS > 3u && heads > 3u {
                add_values(head_3, quad, values_a, values_b);
            }
        }
        position += count;
    }
    stats[head_0.own] = vec2<f32>(head_0.largest, head_0.weight_sum);
    if heads > 1u {
        stats[head_1.own] = vec2<f32>(head_1.largest, head_1.weight_sum);
    }
    if heads > 2u {
        stats[head_2.own] = vec2<f32>(head_2.largest, head_2.weight_sum);
    }
    if heads > 3u {
        stats[head_3.own] = vec2<f32>(head_3.largest, head_3.weight_sum);
    }
}
