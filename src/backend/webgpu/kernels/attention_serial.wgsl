// attention_serial.wgsl: a share of the positions of one row and head, online softmax, for
// processors that play a GPU: no barriers
//
// Shapes    qkv: [T, (H + 2 G) D] f32, rows a stride apart; cache: backend/webgpu/kv.rs;
//           parts: [T, H, SPLITS, QUADS] vec4, sums of weighted values;
//           stats: [T, H, SPLITS] (largest score, sum of weights)
// Dispatch  (ceil(T H SPLITS / WG_SIZE), 1, 1)
// Limits    any D
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/attention.rs::plain
// Params    kernels/attention.rs::Params
// Needs     WG_SIZE, HEADS, KV_HEADS, QUADS, BLOCK_TOKENS, SPLITS; common/step.wgsl,
//           attention.wgsl, kv_rows.wgsl, kv_table_*.wgsl, kv_read_*.wgsl, query_*.wgsl
// Source    Milakov & Gimelshein 2018, arXiv:1805.02867
@group(0) @binding(4) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;

// Positions at a time: eight scores are two vectors, and a sum is loaded and stored once for
// eight values.
const TILE: u32 = 8u;

@compute @workgroup_size(WG_SIZE)
fn attention_serial(@builtin(global_invocation_id) invocation: vec3<u32>) {
    // Neighbours share their number of positions.
    let head = invocation.x % HEADS;
    let split = invocation.x / HEADS % SPLITS;
    let t = invocation.x / HEADS / SPLITS;
    if t >= step_rows() {
        return;
    }
    let kv_head = head / GROUP;
    let begin = first_visible(row_position(t));
    let end = row_position(t) + 1u;
    let share = (end - begin + SPLITS - 1u) / SPLITS;
    let share_end = min(begin + (split + 1u) * share, end);
    let own = (t * HEADS + head) * SPLITS + split;
    for (var quad = 0u; quad < QUADS; quad++) {
        parts[own * QUADS + quad] = vec4<f32>();
    }
    var largest = LOWEST;
    var weight_sum = 0.0;
    var position = begin + split * share;
    while position < share_end {
        // Positions of one block follow one another.
        let count = min(min(TILE, share_end - position), BLOCK_TOKENS - position % BLOCK_TOKENS);
        let row = kv_row(t, KEYS, kv_head, position);
        let steps_a = min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
        let steps_b = min(vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(count - 1u));
        let rows_a = row + steps_a;
        let rows_b = row + steps_b;
        var products_a = vec4<f32>();
        var products_b = vec4<f32>();
        for (var quad = 0u; quad < QUADS; quad++) {
            let query = query_quad(t, head, quad);
            products_a += vec4<f32>(
                dot(query, kv_quad(rows_a.x, quad)),
                dot(query, kv_quad(rows_a.y, quad)),
                dot(query, kv_quad(rows_a.z, quad)),
                dot(query, kv_quad(rows_a.w, quad)),
            );
            products_b += vec4<f32>(
                dot(query, kv_quad(rows_b.x, quad)),
                dot(query, kv_quad(rows_b.y, quad)),
                dot(query, kv_quad(rows_b.z, quad)),
                dot(query, kv_quad(rows_b.w, quad)),
            );
        }
        let scores_a = scores_of(products_a);
        let scores_b = scores_of(products_b);
        // Repeated positions do not change the maximum.
        let most = max(scores_a, scores_b);
        let before = largest;
        largest = max(max(largest, max(most.x, most.y)), max(most.z, most.w));
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
        let keep = exp(before - largest);
        weight_sum = weight_sum * keep + dot(weights_a + weights_b, vec4<f32>(1.0));
        let values_a = rows_a + VALUES_OFFSET;
        let values_b = rows_b + VALUES_OFFSET;
        for (var quad = 0u; quad < QUADS; quad++) {
            var sum = parts[own * QUADS + quad] * keep;
            sum += weights_a.x * kv_quad(values_a.x, quad);
            sum += weights_a.y * kv_quad(values_a.y, quad);
            sum += weights_a.z * kv_quad(values_a.z, quad);
            sum += weights_a.w * kv_quad(values_a.w, quad);
            sum += weights_b.x * kv_quad(values_b.x, quad);
            sum += weights_b.y * kv_quad(values_b.y, quad);
            sum += weights_b.z * kv_quad(values_b.z, quad);
            sum += weights_b.w * kv_quad(values_b.w, quad);
            parts[own * QUADS + quad] = sum;
        }
        position += count;
    }
    stats[own] = vec2<f32>(largest, weight_sum);
}
