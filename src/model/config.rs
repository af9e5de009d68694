//! Hyperparameters from GGUF metadata.
//!
//! | field               | GGUF key (prefix: architecture)     | letter |
//! |---------------------|-------------------------------------|--------|
//! | `hidden_size`       | `.embedding_length`                 | `C`    |
//! | `intermediate_size` | `.feed_forward_length`              | `F`    |
//! | `num_layers`        | `.block_count`                      | `L`    |
//! | `num_heads`         | `.attention.head_count`             | `H`    |
//! | `num_kv_heads`      | `.attention.head_count_kv`          | `G`    |
//! | `head_dim`          | `.attention.key_length`, or `C / H` | `D`    |
//! | `vocab_size`        | `tokenizer.ggml.tokens`, else rows  | `V`    |
//! | `context_length`    | `.context_length`                   |        |
//! | `rms_norm_eps`      | `.attention.layer_norm_rms_epsilon` |        |
//! | `attention_scale`   | `.attention.scale`, or `1 / sqrt D` |        |
//! | `attention_cap`     | `.attn_logit_softcapping`           |        |
//! | `logit_cap`         | `.final_logit_softcapping`          |        |
//! | `embedding_scale`   | `.embedding_scale`, or as the       |        |
//! |                     | architecture says                   |        |
//! | `residual_scale`    | `.residual_scale`                   |        |
//! | `logit_scale`       | 1 / `.logit_scale`                  |        |
//! | `layers[].window`   | `.attention.sliding_window`,        |        |
//! |                     | `.attention.sliding_window_pattern` |        |
//! | `rope`              | see [`RopeConfig`]                  |        |
//! | `pooling`           | `.pooling_type`                     |        |

use super::architecture::{Architecture, WindowRope};
use super::error::ModelError;
use super::keys::{Keys, missing};
use super::rope::{RopeConfig, RopeScaling};
use crate::backend::ModelShape;
use crate::backend::ops::{Cache, HeadShape};
use crate::gguf::{Header, Metadata, TensorInfo, Value};

// Limits far above any published model; they keep products of sizes inside 64 bits and a
// hostile header from asking for absurd arenas.
const MAX_LAYERS: u32 = 1024;
const MAX_HIDDEN: u32 = 1 << 17;
const MAX_INTERMEDIATE: u32 = 1 << 20;
const MAX_HEADS: u32 = 1024;
const MAX_HEAD_DIM: u32 = 4096;
const MAX_CONTEXT: u32 = 1 << 24;

/// Shape and constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture of the file.
    pub architecture: Architecture,
    /// `general.name`, or the architecture's name.
    pub name: String,
    /// `C`.
    pub hidden_size: usize,
    /// `F`.
    pub intermediate_size: usize,
    /// What differs from layer to layer; as long as the model has layers, `L`.
    pub layers: Vec<LayerConfig>,
    /// `H`, `G`, `D`.
    pub heads: HeadShape,
    /// `V`.
    pub vocab_size: usize,
    /// Positions that the model was trained for.
    pub context_length: usize,
    /// Rotation of layers without a window.
    pub rope: RopeConfig,
    /// Rotation of layers with a window, where it differs.
    pub window_rope: Option<RopeConfig>,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f32,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// Attention scores become `cap * tanh(score / cap)`.
    pub attention_cap: Option<f32>,
    /// Logits become `cap * tanh(logit / cap)`.
    pub logit_cap: Option<f32>,
    /// Factor on embeddings.
    pub embedding_scale: f32,
    /// Factor on what attention and the feed-forward part add to the residual stream.
    pub residual_scale: f32,
    /// Factor on logits.
    pub logit_scale: f32,
    /// How a text's states become its embedding, where the file says.
    pub pooling: Option<Pooling>,
}

/// What becomes of the states of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The last token's, which has seen all others.
    Last,
}

/// What differs from layer to layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// A row sees this many positions, itself included; `None`: all.
    pub window: Option<usize>,
    /// Whether queries and keys are rotated.
    pub rotated: bool,
    /// Its KV cache: a ring where there is a window.
    pub cache: Cache,
    /// Its ordinal among the layers of the same cache.
    pub ordinal: usize,
}

