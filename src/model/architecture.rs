//! What distinguishes one architecture from another, as data.

use crate::backend::RopeKind;
use crate::backend::ops::{Activation, NormSpan};

/// Traits of an architecture that its metadata does not spell out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// `general.architecture`, also the prefix of its metadata keys.
    pub name: &'static str,
    /// Which elements of a head form a rotary pair in its GGUF files.
    pub rope_kind: RopeKind,
    /// Activation of the feed-forward gate.
    pub activation: Activation,
    /// Norms before attention and before the feed-forward part.
    pub pre_norms: bool,
    /// Norms after them, before they are added to the residual stream.
    pub post_norms: bool,
    /// Norm of queries and keys before the rotation, over a head or over all heads.
    pub qk_norm: Option<NormSpan>,
    /// Biases of the attention projections.
    pub bias: Bias,
    /// Queries, keys and values lie in one tensor, gate and up in another.
    pub stacked: bool,
    /// Embeddings are multiplied by `sqrt(C)`.
    pub scaled_embedding: bool,
    /// Of each run of this many layers the last one sees all positions, where the file has a
    /// window but no pattern; 0: every layer has the window.
    pub window_period: usize,
    /// Rotation of the layers with a window.
    pub window_rope: WindowRope,
    /// Each layer of this ordinal has no rotation; 0: all have one.
    pub unrotated_period: usize,
    /// The number of layers of the one size whose attention scale is `1 / sqrt(C / H)`, where
    /// all others have `1 / sqrt(D)`.
    pub wide_scale_layers: Option<usize>,
    /// Keys without which a file's answers would be wrong, beside those that all need.
    pub required_keys: &'static [&'static str],
    /// Switches that, where a file turns them off, ask for what is not there.
    pub required_switches: &'static [&'static str],
}

/// Biases of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// None.
    Never,
    /// Of queries, keys and values, where a file has them.
    Qkv,
    /// Of queries, keys, values and of the output projection, where a file has them.
    QkvOutput,
}

/// Rotation of layers with a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowRope {
    /// As in all other layers.
    Same,
    /// The same base without the file's scaling.
    Unscaled,
    /// No scaling, and this base unless the file names one.
    Base(f32),
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    rope_kind: RopeKind::Interleaved,
    activation: Activation::Silu,
    pre_norms: true,
    post_norms: false,
    qk_norm: None,
    bias: Bias::QkvOutput,
    stacked: false,
    scaled_embedding: false,
    window_period: 0,
    window_rope: WindowRope::Same,
    unrotated_period: 0,
    wide_scale_layers: None,
    required_keys: &[],
    required_switches: &[],
};

/// Every architecture that [`forward`](super::forward) runs.
///
/// Source of the traits: the models' code in `transformers`, and for what GGUF does to them
/// llama.cpp's converter, <https://github.com/ggml-org/llama.cpp>.
const ARCHITECTURES: &[Architecture] = &[
    LLAMA,
    Architecture {
        name: "qwen2",
        rope_kind: RopeKind::Halves,
        bias: Bias::Qkv,
        ..LLAMA
    },
    Architecture {
        name: "qwen3",
        rope_kind: RopeKind::Halves,
        qk_norm: Some(NormSpan::Head),
        bias: Bias::Never,
        ..LLAMA
    },
    Architecture {
        name: "gemma2",
        rope_kind: RopeKind::Halves,
        activation: Activation::GeluTanh,
        post_norms: true,
        bias: Bias::Never,
        scaled_embedding: true,
        window_period: 2,
        wide_scale_layers: Some(46),
        required_keys: &[
            "attention.sliding_window",
            "attn_logit_softcapping",
            "final_logit_softcapping",
        ],
        ..LLAMA
    },
    Architecture {
        name: "gemma3",
        rope_kind: RopeKind::Halves,
        activation: Activation::GeluTanh,
        post_norms: true,
        qk_norm: Some(NormSpan::Head),
        bias: Bias::Never,
        scaled_embedding: true,
        window_period: 6,
        window_rope: WindowRope::Base(10_000.0),
        wide_scale_layers: Some(62),
        ..LLAMA
    },
    Architecture {
        name: "phi3",
        rope_kind: RopeKind::Halves,
        bias: Bias::Never,
        stacked: true,
        ..LLAMA
    },
    Architecture {
        name: "smollm3",
        bias: Bias::Never,
        unrotated_period: 4,
        ..LLAMA
    },
    Architecture {
        name: "olmo2",
        rope_kind: RopeKind::Halves,
        pre_norms: false,
        post_norms: true,
        qk_norm: Some(NormSpan::Row),
        bias: Bias::Never,
        window_period: 4,
        window_rope: WindowRope::Unscaled,
        ..LLAMA
    },
    Architecture {
        name: "granite",
        required_keys: &["logit_scale"],
        // Without rotation where it is false.
        required_switches: &["rope.scaling.finetuned"],
        ..LLAMA
    },
];

/// What the compat artifact runs beside these: `general.architecture`, and how a message calls
/// it where a file of that name is of this kind only with experts.
pub const COMPAT_ARCHITECTURES: &[(&str, &str)] = &[
    ("glm4", "glm4"),
    ("lfm2", "lfm2"),
    ("llama", "llama with experts"),
    ("phi2", "phi2"),
];

impl Architecture {
    /// Looks an architecture up by its GGUF name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        ARCHITECTURES.iter().find(|a| a.name == name).copied()
    }

    /// Names of all architectures, comma-separated, then those of the compat artifact.
    #[must_use]
    pub fn supported() -> String {
        let names: Vec<_> = ARCHITECTURES.iter().map(|a| a.name).collect();
        let compat: Vec<_> = COMPAT_ARCHITECTURES.iter().map(|(_, name)| *name).collect();
        format!(
            "{}; by the compat artifact: {}",
            names.join(", "),
            compat.join(", ")
        )
    }

    /// Whether the compat artifact runs files of this kind, which [`forward`](super::forward)
    /// does not.
    #[must_use]
    pub fn is_compat(name: &str, has_experts: bool) -> bool {
        let known = COMPAT_ARCHITECTURES.iter().any(|(known, _)| *known == name);
        known && (has_experts || Self::by_name(name).is_none())
    }
}
