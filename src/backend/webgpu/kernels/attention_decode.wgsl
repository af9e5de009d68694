// attention_decode.wgsl: a share of the positions of one row and up to eight query heads of
// one KV head: each key and value is loaded once for all of them
//
// Shapes    qkv: [T, (H + 2 G) D] f32, rows a stride apart; cache: backend/webgpu/kv.rs;
//           parts: [T, H, SPLITS LANE_PARTS, QUADS] vec4, sums of weighted values;
//           stats: [T, H, SPLITS LANE_PARTS] (largest score, sum of weights)
// Dispatch  (SPLITS, G HEAD_SETS, T): a lane a position for the scores, a lane a quad of
//           elements for the values; what lanes are left takes another part of the positions
// Limits    QUADS <= WG_SIZE
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/attention.rs::plain
// Params    kernels/attention.rs::Params
// Needs     WG_SIZE, HEADS, KV_HEADS, QUADS, BLOCK_TOKENS, SPLITS; common/step.wgsl,
//           attention.wgsl, kv_rows.wgsl, kv_table_*.wgsl, kv_read_*.wgsl, query_*.wgsl,
//           max_*.wgsl::workgroup_max
// Source    Dao et al. 2023, "Flash-Decoding for long-context inference"; Milakov & Gimelshein
//           2018, arXiv:1805.02867
@group(0) @binding(4) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;

// Workgroups that share a KV head.
const HEAD_SETS: u32 = (GROUP + 7u) / 8u;

// Parts of a tile's positions that lanes sum values of.
const LANE_PARTS: u32 = WG_SIZE / QUADS;

// Of each position of a tile: its key's row, and its weights for heads 0..4 and 4..8.
var<workgroup> rows: array<u32, WG_SIZE>;
var<workgroup> weights_low: array<vec4<f32>, WG_SIZE>;
var<workgroup> weights_high: array<vec4<f32>, WG_SIZE>;

fn store(own: u32, quad: u32, sum: vec4<f32>, stat: vec2<f32>) {
    parts[own * QUADS + quad] = sum;
    if quad == 0u {
        stats[own] = stat;
    }
}

