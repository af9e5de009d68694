// sample_walk.wgsl: along the joined histogram
//
// Needs     pick, sampler_state; BINS; common/sample.wgsl, common/sample_pick.wgsl

fn merged_weight(bin: u32) -> vec2<u32> {
    return vec2<u32>(pick[MERGED + 3u * bin + 1u], pick[MERGED + 3u * bin + 2u]);
}

fn draw_target() -> vec2<u32> {
    return wide_share(vec2<u32>(pick[MASS], pick[MASS + 1u]), sampler_state[UNIFORM]);
}

// Sets the bin where the draw falls, once the weight of the kept ones is known.
fn seek_draw() {
    let goal = draw_target();
    var number = 0u;
    var mass = vec2<u32>();
    var bin = 0u;
    while bin < BINS {
        let next = wide_add(mass, merged_weight(bin));
        if wide_less(goal, next) {
            break;
        }
        number += pick[MERGED + 3u * bin];
        mass = next;
        bin += 1u;
    }
    pick[STAGE] = STAGE_DRAW;
    pick[FIRST_BIN] = bin;
    pick[LAST_BIN] = bin;
    pick[BEFORE] = number;
    pick[BEFORE + 1u] = mass.x;
    pick[BEFORE + 2u] = mass.y;
}
