// sample_penalty.wgsl: what changes a logit, with the host's roundings
//
// Needs     sampler_state; common/sample.wgsl

const MAX_FINITE: f32 = 3.4028234663852886e38;

// Division of positive numbers, rounded to the nearest: WGSL's own may be 2.5 units off.
fn divided(numerator: f32, denominator: f32) -> f32 {
    let a = bitcast<u32>(numerator);
    let b = bitcast<u32>(denominator);
    let divisor = (b & 0x7fffffu) | 0x800000u;
    var rest = (a & 0x7fffffu) | 0x800000u;
    var exponent = i32(a >> 23u) - i32(b >> 23u) + 127;
    if rest < divisor {
        rest <<= 1u;
        exponent -= 1;
    }
    let is_normal = (a >> 23u) != 0u && (b >> 23u) != 0u && exponent > 0 && exponent < 255;
    if !is_normal {
        return numerator / denominator;
    }
    rest -= divisor;
    var quotient = 1u;
    for (var i = 0u; i < 23u; i++) {
        rest <<= 1u;
        quotient <<= 1u;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1u;
        }
    }
    let is_above = 2u * rest > divisor || (2u * rest == divisor && (quotient & 1u) == 1u);
    // A quotient that rounds up to 2 carries into the exponent.
    return bitcast<f32>((u32(exponent) << 23u) + (quotient & 0x7fffffu) + u32(is_above));
}

// A logit of a token that has been used, in_answer times in the answer.
fn penalized(bits: u32, in_answer: u32) -> u32 {
    if !is_finite_key(key_of(bits)) {
        return bits;
    }
    let penalty = bitcast<f32>(sampler_state[REPETITION]);
    var z = bitcast<f32>(bits);
    if z > 0.0 {
        z = divided(z, penalty);
    } else {
        z = rounded(z * penalty);
    }
    if in_answer > 0u {
        let frequency = bitcast<f32>(sampler_state[FREQUENCY]);
        let presence = bitcast<f32>(sampler_state[PRESENCE]);
        z = rounded(z - rounded(f32(in_answer) * frequency)) - presence;
    }
    return bitcast<u32>(clamp(z, -MAX_FINITE, MAX_FINITE));
}

fn is_masked(id: u32) -> bool {
    let at = sampler_state[MASK_AT];
    if at == 0u {
        return false;
    }
    let word = id / 32u;
    return word >= sampler_state[MASK_WORDS]
        || ((sampler_state[at + word] >> (id % 32u)) & 1u) == 0u;
}
