//! Randomness by counter: the draw of token `index` depends on seed and index alone, so that
//! a generation that was suspended, or computed on other hardware, draws the same.

/// Uniform in `[0, 1)` with 53 random bits.
///
/// Source: the SplitMix64 finalizer, Steele, Lea & Flood 2014,
/// <https://doi.org/10.1145/2660193.2660195>.
pub(super) fn uniform(seed: u64, index: u64) -> f64 {
    // Two rounds: one alone maps (seed, index) and (seed + gamma, index - 1) to one value.
    let bits = mix(mix(seed).wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    let uniform = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    uniform
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_over_indices_and_over_seeds() {
        let check = |draws: Vec<f64>| {
            let mut buckets = [0_u32; 16];
            for draw in &draws {
                assert!((0.0..1.0).contains(draw));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "in 0..16"
                )]
                let bucket = (draw * 16.0) as usize;
                buckets[bucket] += 1;
            }
            let expected = draws.len() as f64 / 16.0;
            let chi2: f64 = buckets
                .iter()
                .map(|&n| (f64::from(n) - expected).powi(2) / expected)
                .sum();
            // 99.9 % point for 15 degrees of freedom.
            assert!(chi2 < 37.7, "{chi2}");
        };
        check((0..20_000).map(|index| uniform(7, index)).collect());
        check((0..20_000).map(|seed| uniform(seed, 3)).collect());
    }

    #[test]
    fn neighbouring_seeds_do_not_share_a_sequence() {
        let a: Vec<_> = (0..64).map(|i| uniform(1, i)).collect();
        let b: Vec<_> = (0..64).map(|i| uniform(2, i)).collect();
        assert!(a.iter().all(|x| !b.contains(x)));
    }
}
