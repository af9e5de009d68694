// sample_scan.wgsl: the largest logit of each slice, and whether all are numbers
//
// Shapes    z: [V] f32 as bits; found: [2, slices, 4] u32: size key, id, 1 where one is NaN or +inf
// Dispatch  (GROUPS, 1, 1)
// Limits    V >= 1
// Numerics  exact
// Twin      backend/sampling.rs::arg_max
// Params    kernels/sample.rs::source
// Needs     WG_SIZE, GROUPS, SLICES, VOCAB; common/sample.wgsl, common/sample_group_*.wgsl
// Source    own
struct Source {
    is_row: u32, // z is a row of the logits, not the adjusted copy
}

@group(0) @binding(0) var<uniform> source: Source;
@group(0) @binding(1) var<storage, read> sampler_state: array<u32>;
@group(0) @binding(2) var<storage, read> z: array<u32>;
@group(0) @binding(3) var<storage, read_write> found: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn sample_scan(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = select(0u, sampler_state[ROW], source.is_row == 1u);
    var best = vec2<u32>(0u, 0xffffffffu);
    var fault = 0u;
    for (var i = group.x * WG_SIZE + lane; i < VOCAB; i += WG_SIZE * GROUPS) {
        let key = key_of(z[first + i]);
        if key >= KEY_POS_INF || key < KEY_NEG_INF {
            fault = 1u;
        }
        if size_key(key) > best.x {
            best = vec2<u32>(size_key(key), i);
        }
    }
    best = group_best(lane, best);
    fault = group_or(lane, fault);
    if leads(lane) {
        let at = 4u * (slice_of(group.x, lane) + select(SLICES, 0u, source.is_row == 1u));
        found[at] = best.x;
        found[at + 1u] = best.y;
        found[at + 2u] = fault;
    }
}
