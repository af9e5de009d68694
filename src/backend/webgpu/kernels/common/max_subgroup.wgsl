// max_subgroup.wgsl: maxima over a workgroup, subgroup by subgroup
//
// Needs     WG_SIZE; subgroups of 4 lanes or more, whose lanes follow one another
var<workgroup> maxima: array<vec4<f32>, WG_SIZE / 4u>;

// Every lane gets the maxima; every lane has to call.
fn workgroup_max(lane: u32, values: vec4<f32>) -> vec4<f32> {
    let subgroup_lanes = subgroupAdd(1u);
    let most = subgroupMax(values);
    workgroupBarrier();
    if lane % subgroup_lanes == 0u {
        maxima[lane / subgroup_lanes] = most;
    }
    workgroupBarrier();
    var all = maxima[0];
    for (var i = 1u; i < WG_SIZE / subgroup_lanes; i++) {
        all = max(all, maxima[i]);
    }
    return all;
}
