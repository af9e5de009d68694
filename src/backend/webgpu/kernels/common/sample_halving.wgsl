// sample_halving.wgsl: the first rank at which enough is passed, in a list of any length
//
// First the range of keys is halved until one is left, then, among equal logits, the range of
// ids. Loops go by eights, because llvmpipe ends an invocation's loops after 65,535 rounds in
// all.
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

// Number and weight of all ranks up to and including a key and an id.
fn passed(lane: u32, listed: u32, rank: vec2<u32>) -> vec3<u32> {
    var sum = vec3<u32>();
    for (var i = lane; i < listed; i += 8u * WG_SIZE) {
        sum = add_passed(sum, i, listed, rank);
        sum = add_passed(sum, i + WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 2u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 3u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 4u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 5u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 6u * WG_SIZE, listed, rank);
        sum = add_passed(sum, i + 7u * WG_SIZE, listed, rank);
    }
    return group_sum(lane, sum);
}

// Places along the ranks rise: a key with all bits turned around or, of those that have a key,
// an id. The largest one, and the smallest with all bits turned around.
fn widen(range: vec2<u32>, i: u32, listed: u32, of_key: u32) -> vec2<u32> {
    let entry = list[min(i, listed - 1u)];
    let place = select(entry.y, ~entry.x, of_key == 0u);
    let is_in = of_key == 0u || entry.x == of_key;
    return select(range, max(range, vec2<u32>(place, ~place)), is_in);
}

fn places(lane: u32, listed: u32, of_key: u32) -> vec2<u32> {
    var range = vec2<u32>();
    for (var i = lane; i < listed; i += 8u * WG_SIZE) {
        range = widen(range, i, listed, of_key);
        range = widen(range, i + WG_SIZE, listed, of_key);
        range = widen(range, i + 2u * WG_SIZE, listed, of_key);
        range = widen(range, i + 3u * WG_SIZE, listed, of_key);
        range = widen(range, i + 4u * WG_SIZE, listed, of_key);
        range = widen(range, i + 5u * WG_SIZE, listed, of_key);
        range = widen(range, i + 6u * WG_SIZE, listed, of_key);
        range = widen(range, i + 7u * WG_SIZE, listed, of_key);
    }
    let last = group_best(lane, vec2<u32>(range.x, 0u)).x;
    return vec2<u32>(~group_best(lane, vec2<u32>(range.y, 0u)).x, last);
}

// The last rank if enough never is. One loop does both searches: every call is a copy of its
// function in what a device compiles.
fn halving(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    let before = vec3<u32>(pick[BEFORE], pick[BEFORE + 1u], pick[BEFORE + 2u]);
    var key = 0u;
    var place = 0u;
    for (var phase = 0u; phase < 2u; phase++) {
        let range = places(lane, listed, key);
        var first = range.x;
        var last = range.y;
        while first < last {
            let middle = first + (last - first) / 2u;
            let rank = select(vec2<u32>(key, middle), vec2<u32>(~middle, VOCAB), phase == 0u);
            let sum = both_add(before, passed(lane, listed, rank));
            if group_same(lane, u32(is_enough(stage, sum, goal))) == 1u {
                last = middle;
            } else {
                first = middle + 1u;
            }
        }
        key = select(key, ~first, phase == 0u);
        place = first;
    }
    return vec2<u32>(key, place);
}
