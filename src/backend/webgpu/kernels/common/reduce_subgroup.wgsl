// reduce_subgroup.wgsl: sums over a workgroup, subgroup by subgroup
//
// Needs     WG_SIZE; subgroups of 4 lanes or more, whose lanes follow one another
var<workgroup> sums: array<f32, WG_SIZE / 4u>;

// Every lane gets the sum; every lane has to call.
fn workgroup_sum(lane: u32, value: f32) -> f32 {
    let subgroup_lanes = subgroupAdd(1u);
    let sum = subgroupAdd(value);
    workgroupBarrier();
    if lane % subgroup_lanes == 0u {
        sums[lane / subgroup_lanes] = sum;
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < WG_SIZE / subgroup_lanes; i++) {
        total += sums[i];
    }
    return total;
}
