// Copies 16 bytes an invocation.
// Bindings  x [N], y [N], N = invocations of the whole grid, rounded down by what the buffers hold
// Grid      rows of 1024 workgroups

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(WG_SIZE)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * (1024u * WG_SIZE) + id.x;
    if i < arrayLength(&y) {
        y[i] = x[i];
    }
}
