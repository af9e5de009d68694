// Eight chains of multiplications with additions, four numbers wide, that wait for nothing.
// Bindings  y [N], N = invocations of the whole grid, rounded down by what the buffer holds
// Grid      rows of 1024 workgroups

@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(WG_SIZE)
fn multiply(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * (1024u * WG_SIZE) + id.x;
    if i >= arrayLength(&y) {
        return;
    }
    let first = vec4<f32>(f32(i));
    let half = vec4<f32>(0.5);
    let one = vec4<f32>(1.0);
    var a = first;
    var b = first + 1.0;
    var c = first + 2.0;
    var d = first + 3.0;
    var e = first + 4.0;
    var f = first + 5.0;
    var g = first + 6.0;
    var h = first + 7.0;
    for (var round = 0u; round < ROUNDS; round += 1u) {
        a = fma(a, half, one);
        b = fma(b, half, one);
        c = fma(c, half, one);
        d = fma(d, half, one);
        e = fma(e, half, one);
        f = fma(f, half, one);
        g = fma(g, half, one);
        h = fma(h, half, one);
    }
    y[i] = a + b + c + d + (e + f + g + h);
}
