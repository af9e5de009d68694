// sample_bound.wgsl: joins the slices' histograms and finds the bins that decide
//
// Shapes    hist: [slices, BINS + 1, 3] u32; pick: u32
// Dispatch  (1, 1, 1)
// Limits    -
// Numerics  exact
// Twin      backend/sampling/draw.rs
// Params    none
// Needs     WG_SIZE, SLICES, BINS, SHORT_LIST; common/sample.wgsl, common/sample_pick.wgsl,
//           common/sample_walk.wgsl, common/sample_group_*.wgsl
// Source    own
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> hist: array<u32>;
@group(0) @binding(2) var<storage, read_write> pick: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_bound(@builtin(local_invocation_index) lane: u32) {
    var kept = vec3<u32>();
    var total = vec3<u32>();
    for (var i = 0u; i <= LANE_BINS; i++) {
        // The last round is for the bin of what is below the floor.
        let bin = select(BINS, lane * LANE_BINS + i, i < LANE_BINS);
        if bin < BINS || (bin == BINS && lane == 0u) {
            var sum = vec3<u32>();
            for (var slice = 0u; slice < SLICES; slice++) {
                let at = 3u * (slice * (BINS + 1u) + bin);
                sum = both_add(sum, vec3<u32>(hist[at], hist[at + 1u], hist[at + 2u]));
            }
            pick[MERGED + 3u * bin] = sum.x;
            pick[MERGED + 3u * bin + 1u] = sum.y;
            pick[MERGED + 3u * bin + 2u] = sum.z;
            total = both_add(total, sum);
            if bin < BINS {
                kept = both_add(kept, sum);
            }
        }
    }
    if group_same(lane, pick[FAULT]) != 0u {
        return;
    }
    kept = group_sum(lane, kept);
    total = group_sum(lane, total);
    let share = sampler_state[TOP_P];
    var wanted = vec2<u32>(0xffffffffu, 0xffffffffu);
    if share != 0u {
        wanted = wide_share(total.yz, share);
    }
    if lane == 0u {
        pick[WANTED] = wanted.x;
        pick[WANTED + 1u] = wanted.y;
        // Of all, unless a cut is found.
        pick[MASS] = kept.y;
        pick[MASS + 1u] = kept.z;
    }
    if crossing(lane, STAGE_CUT, wanted) == 0u {
        crossing(lane, STAGE_DRAW, draw_goal(kept.yz));
    }
}
