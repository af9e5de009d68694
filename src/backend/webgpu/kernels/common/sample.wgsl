// sample.wgsl: what the sampler's kernels share: its state, keys, weights, sums
//
// Weights are integers: exp(-x) in units of 2^-44, 64 bits in two words (low, high). Sums of
// them are exact, so that they depend neither on the order of summation nor on the device, and
// a sum over parts equals the sum over the whole.
//
// Needs     sampler_state, declared by the kernel as array<u32>; VOCAB

// Words of the state, as backend/webgpu/sampler.rs lays them out.
const OUT_SLOT: u32 = 0u;
const ROW: u32 = 1u; // first element of the row of logits
const TOP_K: u32 = 2u;
const TOP_P: u32 = 3u; // share of 2^32; 0 for all
const UNIFORM: u32 = 4u; // share of 2^32
const INVERSE_T: u32 = 5u;
const FLOOR: u32 = 6u; // T ln(min_p) and, in the next word, its rounding error
const TOP_COUNT: u32 = 8u;
const REPETITION: u32 = 9u;
const FREQUENCY: u32 = 10u;
const PRESENCE: u32 = 11u;
const ZERO: u32 = 12u;
const NUM_PENDING: u32 = 13u;
const MASK_AT: u32 = 14u; // 0 for none
const MASK_WORDS: u32 = 15u;
const PENDING: u32 = 16u;
const USED_AT: u32 = 24u;
const NUM_USED: u32 = 25u;
const BIASES_AT: u32 = 26u;
const NUM_BIASES: u32 = 27u;

const RING_WORDS: u32 = 64u;

// Keys order logits as f32::total_cmp does.
const NEG_INF_BITS: u32 = 0xff800000u;
const KEY_NEG_INF: u32 = 0x007fffffu;
const KEY_POS_INF: u32 = 0xff800000u;
const KEY_POS_ZERO: u32 = 0x80000000u;
const KEY_NEG_ZERO: u32 = 0x7fffffffu;

fn key_of(bits: u32) -> u32 {
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

// Keeps a compiler from merging this operation with the next one: two roundings stay two.
fn rounded(value: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(value) ^ sampler_state[ZERO]);
}

// Both zeros are one number where only sizes count.
fn size_key(key: u32) -> u32 {
    return select(key, KEY_POS_ZERO, key == KEY_NEG_ZERO);
}

fn bits_of(key: u32) -> u32 {
    return select(~key, key & 0x7fffffffu, (key >> 31u) == 1u);
}

fn is_finite_key(key: u32) -> bool {
    return key > KEY_NEG_INF && key < KEY_POS_INF;
}

// Distance below the largest logit in units of the temperature.
fn depth_of(largest: f32, key: u32, inverse_t: f32) -> f32 {
    let below = largest - bitcast<f32>(bits_of(key));
    return select(below * inverse_t, 0.0, below <= 0.0);
}

// Weights of less than half a unit are nothing.
const MAX_DEPTH: f32 = 32.0;

// exp(-x) for x in [0, MAX_DEPTH): to 2 units in the last place of an f32 on every device.
// Cody & Waite's reduction, then Taylor's polynomial on [-ln 2 / 2, ln 2 / 2].
fn weight_of(x: f32) -> vec2<u32> {
    let n = floor(x * 1.44269504 + 0.5);
    let r = (n * 0.693359375 - x) - n * 2.12194440e-4;
    var sum = 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    let scaled = sum * bitcast<f32>((139u - u32(n)) << 23u);
    let high = floor(scaled);
    return vec2<u32>(u32((scaled - high) * 4294967296.0), u32(high));
}

fn wide_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

// A number and a wide number each.
fn both_add(a: vec3<u32>, b: vec3<u32>) -> vec3<u32> {
    return vec3<u32>(a.x + b.x, wide_add(a.yz, b.yz));
}

fn wide_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let middle = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return vec2<u32>(
        (middle << 16u) | (low & 0xffffu),
        (a >> 16u) * (b >> 16u) + (cross >> 16u) + (middle >> 16u),
    );
}

// floor(a share / 2^32): less than a.
fn wide_share(a: vec2<u32>, share: u32) -> vec2<u32> {
    return wide_add(product(a.y, share), vec2<u32>(product(a.x, share).y, 0u));
}
