// sample_halving.wgsl: the first rank at which enough is passed, in a list of any length
//
// First the range of keys is halved until one is left, then, among equal logits, the range of
// ids.
//
// Needs     list, pick; WG_SIZE, VOCAB; common/sample.wgsl, common/sample_pick.wgsl,
//           common/sample_walk.wgsl, common/sample_group_*.wgsl

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

// The largest key of the list, or the smallest with all bits turned around.
fn extreme_key(lane: u32, listed: u32, turned: u32) -> u32 {
    var best = 0u;
    for (var i = lane; i < listed; i += WG_SIZE) {
        best = max(best, list[i].x ^ turned);
    }
    return group_best(lane, vec2<u32>(best, 0u)).x ^ turned;
}

// The same of the ids that have a key.
fn extreme_id(lane: u32, listed: u32, key: u32, turned: u32) -> u32 {
    var best = 0u;
    for (var i = lane; i < listed; i += WG_SIZE) {
        best = max(best, select(0u, list[i].y ^ turned, list[i].x == key));
    }
    return group_best(lane, vec2<u32>(best, 0u)).x ^ turned;
}

// The last rank if enough never is.
fn halving(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    let before = vec3<u32>(pick[BEFORE], pick[BEFORE + 1u], pick[BEFORE + 2u]);
    // Keys fall along the ranks.
    var least = extreme_key(lane, listed, 0xffffffffu);
    var most = extreme_key(lane, listed, 0u);
    while least < most {
        let key = most - (most - least) / 2u;
        let sum = both_add(before, passed(lane, listed, vec2<u32>(key, VOCAB)));
        if group_same(lane, u32(is_enough(stage, sum, goal))) == 1u {
            least = key;
        } else {
            most = key - 1u;
        }
    }
    let key = least;
    // Most often no other logit is equal to it.
    var first = extreme_id(lane, listed, key, 0xffffffffu);
    var last = extreme_id(lane, listed, key, 0u);
    while first < last {
        let id = first + (last - first) / 2u;
        let sum = both_add(before, passed(lane, listed, vec2<u32>(key, id)));
        if group_same(lane, u32(is_enough(stage, sum, goal))) == 1u {
            last = id;
        } else {
            first = id + 1u;
        }
    }
    return vec2<u32>(key, first);
}
