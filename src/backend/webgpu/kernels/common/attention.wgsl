// attention.wgsl: what all kernels of attention share
//
// Needs     HEADS, KV_HEADS, HEAD_DIM
struct Params {
    qkv_stride: u32, // from row to row of qkv, elements
    out_stride: u32, // from row to row of out, elements
    window: u32, // positions that a row sees, itself included; 0: all
    scale: f32, // factor on the scores
    soft_cap: f32, // 0: none
}

@group(0) @binding(1) var<uniform> params: Params;

// Query heads that share a KV head.
const GROUP: u32 = HEADS / KV_HEADS;

// Below every score, and finite: compilers may take infinities for absent.
const LOWEST: f32 = -1e30;

// The first position that a row at `position` sees.
fn first_visible(position: u32) -> u32 {
    if params.window == 0u || position < params.window {
        return 0u;
    }
    return position + 1u - params.window;
}

// Scores from products of queries and keys.
fn scores_of(products: vec4<f32>) -> vec4<f32> {
    let scores = products * params.scale;
    if params.soft_cap == 0.0 {
        return scores;
    }
    // tanh is 1 there; some implementations overflow on the way to it.
    let bounded = clamp(scores / params.soft_cap, vec4<f32>(-15.0), vec4<f32>(15.0));
    return params.soft_cap * tanh(bounded);
}
