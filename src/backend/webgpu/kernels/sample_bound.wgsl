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
    for (var bin = lane; bin <= BINS; bin += WG_SIZE) {
        var number = 0u;
        var weight = vec2<u32>();
        for (var slice = 0u; slice < SLICES; slice++) {
            let at = 3u * (slice * (BINS + 1u) + bin);
            number += hist[at];
            weight = wide_add(weight, vec2<u32>(hist[at + 1u], hist[at + 2u]));
        }
        pick[MERGED + 3u * bin] = number;
        pick[MERGED + 3u * bin + 1u] = weight.x;
        pick[MERGED + 3u * bin + 2u] = weight.y;
    }
    group_wrote();
    if lane == 0u && pick[FAULT] == 0u {
        bound();
    }
}

fn bound() {
    var total = vec2<u32>();
    for (var bin = 0u; bin <= BINS; bin++) {
        total = wide_add(total, merged_weight(bin));
    }
    let share = sampler_state[TOP_P];
    var wanted = vec2<u32>(0xffffffffu, 0xffffffffu);
    if share != 0u {
        wanted = wide_share(total, share);
    }
    pick[WANTED] = wanted.x;
    pick[WANTED + 1u] = wanted.y;
    var number = 0u;
    var mass = vec2<u32>();
    for (var bin = 0u; bin < BINS; bin++) {
        let next_number = number + pick[MERGED + 3u * bin];
        let next_mass = wide_add(mass, merged_weight(bin));
        if next_number >= sampler_state[TOP_K] || !wide_less(next_mass, wanted) {
            // A short list holds all that can be chosen.
            let is_short = next_number <= SHORT_LIST;
            pick[STAGE] = STAGE_CUT;
            pick[FIRST_BIN] = select(bin, 0u, is_short);
            pick[LAST_BIN] = bin;
            pick[BEFORE] = select(number, 0u, is_short);
            pick[BEFORE + 1u] = select(mass.x, 0u, is_short);
            pick[BEFORE + 2u] = select(mass.y, 0u, is_short);
            return;
        }
        number = next_number;
        mass = next_mass;
    }
    pick[MASS] = mass.x;
    pick[MASS + 1u] = mass.y;
    seek_draw();
}
