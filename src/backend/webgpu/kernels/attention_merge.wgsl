// attention_merge.wgsl: joins the parts of a row and head
//
// Shapes    parts: [T, H, PARTS, QUADS] vec4; stats: [T, H, PARTS] (largest score, sum of
//           weights); out: [T, H D] f32, rows a stride apart
// Dispatch  (ceil(T H QUADS / WG_SIZE), 1, 1): one invocation a quad
// Limits    some part of each row and head has weights
// Numerics  f32
// Twin      kernels/attention.rs::plain
// Params    kernels/attention.rs::Params
// Needs     WG_SIZE, HEADS, KV_HEADS, HEAD_DIM, QUADS, PARTS; common/step.wgsl, attention.wgsl
// Source    Milakov & Gimelshein 2018, arXiv:1805.02867
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn attention_merge(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let quad = invocation.x % QUADS;
    let row_head = invocation.x / QUADS;
    let t = row_head / HEADS;
    if t >= step_rows() {
        return;
    }
    let first = row_head * PARTS;
    var largest = LOWEST;
    for (var i = 0u; i < PARTS; i++) {
        largest = max(largest, stats[first + i].x);
    }
    var weight_sum = 0.0;
    var sum = vec4<f32>();
    for (var i = 0u; i < PARTS; i++) {
        let stat = stats[first + i];
        // A part without positions holds nothing to be read.
        if stat.y > 0.0 {
            let factor = exp(stat.x - largest);
            weight_sum += stat.y * factor;
            sum += parts[(first + i) * QUADS + quad] * factor;
        }
    }
    let mean = sum / weight_sum;
    let d = 4u * quad;
    let to = t * params.out_stride + row_head % HEADS * HEAD_DIM + d;
    out[to] = mean.x;
    if d + 1u < HEAD_DIM {
        out[to + 1u] = mean.y;
    }
    if d + 2u < HEAD_DIM {
        out[to + 2u] = mean.z;
    }
    if d + 3u < HEAD_DIM {
        out[to + 3u] = mean.w;
    }
}
