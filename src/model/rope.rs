//! Rotary frequencies.

use super::config::Config;
use crate::backend::{RopeKind, RopeSpec};

/// Rotary position embedding of some layers, as the file describes it.
///
/// | field              | GGUF key (prefix: architecture)          |
/// |--------------------|------------------------------------------|
/// | `theta`            | `.rope.freq_base`, `.rope.freq_base_swa` |
/// | `dims`             | `.rope.dimension_count`                  |
/// | `scaling`          | `.rope.scaling.type`, `.factor`          |
/// | `magnitude`        | `.rope.scaling.attn_factor`              |
/// | `original_context` | `.rope.scaling.original_context_length`  |
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies.
    pub theta: f32,
    /// Leading elements of a head that are rotated; even.
    pub dims: usize,
    /// How frequencies are stretched to longer contexts.
    pub scaling: RopeScaling,
    /// Factor on sines and cosines.
    pub magnitude: f32,
    /// Positions that the model knew before it was stretched.
    pub original_context: usize,
}

/// How frequencies are stretched to longer contexts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// All are divided by this factor; 1 without scaling.
    Linear(f32),
    /// High ones stay, low ones are divided, those between are mixed.
    ///
    /// Source: Peng et al. 2023, <https://arxiv.org/abs/2309.00071>.
    Yarn {
        /// Divides the low frequencies.
        factor: f32,
        /// Share of the undivided frequency among the high ones, usually 1.
        mixed: f32,
        /// Factor on sines and cosines; `None`: `1 + 0.1 ln(factor)`.
        magnitude: Option<f32>,
        /// Turns over the original context above which a frequency stays.
        beta_fast: f32,
        /// Turns below which it is divided.
        beta_slow: f32,
    },
}

/// Frequencies of each rotary pair, and the factor on sines and cosines.
///
/// `theta^(-2 i / n)`, divided by the file's own factors where it has them (one a pair: Llama
/// 3's `rope_freqs.weight`, and the long or short factors of Phi-3), then scaled.
///
/// Source: Su et al. 2021, <https://arxiv.org/abs/2104.09864>.
pub(super) fn rope_spec(kind: RopeKind, rope: &RopeConfig, factors: Option<&[f32]>) -> RopeSpec {
    let dims = rope.dims as f64;
    let theta = f64::from(rope.theta);
    let frequency = |pair: usize| {
        let factor = factors.map_or(1.0, |f| f64::from(f[pair]));
        let plain = theta.powf(-2.0 * pair as f64 / dims) / factor;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounded to the precision in use"
        )]
        let scaled = (plain * stretch(rope, pair)) as f32;
        scaled
    };
    let magnitude = match rope.scaling {
        RopeScaling::Linear(_) => 1.0,
        RopeScaling::Yarn {
            factor, magnitude, ..
        } => magnitude.unwrap_or(1.0 + 0.1 * factor.max(1.0).ln()),
    };
    RopeSpec {
        kind,
        frequencies: (0..rope.dims / 2).map(frequency).collect(),
        magnitude: magnitude * rope.magnitude,
    }
}

/// Factor on the frequency of a pair.
fn stretch(rope: &RopeConfig, pair: usize) -> f64 {
    let (factor, mixed, beta_fast, beta_slow) = match rope.scaling {
        RopeScaling::Linear(factor) => return 1.0 / f64::from(factor),
        RopeScaling::Yarn {
            factor,
            mixed,
            beta_fast,
            beta_slow,
            ..
        } => (factor, mixed, beta_fast, beta_slow),
    };
    let dims = rope.dims as f64;
    // The pair, as a real number, that turns `beta` times over the original context.
    let pair_of = |beta: f32| {
        let wavelength = rope.original_context as f64 / (f64::from(beta) * std::f64::consts::TAU);
        dims * wavelength.ln() / (2.0 * f64::from(rope.theta).ln())
    };
    let first = pair_of(beta_fast).floor().max(0.0);
    let last = pair_of(beta_slow).ceil().min(dims - 1.0);
    let divided = ((pair as f64 - first) / (last - first).max(1e-3)).clamp(0.0, 1.0);
    let whole = (1.0 - divided) * f64::from(mixed);
    (1.0 - whole) / f64::from(factor) + whole
}

/// Names of the tensors that hold frequency factors.
pub(super) const FREQS: &str = "rope_freqs.weight";
/// Those for contexts beyond the original one.
pub(super) const LONG: &str = "rope_factors_long.weight";
/// Those for contexts within it.
pub(super) const SHORT: &str = "rope_factors_short.weight";

/// Which tensor holds the factors for a context of `context_length` positions, if the file has
/// one.
pub(super) fn factors_name(config: &Config, context_length: usize) -> &'static str {
    if context_length > config.rope.original_context {
        LONG
    } else {
        SHORT
    }
}