impl Config {
    /// Reads and checks the hyperparameters.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`] with the list that is supported;
    /// [`ModelError::CompatArchitecture`] for what the compat artifact runs;
    /// [`ModelError::MissingKey`], [`ModelError::Hyperparameter`] and
    /// [`ModelError::UnsupportedFeature`] name the key, its value and what is allowed.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        Self::read(metadata, None)
    }

    /// As [`from_metadata`](Self::from_metadata); where the metadata lists no tokens, the rows of
    /// the embedding tell the vocabulary's length.
    ///
    /// # Errors
    /// As [`from_metadata`](Self::from_metadata).
    pub fn from_header(header: &Header) -> Result<Self, ModelError> {
        let embedding = header
            .tensors
            .iter()
            .find(|tensor| tensor.name == "token_embd.weight");
        Self::read(&header.metadata, embedding.map(TensorInfo::rows))
    }

    fn read(metadata: &Metadata, rows: Option<u64>) -> Result<Self, ModelError> {
        let name = metadata
            .str("general.architecture")?
            .ok_or_else(|| missing("general.architecture"))?;
        let has_experts = metadata.u32(&format!("{name}.expert_count"))?.unwrap_or(0) > 0;
        if Architecture::is_compat(name, has_experts) {
            let name = name.to_owned();
            return Err(ModelError::CompatArchitecture { name });
        }
        let architecture =
            Architecture::by_name(name).ok_or_else(|| ModelError::UnsupportedArchitecture {
                name: name.to_owned(),
                supported: Architecture::supported(),
            })?;
        let keys = Keys {
            metadata,
            prefix: architecture.name,
        };
        keys.none_of(&["expert_count"])?;
        keys.none_off(architecture.required_switches)?;
        for key in architecture.required_keys {
            let key = keys.key(key);
            metadata.get(&key).ok_or_else(|| missing(&key))?;
        }

        let hidden_size = keys.size("embedding_length", MAX_HIDDEN)?;
        let num_layers = keys.size("block_count", MAX_LAYERS)?;
        let heads = heads(&keys, hidden_size)?;
        let context_length = keys.size("context_length", MAX_CONTEXT)?;
        let rope = rope(&keys, heads.head_dim, context_length)?;
        let layers = layers(&keys, &architecture, num_layers)?;
        Ok(Self {
            name: metadata.str("general.name")?.unwrap_or(name).to_owned(),
            hidden_size,
            intermediate_size: keys.size("feed_forward_length", MAX_INTERMEDIATE)?,
            heads,
            vocab_size: vocab_size(&keys, rows)?,
            context_length,
            window_rope: window_rope(&keys, &architecture, &rope)?,
            rope,
            rms_norm_eps: keys
                .positive("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| missing(&keys.key("attention.layer_norm_rms_epsilon")))?,
            attention_scale: match keys.positive("attention.scale")? {
                Some(scale) => scale,
                None if architecture.wide_scale_layers == Some(num_layers) => {
                    inverse_root(hidden_size / heads.num_heads)
                }
                None => inverse_root(heads.head_dim),
            },
            attention_cap: keys.cap("attn_logit_softcapping")?,
            logit_cap: keys.cap("final_logit_softcapping")?,
            embedding_scale: match keys.positive("embedding_scale")? {
                Some(scale) => scale,
                None if architecture.scaled_embedding => 1.0 / inverse_root(hidden_size),
                None => 1.0,
            },
            residual_scale: keys.positive("residual_scale")?.unwrap_or(1.0),
            logit_scale: 1.0 / keys.positive("logit_scale")?.unwrap_or(1.0),
            // The numbers of llama.cpp's `enum llama_pooling_type`; others need what a decoder
            // does not have.
            pooling: match metadata.u32(&keys.key("pooling_type"))? {
                Some(1) => Some(Pooling::Mean),
                Some(3) => Some(Pooling::Last),
                _ => None,
            },
            layers,
            architecture,
        })
    }

    /// The window of the layers that have one.
    #[must_use]
    pub fn window(&self) -> Option<usize> {
        self.layers.iter().find_map(|layer| layer.window)
    }

    /// Layers of a cache.
    #[must_use]
    pub fn layers_of(&self, cache: Cache) -> usize {
        let layers = self.layers.iter();
        layers.filter(|layer| layer.cache == cache).count()
    }

    /// Sizes of passes of up to `max_rows` rows.
    #[must_use]
    pub fn shape(&self, max_rows: usize, block_tokens: usize) -> ModelShape {
        ModelShape {
            num_layers: self.layers_of(Cache::Full),
            window_layers: self.layers_of(Cache::Window),
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            vocab_size: self.vocab_size,
            heads: self.heads,
            max_rows,
            block_tokens,
        }
    }
}

/// `1 / sqrt(n)`.
fn inverse_root(n: usize) -> f32 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a length that MAX_HIDDEN keeps below 2^24"
    )]
    let n = n as f32;
    1.0 / n.sqrt()
}

fn heads(keys: &Keys<'_>, hidden_size: usize) -> Result<HeadShape, ModelError> {
    let num_heads = keys.size("attention.head_count", MAX_HEADS)?;
    let num_kv_heads = keys
        .optional_size("attention.head_count_kv", MAX_HEADS)?
        .unwrap_or(num_heads);
    keys.divides("attention.head_count_kv", num_kv_heads, num_heads)?;
    let head_dim = match keys.optional_size("attention.key_length", MAX_HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None => {
            keys.divides("attention.head_count", num_heads, hidden_size)?;
            hidden_size / num_heads
        }
    };
    if let Some(value) = keys.optional_size("attention.value_length", MAX_HEAD_DIM)?
        && value != head_dim
    {
        return Err(ModelError::UnsupportedFeature {
            key: keys.key("attention.value_length"),
            value: value.to_string(),
            supported: "the key length",
        });
    }
    Ok(HeadShape {
        num_heads,
        num_kv_heads,
        head_dim,
    })
}

