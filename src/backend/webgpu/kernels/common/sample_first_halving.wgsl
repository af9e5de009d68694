// sample_first_halving.wgsl: the search that needs no workgroup memory
//
// Needs     common/sample_halving.wgsl

fn first_enough(lane: u32, listed: u32, stage: u32, goal: vec2<u32>) -> vec2<u32> {
    return halving(lane, listed, stage, goal);
}
