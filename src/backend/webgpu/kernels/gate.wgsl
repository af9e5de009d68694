// gate.wgsl: y[t,f] = activation(products[t,f]) * products[t,F+f], where gate and up are not
// rows of one piece
//
// Shapes    products: [T, 2 F] f32, rows products_stride apart; y: [T, F] f32
// Dispatch  (ceil(F / WG_SIZE), T, 1)
// Limits    F >= 1
// Numerics  f32; NMSE <= 1e-10
// Twin      kernels/linear/case.rs::plain
// Params    kernels/gate.rs::Params
// Needs     WG_SIZE; activation_*.wgsl
struct Params {
    width: u32, // F
    products_stride: u32, // elements
    y_stride: u32, // elements
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> products: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn gate(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= params.width {
        return;
    }
    let at = id.y * params.products_stride + id.x;
    let value = activation(products[at]) * products[at + params.width];
    y[id.y * params.y_stride + id.x] = value;
}
