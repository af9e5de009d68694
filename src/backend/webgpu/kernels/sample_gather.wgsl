// sample_gather.wgsl: lists the logits of the bins that decide
//
// Shapes    z: [V] f32 as bits; list: [V, 4] u32: key, id, weight
// Dispatch  (GROUPS, 1, 1)
// Limits    -
// Numerics  as sample_hist.wgsl; the list's order is left open
// Twin      backend/sampling/draw.rs
// Params    kernels/sample.rs::source
// Needs     WG_SIZE, GROUPS, VOCAB, BINS; common/sample.wgsl, common/sample_pick.wgsl
// Source    own
struct Source {
    is_row: u32,
    round: u32, // of the list's count
}

@group(0) @binding(0) var<uniform> source: Source;
@group(0) @binding(1) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(2) var<storage, read> z: array<u32>;
@group(0) @binding(3) var<storage, read> pick: array<u32>;
@group(0) @binding(4) var<storage, read_write> list: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> count: array<atomic<u32>>;

@compute @workgroup_size(WG_SIZE)
fn sample_gather(@builtin(global_invocation_id) invocation: vec3<u32>) {
    if pick[STAGE] == STAGE_DONE {
        return;
    }
    let first = select(0u, sampler_state[ROW], source.is_row == 1u);
    let inverse_t = bitcast<f32>(sampler_state[INVERSE_T]);
    let largest = bitcast<f32>(bits_of(pick[LARGEST]));
    let first_bin = pick[FIRST_BIN];
    let last_bin = pick[LAST_BIN];
    // Most logits are turned away by one comparison: a bin below the last, and more than what
    // the subtraction rounds.
    let reach = f32(last_bin + 2u) * (MAX_DEPTH / f32(BINS)) / inverse_t;
    let least = largest - reach - abs(largest) * 1e-6;
    let floor_key = max(pick[FLOOR_KEY], key_of(bitcast<u32>(least)));
    for (var i = invocation.x; i < VOCAB; i += WG_SIZE * GROUPS) {
        let key = key_of(z[first + i]);
        if key >= floor_key {
            let depth = depth_of(largest, key, inverse_t);
            let bin = u32(min(depth, MAX_DEPTH) * (f32(BINS) / MAX_DEPTH));
            if depth < MAX_DEPTH && bin >= first_bin && bin <= last_bin {
                list[atomicAdd(&count[source.round], 1u)] = vec4<u32>(key, i, weight_of(depth));
            }
        }
    }
}
