// reduce_tree.wgsl: sums over a workgroup through its memory
//
// Needs     WG_SIZE, a power of two
var<workgroup> sums: array<f32, WG_SIZE>;

// Every lane gets the sum; every lane has to call.
fn workgroup_sum(lane: u32, value: f32) -> f32 {
    // The last reader of an earlier sum must be done.
    workgroupBarrier();
    sums[lane] = value;
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            sums[lane] += sums[lane + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}
