//! Rotary frequencies.

use super::config::Config;
use crate::backend::RopeSpec;

/// Frequencies `theta^(-2 i / n)` of the pairs, divided by the linear factor and by the
/// file's own factors where it has them (Llama 3's `rope_freqs.weight`, one a pair).
///
/// Source: Su et al. 2021, <https://arxiv.org/abs/2104.09864>.
pub(super) fn rope_spec(config: &Config, factors: Option<&[f32]>) -> RopeSpec {
    let dims = config.rope_dims as f64;
    let theta = f64::from(config.rope_theta);
    let frequency = |pair: usize| {
        let plain = theta.powf(-2.0 * pair as f64 / dims);
        let factor = factors.map_or(1.0, |f| f64::from(f[pair]));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounded to the precision in use"
        )]
        let scaled = (plain / (factor * f64::from(config.rope_linear_factor))) as f32;
        scaled
    };
    RopeSpec {
        kind: config.architecture.rope_kind,
        frequencies: (0..config.rope_dims / 2).map(frequency).collect(),
        magnitude: 1.0,
    }
}
