// rope_table.wgsl: (cos, sin) of position * frequency, times a factor, for the rows of a pass
//
// Shapes    frequencies: [PAIRS] f32, radians a position; rotations: [T, PAIRS] vec2
// Dispatch  (ceil(T PAIRS / WG_SIZE), 1, 1): one invocation a pair
// Limits    frequencies >= 0; angles below 2^24
// Numerics  the angle is rounded to f32, as models are trained; its sine and cosine are right
//           to 2e-7 for every angle, where WGSL's own are only bounded within [-pi, pi], to 2^-11
// Twin      kernels/rope_table.rs::plain
// Params    kernels/rope_table.rs::Params
// Needs     WG_SIZE, PAIRS; common/step.wgsl
// Source    Su et al. 2021, arXiv:2104.09864; Payne & Hanek 1983 for the reduction
struct Params {
    magnitude: f32, // factor on both
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> frequencies: array<f32>;
@group(0) @binding(3) var<storage, read_write> rotations: array<vec2<f32>>;

// 1 / (2 pi) as a fraction of 64 bits.
const TURNS_HIGH: u32 = 0x28be60dbu;
const TURNS_LOW: u32 = 0x9391054au;

// 2 pi / 2^32: radians of the last bit of a phase.
const PHASE_RADIANS: f32 = 1.4629180792671596e-9;

// (low, high) word of a product.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross_a = (a & 0xffffu) * (b >> 16u);
    let cross_b = (a >> 16u) * (b & 0xffffu);
    let middle = (low >> 16u) + (cross_a & 0xffffu) + (cross_b & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (cross_a >> 16u) + (cross_b >> 16u) + (middle >> 16u);
    return vec2<u32>((low & 0xffffu) | (middle << 16u), high);
}

// The angle in units of 2^-32 turns, whole turns dropped. Integers, because a compiler may
// reorder floating-point steps, and this has to be exact.
fn phase(angle: f32) -> u32 {
    let bits = bitcast<u32>(angle);
    let exponent = (bits >> 23u) & 0xffu;
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    // angle = mantissa / 2^shift.
    let shift = 150u - min(exponent, 150u);
    var product = wide_product(mantissa, TURNS_HIGH);
    let low = product.x + wide_product(mantissa, TURNS_LOW).y;
    product.y += select(0u, 1u, low < product.x);
    product.x = low;
    if shift == 0u {
        return product.x;
    }
    if shift < 32u {
        return (product.y << (32u - shift)) | (product.x >> shift);
    }
    if shift < 64u {
        return product.y >> (shift - 32u);
    }
    return 0u;
}

@compute @workgroup_size(WG_SIZE)
fn rope_table(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let t = invocation.x / PAIRS;
    if t >= step_rows() {
        return;
    }
    let angle = f32(row_position(t)) * frequencies[invocation.x % PAIRS];
    let turned = phase(angle);
    let quarter = (turned + 0x20000000u) >> 30u;
    // Within an eighth of a turn of the nearest quarter.
    let x = f32(bitcast<i32>(turned - (quarter << 30u))) * PHASE_RADIANS;
    let xx = x * x;
    let sin_x = x + x * xx * (-1.0 / 6.0 + xx * (1.0 / 120.0 + xx * (-1.0 / 5040.0
        + xx * (1.0 / 362880.0))));
    let cos_x = 1.0 + xx * (-0.5 + xx * (1.0 / 24.0 + xx * (-1.0 / 720.0
        + xx * (1.0 / 40320.0 - xx * (1.0 / 3628800.0)))));
    let is_odd = (quarter & 1u) == 1u;
    var rotation = vec2<f32>(select(cos_x, -sin_x, is_odd), select(sin_x, cos_x, is_odd));
    if (quarter & 2u) == 2u {
        rotation = -rotation;
    }
    rotations[invocation.x] = rotation * params.magnitude;
}