@compute @workgroup_size(WG_SIZE)
fn attention_decode(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = group.z;
    let split = group.x;
    let kv_head = group.y / HEAD_SETS;
    let first_in_group = group.y % HEAD_SETS * 8u;
    let first_head = kv_head * GROUP + first_in_group;
    // Beyond the group the last head is computed again and not stored.
    let last_head = kv_head * GROUP + GROUP - 1u;
    let begin = first_visible(row_position(t));
    let end = row_position(t) + 1u;
    // Whole tiles, so that only the last share has one with lanes to spare.
    let share = ((end - begin + SPLITS - 1u) / SPLITS + WG_SIZE - 1u) / WG_SIZE * WG_SIZE;
    let share_end = min(begin + (split + 1u) * share, end);
    let quad = lane % QUADS;
    let part = lane / QUADS;
    var largest_low = vec4<f32>(LOWEST);
    var largest_high = vec4<f32>(LOWEST);
    var weight_low = vec4<f32>();
    var weight_high = vec4<f32>();
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    for (var first = begin + split * share; first < share_end; first += WG_SIZE) {
        let count = min(WG_SIZE, share_end - first);
        let row = kv_row(t, KEYS, kv_head, first + min(lane, count - 1u));
        var products_low = vec4<f32>();
        var products_high = vec4<f32>();
        for (var i = 0u; i < QUADS; i++) {
            let key = kv_quad(row, i);
            products_low.x += dot(key, query_quad(t, first_head, i));
            if GROUP > 1u {
                products_low.y += dot(key, query_quad(t, min(first_head + 1u, last_head), i));
            }
            if GROUP > 2u {
                products_low.z += dot(key, query_quad(t, min(first_head + 2u, last_head), i));
            }
            if GROUP > 3u {
                products_low.w += dot(key, query_quad(t, min(first_head + 3u, last_head), i));
            }
            if GROUP > 4u {
                products_high.x += dot(key, query_quad(t, min(first_head + 4u, last_head), i));
            }
            if GROUP > 5u {
                products_high.y += dot(key, query_quad(t, min(first_head + 5u, last_head), i));
            }
            if GROUP > 6u {
                products_high.z += dot(key, query_quad(t, min(first_head + 6u, last_head), i));
            }
            if GROUP > 7u {
                products_high.w += dot(key, query_quad(t, min(first_head + 7u, last_head), i));
            }
        }
        let is_position = vec4<bool>(lane < count);
        let scores_low = select(vec4<f32>(LOWEST), scores_of(products_low), is_position);
        let before_low = largest_low;
        largest_low = max(largest_low, workgroup_max(lane, scores_low));
        let keep_low = exp(before_low - largest_low);
        var keep_high = vec4<f32>();
        // Readers of the last tile are done: workgroup_max begins with a barrier.
        rows[lane] = row;
        weights_low[lane] = exp(scores_low - largest_low);
        if GROUP > 4u {
            let scores_high = select(vec4<f32>(LOWEST), scores_of(products_high), is_position);
            let before_high = largest_high;
            largest_high = max(largest_high, workgroup_max(lane, scores_high));
            keep_high = exp(before_high - largest_high);
            weights_high[lane] = exp(scores_high - largest_high);
        }
        workgroupBarrier();
        weight_low *= keep_low;
        weight_high *= keep_high;
        sum_0 *= keep_low.x;
        sum_1 *= keep_low.y;
        sum_2 *= keep_low.z;
        sum_3 *= keep_low.w;
        sum_4 *= keep_high.x;
        sum_5 *= keep_high.y;
        sum_6 *= keep_high.z;
        sum_7 *= keep_high.w;
        if part < LANE_PARTS {
            for (var i = part; i < count; i += LANE_PARTS) {
                let value = kv_quad(rows[i] + VALUES_OFFSET, quad);
                let low = weights_low[i];
                weight_low += low;
                sum_0 += low.x * value;
                if GROUP > 1u {
                    sum_1 += low.y * value;
                }
                if GROUP > 2u {
                    sum_2 += low.z * value;
                }
                if GROUP > 3u {
                    sum_3 += low.w * value;
                }
                if GROUP > 4u {
                    let high = weights_high[i];
                    weight_high += high;
                    sum_4 += high.x * value;
                    sum_5 += high.y * value;
                    sum_6 += high.z * value;
                    sum_7 += high.w * value;
                }
            }
        }
    }
    if part < LANE_PARTS {
        let heads = GROUP - first_in_group;
        let per_head = SPLITS * LANE_PARTS;
        let own = (t * HEADS + first_head) * per_head + split * LANE_PARTS + part;
        store(own, quad, sum_0, vec2<f32>(largest_low.x, weight_low.x));
        if heads > 1u {
            store(own + 1u * per_head, quad, sum_1, vec2<f32>(largest_low.y, weight_low.y));
        }
        if heads > 2u {
            store(own + 2u * per_head, quad, sum_2, vec2<f32>(largest_low.z, weight_low.z));
        }
        if heads > 3u {
            store(own + 3u * per_head, quad, sum_3, vec2<f32>(largest_low.w, weight_low.w));
        }
        if heads > 4u {
            store(own + 4u * per_head, quad, sum_4, vec2<f32>(largest_high.x, weight_high.x));
        }
        if heads > 5u {
            store(own + 5u * per_head, quad, sum_5, vec2<f32>(largest_high.y, weight_high.y));
        }
        if heads > 6u {
            store(own + 6u * per_head, quad, sum_6, vec2<f32>(largest_high.z, weight_high.z));
        }
        if heads > 7u {
            store(own + 7u * per_head, quad, sum_7, vec2<f32>(largest_high.w, weight_high.w));
        }
    }
}
