// attention_prefill.wgsl: a tile of queries over the cache in tiles of keys, online softmax
//
// Shapes    qkv: [T, (H + 2 G) D] f32, rows a stride apart; cache: backend/webgpu/kv.rs;
//           out: [T, H D] f32, rows a stride apart
// Dispatch  (ceil(T GROUP / LINES), G, 1): the rows and query heads of one KV head are the
//           lines of a matrix of queries, head by head within a row, cut into tiles of LINES
// Limits    WG_SIZE / QUADS LINES_EACH >= LINES, LINES_EACH <= 8
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/attention.rs::plain
// Params    kernels/attention.rs::Params
// Needs     WG_SIZE (128 or 256), LINES_EACH, HEADS, KV_HEADS, HEAD_DIM, QUADS, BLOCK_TOKENS;
//           common/step.wgsl, attention.wgsl, kv_rows.wgsl, kv_table_*.wgsl, kv_read_*.wgsl,
//           query_*.wgsl
// Source    Dao et al. 2022, arXiv:2205.14135; Milakov & Gimelshein 2018, arXiv:1805.02867
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// Queries of a tile, keys of a tile, quads of both that are in workgroup memory at once.
const LINES: u32 = 16u;
const TILE: u32 = 32u;
const SLAB: u32 = 16u;
const SLABS: u32 = (QUADS + SLAB - 1u) / SLAB;

// One more than is used, so that lanes with different lines use different banks.
const SLAB_STRIDE: u32 = SLAB + 1u;
const TILE_STRIDE: u32 = TILE + 1u;

// Lanes that share a line's scores: lane i has keys i, i + LINE_LANES, ...
const LINE_LANES: u32 = WG_SIZE / LINES;

var<workgroup> queries: array<vec4<f32>, LINES * SLAB_STRIDE>;
var<workgroup> keys: array<vec4<f32>, TILE * SLAB_STRIDE>;
// Scores, then weights.
var<workgroup> scores: array<f32, LINES * TILE_STRIDE>;
// Rows of a tile's keys.
var<workgroup> rows: array<u32, TILE>;
// What is kept of each line's sums as its largest score grows.
var<workgroup> keeps: array<f32, LINES>;

fn store(line: u32, kv_head: u32, quad: u32, sum: vec4<f32>) {
    let t = line / GROUP;
    if t >= step_rows() {
        return;
    }
    let d = 4u * quad;
    let to = t * params.out_stride + (kv_head * GROUP + line % GROUP) * HEAD_DIM + d;
    out[to] = sum.x;
    if d + 1u < HEAD_DIM {
        out[to + 1u] = sum.y;
    }
    if d + 2u < HEAD_DIM {
        out[to + 2u] = sum.z;
    }
    if d + 3u < HEAD_DIM {
        out[to + 3u] = sum.w;
    }
}

// Queries and keys of a slab to workgroup memory.
fn load_slab(lane: u32, slab: u32, first_line: u32, kv_head: u32) {
    let last_line = step_rows() * GROUP - 1u;
    for (var i = lane; i < LINES * SLAB; i += WG_SIZE) {
        let quad = slab * SLAB + i % SLAB;
        var query = vec4<f32>();
        if quad < QUADS {
            let line = min(first_line + i / SLAB, last_line);
            query = query_quad(line / GROUP, kv_head * GROUP + line % GROUP, quad);
        }
        queries[i / SLAB * SLAB_STRIDE + i % SLAB] = query;
    }
    for (var i = lane; i < TILE * SLAB; i += WG_SIZE) {
        let quad = slab * SLAB + i % SLAB;
        var key = vec4<f32>();
        if quad < QUADS {
            key = kv_quad(rows[i / SLAB], quad);
        }
        keys[i / SLAB * SLAB_STRIDE + i % SLAB] = key;
    }
}

