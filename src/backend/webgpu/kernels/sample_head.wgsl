// sample_head.wgsl: the largest logit of all slices: what a greedy step chooses, and what the
// weights of a draw are measured from
//
// Shapes    found: [2, slices, 4] u32; pick, ring: u32
// Dispatch  (1, 1, 1)
// Limits    -
// Numerics  exact
// Twin      backend/sampling.rs::arg_max
// Params    kernels/sample.rs::source
// Needs     WG_SIZE, SLICES; common/sample.wgsl, common/sample_pick.wgsl,
//           common/sample_group_*.wgsl
// Source    two_sum: Knuth, TAOCP 2, 4.2.2
struct Source {
    is_row: u32, // nothing is adjusted
}

@group(0) @binding(0) var<uniform> source: Source;
@group(0) @binding(1) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(2) var<storage, read> found: array<u32>;
@group(0) @binding(3) var<storage, read_write> pick: array<u32>;
@group(0) @binding(4) var<storage, read_write> count: array<u32>;
@group(0) @binding(5) var<storage, read_write> ring: array<u32>;

// The least key whose logit is not below largest + FLOOR: the sum exactly, then rounded up.
fn floor_key(largest: f32) -> u32 {
    if sampler_state[FLOOR] == NEG_INF_BITS {
        return 0u;
    }
    let floor = bitcast<f32>(sampler_state[FLOOR]);
    let sum = rounded(largest + floor);
    let shared_part = rounded(sum - largest);
    let rest = rounded(sum - shared_part);
    let error = rounded(largest - rest) + rounded(floor - shared_part);
    let beyond = error + bitcast<f32>(sampler_state[FLOOR + 1u]);
    let key = size_key(key_of(bitcast<u32>(sum)));
    // Both zeros are at a floor of zero.
    return select(select(key, KEY_NEG_ZERO, key == KEY_POS_ZERO), key + 1u, beyond > 0.0);
}

fn best_of(lane: u32, region: u32) -> vec2<u32> {
    var best = vec2<u32>(0u, 0xffffffffu);
    for (var slice = lane; slice < SLICES; slice += WG_SIZE) {
        let at = 4u * (slice + region * SLICES);
        let key = found[at];
        if key > best.x || (key == best.x && found[at + 1u] < best.y) {
            best = vec2<u32>(key, found[at + 1u]);
        }
    }
    return group_best(lane, best);
}

// As many slices as are asked for have a logit of this key or above, so the likeliest do too.
fn top_key(lane: u32) -> u32 {
    let wanted = min(sampler_state[TOP_COUNT], SLICES + 1u);
    var last = vec2<u32>(0xffffffffu, 0u);
    for (var i = 0u; i < wanted; i++) {
        var next = vec2<u32>(0u, 0xffffffffu);
        for (var slice = lane; slice < SLICES; slice += WG_SIZE) {
            let key = found[4u * slice];
            let id = found[4u * slice + 1u];
            let is_after = key < last.x || (key == last.x && id > last.y);
            if is_after && (key > next.x || (key == next.x && id < next.y)) {
                next = vec2<u32>(key, id);
            }
        }
        last = group_best(lane, next);
    }
    return last.x;
}

@compute @workgroup_size(WG_SIZE)
fn sample_head(@builtin(local_invocation_index) lane: u32) {
    var fault = 0u;
    for (var slice = lane; slice < SLICES; slice += WG_SIZE) {
        fault |= found[4u * slice + 2u];
    }
    fault = group_or(lane, fault);
    let raw = best_of(lane, 0u);
    let best = best_of(lane, 1u - source.is_row);
    let least_top = top_key(lane);
    if lane != 0u {
        return;
    }
    if !is_finite_key(raw.x) {
        fault = 1u;
    }
    if fault == 0u && !is_finite_key(best.x) {
        fault = 2u;
    }
    let id = select(0u, best.y, fault == 0u);
    pick[FAULT] = fault;
    pick[RAW_LARGEST] = raw.x;
    pick[LARGEST] = best.x;
    pick[CHOSEN] = id;
    pick[FLOOR_KEY] = max(KEY_NEG_INF + 1u, floor_key(bitcast<f32>(bits_of(best.x))));
    pick[STAGE] = STAGE_DONE;
    pick[TOP_KEY] = max(KEY_NEG_INF + 1u, least_top);
    count[0] = 0u;
    count[1] = 0u;
    count[TOPS] = 0u;
    let slot = sampler_state[OUT_SLOT] * RING_WORDS;
    ring[slot] = id;
    ring[slot + 1u] = fault;
    ring[slot + 2u] = 0x7fc00000u;
    ring[slot + 3u] = 0u;
}
