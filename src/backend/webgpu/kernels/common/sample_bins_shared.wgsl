// sample_bins_shared.wgsl: a workgroup has a histogram in its memory
//
// Needs     hist, declared by the kernel; BINS; WG_SIZE
var<workgroup> bins: array<atomic<u32>, 3u * (BINS + 1u)>;

fn bins_clear(lane: u32, slice: u32) {
    for (var i = lane; i < 3u * (BINS + 1u); i += WG_SIZE) {
        atomicStore(&bins[i], 0u);
    }
    workgroupBarrier();
}

fn bins_add(slice: u32, bin: u32, weight: vec2<u32>) {
    atomicAdd(&bins[3u * bin], 1u);
    let before = atomicAdd(&bins[3u * bin + 1u], weight.x);
    let carry = select(0u, 1u, before + weight.x < before);
    atomicAdd(&bins[3u * bin + 2u], weight.y + carry);
}

fn bins_flush(lane: u32, slice: u32) {
    workgroupBarrier();
    for (var i = lane; i < 3u * (BINS + 1u); i += WG_SIZE) {
        hist[slice * 3u * (BINS + 1u) + i] = atomicLoad(&bins[i]);
    }
}
