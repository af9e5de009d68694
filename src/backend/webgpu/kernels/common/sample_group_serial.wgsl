// sample_group_serial.wgsl: every invocation works for itself
//
// Needs     WG_SIZE

fn slice_of(group: u32, lane: u32) -> u32 {
    return group * WG_SIZE + lane;
}

// Whether this lane writes what its slice has found.
fn leads(lane: u32) -> bool {
    return true;
}

fn group_same(lane: u32, value: u32) -> u32 {
    return value;
}

fn group_best(lane: u32, best: vec2<u32>) -> vec2<u32> {
    return best;
}

fn group_or(lane: u32, bits: u32) -> u32 {
    return bits;
}

fn group_sum(lane: u32, sum: vec3<u32>) -> vec3<u32> {
    return sum;
}

// Sums of all lanes before this one.
fn group_before(lane: u32, own: vec3<u32>) -> vec3<u32> {
    return vec3<u32>();
}

// Makes what a lane has written to storage visible to the others.
fn group_wrote() {
}
