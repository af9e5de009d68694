// sample_tops.wgsl: weights of the logits as the model gave them, and a list of the likeliest
//
// Shapes    logits: [rows, V] f32 as bits; sums: [slices, 2] u32; list: [V, 4] u32: size key, id
// Dispatch  (GROUPS, 1, 1)
// Limits    V <= 2^19
// Numerics  exact sums of weights that are exp to 2 ulp
// Twin      backend/sampling.rs::log_sum_exp
// Params    none
// Needs     WG_SIZE, GROUPS, VOCAB; common/sample.wgsl, common/sample_pick.wgsl,
//           common/sample_group_*.wgsl
// Source    own
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> pick: array<u32>;
@group(0) @binding(3) var<storage, read_write> sums: array<u32>;
@group(0) @binding(4) var<storage, read_write> list: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> count: array<atomic<u32>>;

@compute @workgroup_size(WG_SIZE)
fn sample_tops(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = sampler_state[ROW];
    let largest = bitcast<f32>(bits_of(pick[RAW_LARGEST]));
    let top_key = pick[TOP_KEY];
    let wants_list = sampler_state[TOP_COUNT] > 0u && pick[FAULT] == 0u;
    var sum = vec2<u32>();
    for (var i = group.x * WG_SIZE + lane; i < VOCAB; i += WG_SIZE * GROUPS) {
        let key = size_key(key_of(logits[row + i]));
        if is_finite_key(key) {
            let depth = depth_of(largest, key, 1.0);
            if depth < MAX_DEPTH {
                sum = wide_add(sum, weight_of(depth));
            }
            if wants_list && key >= top_key {
                list[atomicAdd(&count[TOPS], 1u)] = vec4<u32>(key, i, 0u, 0u);
            }
        }
    }
    sum = group_sum(lane, vec3<u32>(0u, sum)).yz;
    if leads(lane) {
        let slice = slice_of(group.x, lane);
        sums[2u * slice] = sum.x;
        sums[2u * slice + 1u] = sum.y;
    }
}
