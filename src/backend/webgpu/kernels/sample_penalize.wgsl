// sample_penalize.wgsl: the penalties of the tokens that the host has listed
//
// Shapes    logits: [rows, V] f32 as bits; adjusted: [V] f32 as bits; ring: u32
// Dispatch  (LIST_GROUPS, 1, 1)
// Limits    each id once
// Numerics  f32 with the twin's roundings
// Twin      backend/sampling/adjust.rs
// Params    none
// Needs     WG_SIZE, LIST_GROUPS; common/sample.wgsl, common/sample_penalty.wgsl,
//           common/sample_pending.wgsl
// Source    Keskar et al. 2019, arXiv:1909.05858
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> ring: array<u32>;
@group(0) @binding(3) var<storage, read_write> adjusted: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_penalize(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let at = sampler_state[USED_AT];
    let row = sampler_state[ROW];
    for (var i = invocation.x; i < sampler_state[NUM_USED]; i += WG_SIZE * LIST_GROUPS) {
        let id = sampler_state[at + 2u * i];
        let in_answer = sampler_state[at + 2u * i + 1u] + pending_uses(id);
        if !is_masked(id) {
            adjusted[id] = penalized(logits[row + id], in_answer);
        }
    }
}
