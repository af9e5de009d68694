//! Randomness by counter: a draw depends on seed, lane and index alone, so that no request
//! changes what another one draws.

use std::f64::consts::TAU;

/// What a draw is for: equal indices of different purposes must not be related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Words of a seeded text.
    Text,
    /// Delays of tokens.
    Pace,
    /// Which replica takes a request.
    Route,
    /// Arrivals of a simulated load.
    Arrival,
    /// Service times of a simulated load.
    Service,
    /// Tiers of a simulated load.
    Tier,
}

/// One sequence of draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    key: u64,
}

impl Lane {
    /// The sequence of `purpose` and `number` (a request, say) under `seed`.
    pub(super) fn new(seed: u64, purpose: Purpose, number: u64) -> Self {
        let purpose = mix(purpose as u64 + 1);
        Self {
            key: mix(mix(mix(seed) ^ purpose).wrapping_add(number)),
        }
    }

    /// Uniform in `[0, 1)` with 53 random bits.
    ///
    /// Source: the SplitMix64 finalizer, Steele, Lea & Flood 2014,
    /// <https://doi.org/10.1145/2660193.2660195>.
    pub(super) fn uniform(self, index: u64) -> f64 {
        let bits = mix(self.key.wrapping_add(index.wrapping_mul(GAMMA)));
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let uniform = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        uniform
    }

    /// One of `count` choices; 0 where there is none.
    pub(super) fn below(self, index: u64, count: usize) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "counts are far below 2^53, and the product lies in 0..count"
        )]
        let choice = (self.uniform(index) * count as f64) as usize;
        choice
    }

    /// Standard normal: Box and Muller 1958, <https://doi.org/10.1214/aoms/1177706645>.
    pub(super) fn normal(self, index: u64) -> f64 {
        let (a, b) = (index.wrapping_mul(2), index.wrapping_mul(2).wrapping_add(1));
        // 1 - u lies in (0, 1]: its logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform(a)).ln()).sqrt();
        radius * (TAU * self.uniform(b)).cos()
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(self, index: u64) -> f64 {
        -(1.0 - self.uniform(index)).ln()
    }
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(draw: impl Fn(u64) -> f64) -> f64 {
        (0..20_000).map(draw).sum::<f64>() / 20_000.0
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let lane = Lane::new(42, Purpose::Pace, 3);
        assert!((mean(|i| lane.uniform(i)) - 0.5).abs() < 0.01);
        assert!(mean(|i| lane.normal(i)).abs() < 0.03);
        assert!((mean(|i| lane.normal(i).powi(2)) - 1.0).abs() < 0.04);
        assert!((mean(|i| lane.exponential(i)) - 1.0).abs() < 0.03);
        assert!((0..1000).all(|i| lane.below(i, 7) < 7));
        assert_eq!(lane.below(1, 0), 0);
    }

    #[test]
    fn lanes_of_other_seeds_purposes_and_numbers_share_no_draw() {
        let base = Lane::new(1, Purpose::Pace, 1);
        let others = [
            Lane::new(2, Purpose::Pace, 1),
            Lane::new(1, Purpose::Text, 1),
            Lane::new(1, Purpose::Pace, 2),
        ];
        let drawn: Vec<_> = (0..64).map(|i| base.uniform(i)).collect();
        for other in others {
            assert!((0..64).all(|i| !drawn.contains(&other.uniform(i))));
        }
    }
}
