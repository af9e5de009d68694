// sample_hist.wgsl: number and weight of the logits by their depth below the largest
//
// Shapes    z: [V] f32 as bits; hist: [slices, BINS + 1, 3] u32: number, weight; the last bin
//           holds what is below the floor
// Dispatch  (GROUPS, 1, 1)
// Limits    V <= 2^19
// Numerics  exact sums of weights that are exp to 2 ulp
// Twin      backend/sampling/draw.rs
// Params    kernels/sample.rs::source
// Needs     WG_SIZE, GROUPS, VOCAB, BINS; common/sample.wgsl, common/sample_pick.wgsl,
//           common/sample_group_*.wgsl, common/sample_bins_*.wgsl
// Source    own
struct Source {
    is_row: u32,
}

@group(0) @binding(0) var<uniform> source: Source;
@group(0) @binding(1) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(2) var<storage, read> z: array<u32>;
@group(0) @binding(3) var<storage, read> pick: array<u32>;
@group(0) @binding(4) var<storage, read_write> hist: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_hist(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let slice = slice_of(group.x, lane);
    let first = select(0u, sampler_state[ROW], source.is_row == 1u);
    let inverse_t = bitcast<f32>(sampler_state[INVERSE_T]);
    let largest = bitcast<f32>(bits_of(pick[LARGEST]));
    let floor_key = pick[FLOOR_KEY];
    bins_clear(lane, slice);
    for (var i = group.x * WG_SIZE + lane; i < VOCAB; i += WG_SIZE * GROUPS) {
        let key = key_of(z[first + i]);
        if is_finite_key(key) {
            let depth = depth_of(largest, key, inverse_t);
            if depth < MAX_DEPTH {
                let bin = u32(depth * (f32(BINS) / MAX_DEPTH));
                bins_add(slice, select(BINS, bin, key >= floor_key), weight_of(depth));
            }
        }
    }
    bins_flush(lane, slice);
}
