// query_scalars.wgsl: queries by four, zeros after D, for heads of any size
//
// Needs     HEAD_DIM; common/attention.wgsl
@group(0) @binding(3) var<storage, read> qkv: array<f32>;

fn query_element(first: u32, d: u32) -> f32 {
    if d < HEAD_DIM {
        return qkv[first + d];
    }
    return 0.0;
}

fn query_quad(t: u32, head: u32, quad: u32) -> vec4<f32> {
    let first = t * params.qkv_stride + head * HEAD_DIM;
    let d = 4u * quad;
    return vec4<f32>(
        query_element(first, d),
        query_element(first, d + 1u),
        query_element(first, d + 2u),
        query_element(first, d + 3u),
    );
}
