// sample_bins_serial.wgsl: every invocation has a histogram of its own
//
// Needs     hist, declared by the kernel; BINS; common/sample.wgsl

fn bins_clear(lane: u32, slice: u32) {
    for (var i = 0u; i < 3u * (BINS + 1u); i++) {
        hist[slice * 3u * (BINS + 1u) + i] = 0u;
    }
}

fn bins_add(slice: u32, bin: u32, weight: vec2<u32>) {
    let at = 3u * (slice * (BINS + 1u) + bin);
    let sum = wide_add(vec2<u32>(hist[at + 1u], hist[at + 2u]), weight);
    hist[at] += 1u;
    hist[at + 1u] = sum.x;
    hist[at + 2u] = sum.y;
}

fn bins_flush(lane: u32, slice: u32) {
}
