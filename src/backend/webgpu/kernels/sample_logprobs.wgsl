// sample_logprobs.wgsl: log-probabilities of the chosen token and of the likeliest
//
// Shapes    logits: [rows, V] f32 as bits; sums: [slices, 2] u32; list: [V, 4] u32; ring: u32
// Dispatch  (1, 1, 1)
// Limits    the ring has room for 20
// Numerics  f32; within 1e-5 for probabilities above 1e-40
// Twin      backend/sampling.rs::logprobs
// Params    none
// Needs     WG_SIZE, SLICES; LEAST_LIST, MOST_LIST (other lists are another dispatch's);
//           common/sample.wgsl, common/sample_pick.wgsl, common/sample_group_*.wgsl
// Source    own
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> sums: array<u32>;
@group(0) @binding(3) var<storage, read> list: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> pick: array<u32>;
@group(0) @binding(5) var<storage, read> count: array<u32>;
@group(0) @binding(6) var<storage, read_write> ring: array<u32>;

// The likelier of two, but one that comes after the last.
fn later(next: vec2<u32>, i: u32, listed: u32, last: vec2<u32>) -> vec2<u32> {
    let entry = list[min(i, listed - 1u)].xy;
    let is_after = entry.x < last.x || (entry.x == last.x && entry.y > last.y);
    let is_likelier = entry.x > next.x || (entry.x == next.x && entry.y < next.y);
    return select(next, entry, is_after && is_likelier);
}

// The likeliest after a key and an id. By eights, because llvmpipe ends an invocation's loops
// after 65,535 rounds in all.
fn next_top(lane: u32, listed: u32, last: vec2<u32>) -> vec2<u32> {
    var next = vec2<u32>(0u, 0xffffffffu);
    for (var i = lane; i < listed; i += 8u * WG_SIZE) {
        next = later(next, i, listed, last);
        next = later(next, i + WG_SIZE, listed, last);
        next = later(next, i + 2u * WG_SIZE, listed, last);
        next = later(next, i + 3u * WG_SIZE, listed, last);
        next = later(next, i + 4u * WG_SIZE, listed, last);
        next = later(next, i + 5u * WG_SIZE, listed, last);
        next = later(next, i + 6u * WG_SIZE, listed, last);
        next = later(next, i + 7u * WG_SIZE, listed, last);
    }
    return group_best(lane, next);
}

@compute @workgroup_size(WG_SIZE)
fn sample_logprobs(@builtin(local_invocation_index) lane: u32) {
    let listed = count[TOPS];
    if listed < LEAST_LIST || listed > MOST_LIST {
        return;
    }
    var sum = vec2<u32>();
    for (var slice = lane; slice < SLICES; slice += WG_SIZE) {
        sum = wide_add(sum, vec2<u32>(sums[2u * slice], sums[2u * slice + 1u]));
    }
    sum = group_sum(lane, vec3<u32>(0u, sum)).yz;
    let slot = sampler_state[OUT_SLOT] * RING_WORDS;
    let largest = bitcast<f32>(bits_of(pick[RAW_LARGEST]));
    // In units of the largest weight, 2^44.
    let total = log(f32(sum.y) / 4096.0 + f32(sum.x) / 17592186044416.0);
    if lane == 0u {
        let chosen = key_of(logits[sampler_state[ROW] + ring[slot]]);
        let logprob = (bitcast<f32>(bits_of(chosen)) - largest) - total;
        ring[slot + 2u] = bitcast<u32>(logprob);
    }
    let wanted = group_same(lane, min(listed, sampler_state[TOP_COUNT]));
    var last = vec2<u32>(0xffffffffu, 0u);
    for (var i = 0u; i < wanted; i++) {
        last = next_top(lane, listed, last);
        if lane == 0u {
            let logprob = (bitcast<f32>(bits_of(last.x)) - largest) - total;
            ring[slot + 4u + i] = last.y;
            ring[slot + 24u + i] = bitcast<u32>(logprob);
        }
    }
    if lane == 0u {
        ring[slot + 3u] = wanted;
    }
}
