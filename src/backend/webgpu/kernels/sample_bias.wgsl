// sample_bias.wgsl: adds what the host has listed
//
// Shapes    adjusted: [V] f32 as bits
// Dispatch  (LIST_GROUPS, 1, 1)
// Limits    equal ids follow one another
// Numerics  f32 with the twin's roundings
// Twin      backend/sampling/adjust.rs
// Params    none
// Needs     WG_SIZE, LIST_GROUPS; common/sample.wgsl, common/sample_penalty.wgsl
// Source    own
@group(0) @binding(0) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(1) var<storage, read_write> adjusted: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_bias(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let at = sampler_state[BIASES_AT];
    let number = sampler_state[NUM_BIASES];
    for (var i = invocation.x; i < number; i += WG_SIZE * LIST_GROUPS) {
        let id = sampler_state[at + 2u * i];
        let is_first = i == 0u || sampler_state[at + 2u * i - 2u] != id;
        if is_first && is_finite_key(key_of(adjusted[id])) {
            var z = bitcast<f32>(adjusted[id]);
            for (var j = i; j < number && sampler_state[at + 2u * j] == id; j++) {
                z += bitcast<f32>(sampler_state[at + 2u * j + 1u]);
                z = rounded(clamp(z, -MAX_FINITE, MAX_FINITE));
            }
            adjusted[id] = bitcast<u32>(z);
        }
    }
}
