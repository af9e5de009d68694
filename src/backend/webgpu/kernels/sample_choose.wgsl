// sample_choose.wgsl: where the kept ones end, and which one is drawn, on a list of logits
//
// Both are the first place in the order of ranks (falling logit, then rising id) at which
// enough has been passed.
//
// Shapes    list: [V, 4] u32: key, id, weight; pick, ring: u32
// Dispatch  (1, 1, 1)
// Limits    -
// Numerics  exact
// Twin      backend/sampling/draw.rs
// Params    kernels/sample.rs::draw
// Needs     WG_SIZE, VOCAB, BINS, SHORT_LIST; LEAST_LIST, MOST_LIST (other lists are another
//           dispatch's); common/sample.wgsl, common/sample_pick.wgsl, common/sample_walk.wgsl,
//           common/sample_group_*.wgsl, common/sample_halving.wgsl, common/sample_first_*.wgsl
// Source    own
struct Round {
    number: u32, // of the list's count
}

@group(0) @binding(0) var<uniform> round: Round;
@group(0) @binding(1) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(2) var<storage, read> list: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> count: array<u32>;
@group(0) @binding(4) var<storage, read_write> pick: array<u32>;
@group(0) @binding(5) var<storage, read_write> ring: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_choose(@builtin(local_invocation_index) lane: u32) {
    let listed = count[round.number];
    if listed < LEAST_LIST || listed > MOST_LIST {
        return;
    }
    var stage = group_same(lane, pick[STAGE]);
    for (var i = 0u; i < 2u && stage != STAGE_DONE; i++) {
        var goal = vec2<u32>(pick[WANTED], pick[WANTED + 1u]);
        if stage == STAGE_DRAW {
            goal = draw_goal(vec2<u32>(pick[MASS], pick[MASS + 1u]));
        }
        let rank = first_enough(lane, listed, stage, goal);
        if stage == STAGE_DRAW {
            // The largest logit stays where a device did not end its search.
            if lane == 0u && rank.y < VOCAB {
                pick[STAGE] = STAGE_DONE;
                pick[CHOSEN] = rank.y;
                ring[sampler_state[OUT_SLOT] * RING_WORDS] = rank.y;
            }
            stage = STAGE_DONE;
        } else {
            stage = cut(lane, listed, rank);
        }
    }
}

// Takes the rank where the kept ones end; the stage that this list is good for then.
fn cut(lane: u32, listed: u32, rank: vec2<u32>) -> u32 {
    let before = vec3<u32>(pick[BEFORE], pick[BEFORE + 1u], pick[BEFORE + 2u]);
    let mass = both_add(before, passed(lane, listed, rank)).yz;
    let last = group_same(lane, pick[LAST_BIN]);
    var bin = last + 1u;
    // A list that begins with the first rank holds the draw; else it may be elsewhere.
    if group_same(lane, pick[FIRST_BIN]) != 0u {
        bin = crossing(lane, STAGE_DRAW, draw_goal(mass));
    }
    if lane == 0u {
        pick[MASS] = mass.x;
        pick[MASS + 1u] = mass.y;
    }
    group_wrote();
    return select(STAGE_DONE, STAGE_DRAW, bin == last + 1u);
}