/// The vocabulary's length: the token list's, else the embedding's rows.
fn vocab_size(keys: &Keys<'_>, rows: Option<u64>) -> Result<usize, ModelError> {
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    match keys.metadata.strings("tokenizer.ggml.tokens")? {
        Some(tokens) if !tokens.is_empty() => Ok(tokens.len()),
        _ => rows.ok_or_else(|| missing("tokenizer.ggml.tokens")),
    }
}

/// Which layers have a window, and which are rotated.
fn layers(
    keys: &Keys<'_>,
    architecture: &Architecture,
    num_layers: usize,
) -> Result<Vec<LayerConfig>, ModelError> {
    // A window of 0 positions stands for none.
    let window = match keys.metadata.u32(&keys.key("attention.sliding_window"))? {
        None | Some(0) => None,
        Some(window) => Some(window as usize),
    };
    let pattern = keys.key("attention.sliding_window_pattern");
    let windowed: Vec<bool> = match keys.metadata.get(&pattern) {
        Some(Value::Array(_)) => keys.metadata.bools(&pattern)?.unwrap_or_default(),
        _ => {
            let period = match keys.metadata.u32(&pattern)? {
                Some(period) => period as usize,
                None => architecture.window_period,
            };
            let windowed = |layer: usize| period == 0 || layer % period < period - 1;
            (0..num_layers).map(windowed).collect()
        }
    };
    if windowed.len() != num_layers {
        return Err(ModelError::Hyperparameter {
            key: pattern,
            value: format!("an array of {}", windowed.len()),
            limit: format!("one element a layer, {num_layers}"),
        });
    }
    let unrotated = architecture.unrotated_period;
    let mut counts = [0; 2];
    let layer = |(index, windowed): (usize, bool)| {
        let window = window.filter(|_| windowed);
        let cache = if window.is_some() {
            Cache::Window
        } else {
            Cache::Full
        };
        counts[cache as usize] += 1;
        LayerConfig {
            window,
            rotated: unrotated == 0 || !(index + 1).is_multiple_of(unrotated),
            cache,
            ordinal: counts[cache as usize] - 1,
        }
    };
    Ok(windowed.into_iter().enumerate().map(layer).collect())
}

fn rope(keys: &Keys<'_>, head_dim: usize, trained: usize) -> Result<RopeConfig, ModelError> {
    let dims = keys
        .optional_size("rope.dimension_count", MAX_HEAD_DIM)?
        .unwrap_or(head_dim);
    if dims > head_dim || dims % 2 != 0 {
        return Err(ModelError::Hyperparameter {
            key: keys.key("rope.dimension_count"),
            value: dims.to_string(),
            limit: format!("even and at most the head's length, {head_dim}"),
        });
    }
    Ok(RopeConfig {
        theta: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
        dims,
        scaling: rope_scaling(keys)?,
        magnitude: keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        original_context: keys
            .optional_size("rope.scaling.original_context_length", MAX_CONTEXT)?
            .unwrap_or(trained),
    })
}

fn rope_scaling(keys: &Keys<'_>) -> Result<RopeScaling, ModelError> {
    let key = keys.key("rope.scaling.type");
    // Older files carry the linear factor alone.
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.positive("rope.scale_linear")?,
    };
    match keys.metadata.str(&key)? {
        None | Some("linear") => Ok(RopeScaling::Linear(factor.unwrap_or(1.0))),
        // The factors of "longrope" are tensors, and they say all there is.
        Some("none" | "longrope") => Ok(RopeScaling::Linear(1.0)),
        Some("yarn") => Ok(RopeScaling::Yarn {
            factor: factor.ok_or_else(|| missing(&keys.key("rope.scaling.factor")))?,
            mixed: keys
                .positive("rope.scaling.yarn_ext_factor")?
                .unwrap_or(1.0),
            magnitude: keys.positive("rope.scaling.yarn_attn_factor")?,
            beta_fast: keys
                .positive("rope.scaling.yarn_beta_fast")?
                .unwrap_or(32.0),
            beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        }),
        Some(other) => Err(ModelError::UnsupportedFeature {
            key,
            value: format!("{other:?}"),
            supported: "\"none\", \"linear\", \"yarn\", \"longrope\"",
        }),
    }
}

/// Rotation of the layers with a window, where it differs from the others'.
fn window_rope(
    keys: &Keys<'_>,
    architecture: &Architecture,
    rope: &RopeConfig,
) -> Result<Option<RopeConfig>, ModelError> {
    let theta = match architecture.window_rope {
        WindowRope::Same => return Ok(None),
        WindowRope::Unscaled => rope.theta,
        WindowRope::Base(theta) => theta,
    };
    Ok(Some(RopeConfig {
        theta: keys.positive("rope.freq_base_swa")?.unwrap_or(theta),
        scaling: RopeScaling::Linear(1.0),
        magnitude: 1.0,
        ..rope.clone()
    }))
}
