// query_quads.wgsl: queries by four, where heads are whole quads
//
// Needs     QUADS; common/attention.wgsl
@group(0) @binding(3) var<storage, read> qkv: array<vec4<f32>>;

fn query_quad(t: u32, head: u32, quad: u32) -> vec4<f32> {
    return qkv[t * (params.qkv_stride / 4u) + head * QUADS + quad];
}
