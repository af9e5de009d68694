// sample_adjust.wgsl: copies a row of logits; masked ones become minus infinity, and those of
// pending tokens are penalized
//
// Shapes    logits: [rows, V] f32 as bits; adjusted: [V] f32 as bits; ring: u32
// Dispatch  (GROUPS, 1, 1)
// Limits    -
// Numerics  f32 with the twin's roundings
// Twin      backend/sampling/adjust.rs
// Params    none
// Needs     WG_SIZE, GROUPS, VOCAB; common/sample.wgsl, common/sample_penalty.wgsl,
//           common/sample_pending.wgsl
// Source    Keskar et al. 2019, arXiv:1909.05858
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> ring: array<u32>;
@group(0) @binding(3) var<storage, read_write> adjusted: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_adjust(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let row = sampler_state[ROW];
    for (var id = invocation.x; id < VOCAB; id += WG_SIZE * GROUPS) {
        var bits = logits[row + id];
        let uses = pending_uses(id);
        if uses > 0u {
            bits = penalized(bits, uses);
        }
        adjusted[id] = select(bits, NEG_INF_BITS, is_masked(id));
    }
}
