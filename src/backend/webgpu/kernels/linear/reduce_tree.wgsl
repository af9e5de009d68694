// reduce_tree.wgsl: sums of SUMS vectors over a workgroup through its memory
//
// Needs     WG_SIZE, a power of two; SUMS
var<workgroup> partial: array<vec4<f32>, WG_SIZE * SUMS>;

// Lane 0 gets the sums; every lane has to call, once.
fn reduce(lane: u32, own: array<vec4<f32>, SUMS>) -> array<vec4<f32>, SUMS> {
    var sums = own;
    for (var i = 0u; i < SUMS; i++) {
        partial[i * WG_SIZE + lane] = sums[i];
    }
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            for (var i = 0u; i < SUMS; i++) {
                sums[i] += partial[i * WG_SIZE + lane + half];
                partial[i * WG_SIZE + lane] = sums[i];
            }
        }
        workgroupBarrier();
    }
    return sums;
}