@compute @workgroup_size(WG_SIZE)
fn attention_prefill(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let kv_head = group.y;
    let first_line = group.x * LINES;
    let last_row = min((first_line + LINES - 1u) / GROUP, step_rows() - 1u);
    // For scores: a line and some keys.
    let line = lane / LINE_LANES;
    let line_row = min((first_line + line) / GROUP, last_row);
    let line_position = row_position(line_row);
    let first_key = lane % LINE_LANES;
    var largest = LOWEST;
    // For values: a quad and some lines.
    let quad = lane % QUADS;
    let sum_line = lane / QUADS * LINES_EACH;
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    var weight_0 = 0.0;
    var weight_1 = 0.0;
    var weight_2 = 0.0;
    var weight_3 = 0.0;
    var weight_4 = 0.0;
    var weight_5 = 0.0;
    var weight_6 = 0.0;
    var weight_7 = 0.0;
    var next_row = first_line / GROUP;
    while next_row <= last_row {
        // Rows of one sequence, which share its blocks.
        let first_row = next_row;
        let sequence = row_sequence(first_row);
        while next_row <= last_row && row_sequence(next_row) == sequence {
            next_row++;
        }
        let is_line = line_row >= first_row && line_row < next_row;
        let begin = first_visible(row_position(first_row));
        let end = row_position(next_row - 1u) + 1u;
        for (var first = begin; first < end; first += TILE) {
            let count = min(TILE, end - first);
            if lane < TILE {
                rows[lane] = kv_row(first_row, KEYS, kv_head, first + min(lane, count - 1u));
            }
            var products = vec4<f32>();
            for (var slab = 0u; slab < SLABS; slab++) {
                // Readers of the last slab are done, and the rows are there.
                workgroupBarrier();
                load_slab(lane, slab, first_line, kv_head);
                workgroupBarrier();
                for (var i = 0u; i < SLAB; i++) {
                    let query = queries[line * SLAB_STRIDE + i];
                    let key = first_key * SLAB_STRIDE + i;
                    products.x += dot(query, keys[key]);
                    products.y += dot(query, keys[key + LINE_LANES * SLAB_STRIDE]);
                    if 2u * LINE_LANES < TILE {
                        products.z += dot(query, keys[key + 2u * LINE_LANES * SLAB_STRIDE]);
                        products.w += dot(query, keys[key + 3u * LINE_LANES * SLAB_STRIDE]);
                    }
                }
            }
            let tile_keys = first_key + vec4<u32>(0u, 1u, 2u, 3u) * LINE_LANES;
            let positions = first + tile_keys;
            let visible = vec4<bool>(is_line)
                & (tile_keys < vec4<u32>(count))
                & (positions <= vec4<u32>(line_position))
                & (positions >= vec4<u32>(first_visible(line_position)));
            let own = select(vec4<f32>(LOWEST), scores_of(products), visible);
            let score = line * TILE_STRIDE + first_key;
            scores[score] = own.x;
            scores[score + LINE_LANES] = own.y;
            if 2u * LINE_LANES < TILE {
                scores[score + 2u * LINE_LANES] = own.z;
                scores[score + 3u * LINE_LANES] = own.w;
            }
            workgroupBarrier();
            let before = largest;
            for (var i = 0u; i < TILE; i++) {
                largest = max(largest, scores[line * TILE_STRIDE + i]);
            }
            workgroupBarrier();
            let weights = select(vec4<f32>(), exp(own - largest), visible);
            scores[score] = weights.x;
            scores[score + LINE_LANES] = weights.y;
            if 2u * LINE_LANES < TILE {
                scores[score + 2u * LINE_LANES] = weights.z;
                scores[score + 3u * LINE_LANES] = weights.w;
            }
            if first_key == 0u {
                keeps[line] = exp(before - largest);
            }
            workgroupBarrier();
            if sum_line < LINES {
                let keep_0 = keeps[sum_line];
                sum_0 *= keep_0;
                weight_0 *= keep_0;
                if LINES_EACH > 1u {
                    let keep = keeps[min(sum_line + 1u, LINES - 1u)];
                    sum_1 *= keep;
                    weight_1 *= keep;
                }
                if LINES_EACH > 2u {
                    let keep = keeps[min(sum_line + 2u, LINES - 1u)];
                    sum_2 *= keep;
                    weight_2 *= keep;
                }
                if LINES_EACH > 3u {
                    let keep = keeps[min(sum_line + 3u, LINES - 1u)];
                    sum_3 *= keep;
                    weight_3 *= keep;
                }
                if LINES_EACH > 4u {
                    let keep = keeps[min(sum_line + 4u, LINES - 1u)];
                    sum_4 *= keep;
                    weight_4 *= keep;
                }
                if LINES_EACH > 5u {
                    let keep = keeps[min(sum_line + 5u, LINES - 1u)];
                    sum_5 *= keep;
                    weight_5 *= keep;
                }
                if LINES_EACH > 6u {
                    let keep = keeps[min(sum_line + 6u, LINES - 1u)];
                    sum_6 *= keep;
                    weight_6 *= keep;
                }
                if LINES_EACH > 7u {
                    let keep = keeps[min(sum_line + 7u, LINES - 1u)];
                    sum_7 *= keep;
                    weight_7 *= keep;
                }
                for (var i = 0u; i < count; i++) {
                    let value = kv_quad(rows[i] + VALUES_OFFSET, quad);
                    let at = sum_line * TILE_STRIDE + i;
                    let own_0 = scores[at];
                    sum_0 += own_0 * value;
                    weight_0 += own_0;
                    if LINES_EACH > 1u {
                        let own_1 = scores[min(at + 1u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_1 += own_1 * value;
                        weight_1 += own_1;
                    }
                    if LINES_EACH > 2u {
                        let own_2 = scores[min(at + 2u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_2 += own_2 * value;
                        weight_2 += own_2;
                    }
                    if LINES_EACH > 3u {
                        let own_3 = scores[min(at + 3u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_3 += own_3 * value;
                        weight_3 += own_3;
                    }
                    if LINES_EACH > 4u {
                        let own_4 = scores[min(at + 4u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_4 += own_4 * value;
                        weight_4 += own_4;
                    }
                    if LINES_EACH > 5u {
                        let own_5 = scores[min(at + 5u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_5 += own_5 * value;
                        weight_5 += own_5;
                    }
                    if LINES_EACH > 6u {
                        let own_6 = scores[min(at + 6u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_6 += own_6 * value;
                        weight_6 += own_6;
                    }
                    if LINES_EACH > 7u {
                        let own_7 = scores[min(at + 7u * TILE_STRIDE, LINES * TILE_STRIDE - 1u)];
                        sum_7 += own_7 * value;
                        weight_7 += own_7;
                    }
                }
            }
            // Rows are overwritten next.
            workgroupBarrier();
        }
    }
    if sum_line < LINES {
        let to = first_line + sum_line;
        store(to, kv_head, quad, sum_0 / weight_0);
        if LINES_EACH > 1u && sum_line + 1u < LINES {
            store(to + 1u, kv_head, quad, sum_1 / weight_1);
        }
        if LINES_EACH > 2u && sum_line + 2u < LINES {
            store(to + 2u, kv_head, quad, sum_2 / weight_2);
        }
        if LINES_EACH > 3u && sum_line + 3u < LINES {
            store(to + 3u, kv_head, quad, sum_3 / weight_3);
        }
        if LINES_EACH > 4u && sum_line + 4u < LINES {
            store(to + 4u, kv_head, quad, sum_4 / weight_4);
        }
        if LINES_EACH > 5u && sum_line + 5u < LINES {
            store(to + 5u, kv_head, quad, sum_5 / weight_5);
        }
        if LINES_EACH > 6u && sum_line + 6u < LINES {
            store(to + 6u, kv_head, quad, sum_6 / weight_6);
        }
        if LINES_EACH > 7u && sum_line + 7u < LINES {
            store(to + 7u, kv_head, quad, sum_7 / weight_7);
        }
    }
}
