// sample_choose.wgsl: where the kept ones end, and which one is drawn, on a list of logits
//
// Both are the first place in the order of ranks (falling logit, then rising id) at which
// enough has been passed, so both are found by halving: first the range of keys, then, among
// equal logits, the range of ids.
//
// Shapes    list: [V, 4] u32: key, id, weight; pick, ring: u32
// Dispatch  (1, 1, 1)
// Limits    -
// Numerics  exact
// Twin      backend/sampling/draw.rs
// Params    none
// Needs     WG_SIZE, VOCAB, BINS; LEAST_LIST, MOST_LIST (other lists are another dispatch's);
//           common/sample.wgsl, common/sample_pick.wgsl, common/sample_walk.wgsl,
//           common/sample_group_*.wgsl
// Source    own
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> list: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> pick: array<u32>;
@group(0) @binding(3) var<storage, read_write> count: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> ring: array<u32>;

fn add_passed(sum: vec3<u32>, i: u32, listed: u32, rank: vec2<u32>) -> vec3<u32> {
    let entry = list[min(i, listed - 1u)];
    if i < listed && (entry.x > rank.x || (entry.x == rank.x && entry.y <= rank.y)) {
        return vec3<u32>(sum.x + 1u, wide_add(sum.yz, entry.zw));
    }
    return sum;
}

// Number and weight of all ranks up to and including a key and an id. By fours, because llvmpipe
// ends an invocation's loops after 65,535 rounds in all.
fn passed(lane: u32, listed: u32, rank: vec2<u32>) -> vec3<u32> {
    var sum = vec3<u32>();
    for (var i = lane; i < listed; i += 4u * WG_SIZE) {
        sum = add_passed(sum, i, listed, rank);
        sum = add_passed(sum, i + WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 2u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 3u * WG_SIZE, listed, rank);
    }
    return group_sum(lane, sum);
}

fn is_enough(stage: u32, sum: vec3<u32>, goal: vec2<u32>) -> bool {
    let all = vec3<u32>(sum.x + pick[BEFORE],
        wide_add(sum.yz, vec2<u32>(pick[BEFORE + 1u], pick[BEFORE + 2u])));
    if stage == STAGE_CUT {
        return all.x >= sampler_state[TOP_K] || !wide_less(all.yz, goal);
    }
    return wide_less(goal, all.yz);
}

// The largest key of the list, or the smallest with all bits turned around.
fn extreme(lane: u32, listed: u32, turned: u32) -> u32 {
    var best = 0u;
    for (var i = lane; i < listed; i += WG_SIZE) {
        best = max(best, list[i].x ^ turned);
    }
    return group_best(lane, vec2<u32>(best, 0u)).x ^ turned;
}

// The lowest id of a key.
fn lowest(lane: u32, listed: u32, key: u32) -> u32 {
    var best = vec2<u32>(0u, VOCAB);
    for (var i = lane; i < listed; i += WG_SIZE) {
        if list[i].x == key && list[i].y < best.y {
            best = vec2<u32>(1u, list[i].y);
        }
    }
    return group_best(lane, best).y;
}

// The first rank at which enough is passed, the last one if it never is.
fn first_enough(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    // Keys fall along the ranks.
    var least = extreme(lane, listed, 0xffffffffu);
    var most = extreme(lane, listed, 0u);
    while least < most {
        let key = most - (most - least) / 2u;
        let sum = passed(lane, listed, vec2<u32>(key, VOCAB));
        if group_same(lane, u32(is_enough(stage, sum, goal))) == 1u {
            least = key;
        } else {
            most = key - 1u;
        }
    }
    let key = least;
    var first = lowest(lane, listed, key);
    let equals = passed(lane, listed, vec2<u32>(key, VOCAB)).x
        - passed(lane, listed, vec2<u32>(key, first)).x;
    // Most often no other logit is equal to it.
    var last = select(VOCAB, first, equals == 0u);
    while first < last {
        let id = first + (last - first) / 2u;
        let sum = passed(lane, listed, vec2<u32>(key, id));
        if group_same(lane, u32(is_enough(stage, sum, goal))) == 1u {
            last = id;
        } else {
            first = id + 1u;
        }
    }
    return vec2<u32>(key, first);
}

@compute @workgroup_size(WG_SIZE)
fn sample_choose(@builtin(local_invocation_index) lane: u32) {
    let listed = group_same(lane, atomicLoad(&count[0]));
    if listed < LEAST_LIST || listed > MOST_LIST {
        return;
    }
    var stage = group_same(lane, pick[STAGE]);
    if stage == STAGE_CUT {
        let first = pick[FIRST_BIN];
        let last = pick[LAST_BIN];
        let wanted = vec2<u32>(pick[WANTED], pick[WANTED + 1u]);
        let rank = first_enough(lane, listed, STAGE_CUT, wanted);
        let sum = passed(lane, listed, rank);
        if lane == 0u {
            let before = vec2<u32>(pick[BEFORE + 1u], pick[BEFORE + 2u]);
            let mass = wide_add(sum.yz, before);
            pick[MASS] = mass.x;
            pick[MASS + 1u] = mass.y;
            if first == 0u {
                // The list begins with the first rank: the draw is in it.
                pick[STAGE] = STAGE_DRAW;
            } else {
                seek_draw();
            }
            if first != 0u && pick[FIRST_BIN] != last {
                // Another bin's, of which a list has to be made.
                atomicStore(&count[0], 0u);
                stage = STAGE_DONE;
            } else {
                stage = STAGE_DRAW;
            }
        }
        group_wrote();
        stage = group_same(lane, stage);
    }
    if stage == STAGE_DRAW {
        let rank = first_enough(lane, listed, STAGE_DRAW, draw_target());
        if lane == 0u {
            pick[STAGE] = STAGE_DONE;
            pick[CHOSEN] = rank.y;
            ring[sampler_state[OUT_SLOT] * RING_WORDS] = rank.y;
            atomicStore(&count[0], 0u);
        }
    }
}
