// sample_pending.wgsl: tokens that were sampled but that the host has not seen
//
// Needs     sampler_state, ring; common/sample.wgsl

// How many of them are this token.
fn pending_uses(id: u32) -> u32 {
    var uses = 0u;
    for (var i = 0u; i < sampler_state[NUM_PENDING]; i++) {
        uses += u32(ring[sampler_state[PENDING + i] * RING_WORDS] == id);
    }
    return uses;
}
