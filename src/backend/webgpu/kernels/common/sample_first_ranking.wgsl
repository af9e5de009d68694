// sample_first_ranking.wgsl: in a short list every lane ranks its logits among all
//
// Needs     list, pick; WG_SIZE, SHORT_LIST; common/sample_halving.wgsl and what it needs
var<workgroup> rivals: array<vec4<u32>, SHORT_LIST>;

fn first_enough(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    var found = vec2<u32>();
    if listed <= SHORT_LIST {
        found = ranked(lane, listed, stage, goal);
    }
    if found.x == 0u {
        found = halving(lane, listed, stage, goal);
    }
    return found;
}

fn ranked(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    workgroupBarrier();
    for (var i = lane; i < listed; i += WG_SIZE) {
        rivals[i] = list[i];
    }
    workgroupBarrier();
    let before = vec3<u32>(pick[BEFORE], pick[BEFORE + 1u], pick[BEFORE + 2u]);
    var found = vec2<u32>();
    for (var i = lane; i < listed; i += WG_SIZE) {
        let entry = rivals[i];
        var ahead = before;
        for (var j = 0u; j < listed; j++) {
            let rival = rivals[j];
            if rival.x > entry.x || (rival.x == entry.x && rival.y < entry.y) {
                ahead = both_add(ahead, vec3<u32>(1u, rival.zw));
            }
        }
        let passed = both_add(ahead, vec3<u32>(1u, entry.zw));
        if is_enough(stage, passed, goal) && !is_enough(stage, ahead, goal) {
            found = entry.xy;
        }
    }
    return group_best(lane, found);
}
