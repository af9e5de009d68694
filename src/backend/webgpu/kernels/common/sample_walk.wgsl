// sample_walk.wgsl: along the joined histogram
//
// Needs     pick, sampler_state; WG_SIZE, BINS, SHORT_LIST; common/sample.wgsl,
//           common/sample_pick.wgsl, common/sample_group_*.wgsl

const LANE_BINS: u32 = (BINS + WG_SIZE - 1u) / WG_SIZE;

fn merged(bin: u32) -> vec3<u32> {
    let at = MERGED + 3u * bin;
    return vec3<u32>(pick[at], pick[at + 1u], pick[at + 2u]);
}

// Where the draw falls, once the weight of the kept ones is known.
fn draw_goal(mass: vec2<u32>) -> vec2<u32> {
    return wide_share(mass, sampler_state[UNIFORM]);
}

// Whether the kept ones, or the draw, end within these.
fn is_enough(stage: u32, passed: vec3<u32>, goal: vec2<u32>) -> bool {
    if stage == STAGE_CUT {
        return passed.x >= sampler_state[TOP_K] || !wide_less(passed.yz, goal);
    }
    return wide_less(goal, passed.yz);
}

// Finds the first bin at which enough is passed and notes what is to be listed: that bin or,
// if those up to it are few, all that can be chosen. 0 where there is none.
fn crossing(lane: u32, stage: u32, goal: vec2<u32>) -> u32 {
    var own = vec3<u32>();
    let first = lane * LANE_BINS;
    for (var bin = first; bin < min(first + LANE_BINS, BINS); bin++) {
        own = both_add(own, merged(bin));
    }
    var sum = group_before(lane, own);
    var found = 0u;
    for (var bin = first; bin < min(first + LANE_BINS, BINS); bin++) {
        let next = both_add(sum, merged(bin));
        if is_enough(stage, next, goal) && !is_enough(stage, sum, goal) {
            let all = stage == STAGE_CUT && next.x <= SHORT_LIST;
            pick[STAGE] = stage;
            pick[FIRST_BIN] = select(bin, 0u, all);
            pick[LAST_BIN] = bin;
            pick[BEFORE] = select(sum.x, 0u, all);
            pick[BEFORE + 1u] = select(sum.y, 0u, all);
            pick[BEFORE + 2u] = select(sum.z, 0u, all);
            found = bin + 1u;
        }
        sum = next;
    }
    return group_or(lane, found);
}
