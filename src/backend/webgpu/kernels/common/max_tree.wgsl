// max_tree.wgsl: maxima over a workgroup through its memory
//
// Needs     WG_SIZE, a power of two
var<workgroup> maxima: array<vec4<f32>, WG_SIZE>;

// Every lane gets the maxima; every lane has to call.
fn workgroup_max(lane: u32, values: vec4<f32>) -> vec4<f32> {
    // The last reader of earlier maxima must be done.
    workgroupBarrier();
    maxima[lane] = values;
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            maxima[lane] = max(maxima[lane], maxima[lane + half]);
        }
        workgroupBarrier();
    }
    return maxima[0];
}
