//! Parameters of the fused steps of [`Backend`](super::Backend).
//!
//! A field that an architecture does not use is `None` (or 1 for a factor); the backends have
//! no knowledge of architectures.

use super::{MatrixId, RopeId, VectorId};

/// Head counts and size of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// `H`, query heads.
    pub num_heads: usize,
    /// `G`, KV heads; divides `H`.
    pub num_kv_heads: usize,
    /// `D`.
    pub head_dim: usize,
}

impl HeadShape {
    /// Elements of a row of queries, `H D`.
    #[must_use]
    pub fn query_len(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Elements of a row of keys (or values), `G D`.
    #[must_use]
    pub fn kv_len(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }

    /// Elements of a row of queries, keys and values, `(H + 2 G) D`.
    #[must_use]
    pub fn qkv_len(&self) -> usize {
        self.query_len() + 2 * self.kv_len()
    }
}

/// Root-mean-square norm: `y[c] = x[c] * weight[c] / sqrt(mean(x^2) + eps)`.
///
/// Source: Zhang & Sennrich 2019, <https://arxiv.org/abs/1910.07467>.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Gains.
    pub weight: VectorId,
    /// Added to the mean square.
    pub eps: f32,
}

/// Activation of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
    GeluTanh,
}

/// Embedding gather, times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embed {
    /// `[V, C]`.
    pub table: MatrixId,
    /// Factor on every element.
    pub scale: f32,
}

/// Norm and the stacked projection of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormQkv {
    /// Norm before the projection.
    pub norm: Option<Norm>,
    /// `[(H + 2 G) D, C]`: query rows, then keys, then values.
    pub qkv: MatrixId,
    /// `[(H + 2 G) D]`.
    pub bias: Option<VectorId>,
}

/// The two kinds of KV cache that a layer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cache {
    /// All positions.
    Full,
    /// A ring of the last positions, for layers with a window.
    Window,
}

/// Norm of each head, rotation, append to the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkRopeAppend {
    /// Cache that is written.
    pub cache: Cache,
    /// Ordinal of the layer among those of this cache.
    pub layer: usize,
    /// Heads of the layer.
    pub heads: HeadShape,
    /// Rotation; `None` where a layer has no positions.
    pub rope: Option<RopeId>,
    /// Norm of queries.
    pub q_norm: Option<Norm>,
    /// Norm of keys.
    pub k_norm: Option<Norm>,
    /// What each of the two goes over.
    pub norm_span: NormSpan,
}

/// Elements that one norm of queries or keys goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormSpan {
    /// Each head's `D` by itself; `[D]` gains for all heads.
    Head,
    /// All heads of a row at once; `[H D]` gains for queries, `[G D]` for keys.
    Row,
}

/// Causal attention of the step's rows over their sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Cache that is read.
    pub cache: Cache,
    /// Ordinal of the layer among those of this cache.
    pub layer: usize,
    /// Heads of the layer.
    pub heads: HeadShape,
    /// Factor on the scores, usually `1 / sqrt(D)`.
    pub scale: f32,
    /// A row sees this many positions, itself included; `None`: all.
    pub window: Option<usize>,
    /// Scores become `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
}

/// Output projection of attention, added to the residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutResidual {
    /// `[C, H D]`.
    pub out: MatrixId,
    /// `[C]`.
    pub bias: Option<VectorId>,
    /// Norm of the projection before it is added.
    pub post_norm: Option<Norm>,
    /// Factor on what is added.
    pub scale: f32,
}

/// Norm, stacked gate and up projections, gated activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormGateUpAct {
    /// Norm before the projection.
    pub norm: Option<Norm>,
    /// `[2 F, C]`: gate rows, then up rows.
    pub gate_up: MatrixId,
    /// Applied to the gate, then multiplied with up.
    pub activation: Activation,
}

/// Down projection of the feed-forward part, added to the residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DownResidual {
    /// `[C, F]`.
    pub down: MatrixId,
    /// Norm of the projection before it is added.
    pub post_norm: Option<Norm>,
    /// Factor on what is added.
    pub scale: f32,
}

/// Final norm and projection to logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LmHead {
    /// Norm before the projection.
    pub norm: Norm,
    /// `[V, C]`.
    pub head: MatrixId,
    /// Factor on the logits, before the cap.
    pub scale: f32,
    /// Logits become `cap * tanh(logit / cap)`.
    pub soft_cap: Option<f32>,
}
