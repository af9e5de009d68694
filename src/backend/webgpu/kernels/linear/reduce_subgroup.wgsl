// reduce_subgroup.wgsl: sums of SUMS vectors over a workgroup, subgroup by subgroup
//
// Needs     WG_SIZE; SUMS; subgroups of 4 lanes or more, whose lanes follow one another
var<workgroup> partial: array<vec4<f32>, WG_SIZE / 4u * SUMS>;

// Lane 0 gets the sums; every lane has to call, once.
fn reduce(lane: u32, own: array<vec4<f32>, SUMS>) -> array<vec4<f32>, SUMS> {
    var sums = own;
    let lanes = subgroupAdd(1u);
    for (var i = 0u; i < SUMS; i++) {
        sums[i] = subgroupAdd(sums[i]);
        if lane % lanes == 0u {
            partial[lane / lanes * SUMS + i] = sums[i];
        }
    }
    workgroupBarrier();
    if lane == 0u {
        for (var s = 1u; s < (WG_SIZE + lanes - 1u) / lanes; s++) {
            for (var i = 0u; i < SUMS; i++) {
                sums[i] += partial[s * SUMS + i];
            }
        }
    }
    return sums;
}
