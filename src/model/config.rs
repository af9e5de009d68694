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
//! | `vocab_size`        | `tokenizer.ggml.tokens`             | `V`    |
//! | `context_length`    | `.context_length`                   |        |
//! | `rope_theta`        | `.rope.freq_base`                   |        |
//! | `rope_dims`         | `.rope.dimension_count`             |        |
//! | `rms_norm_eps`      | `.attention.layer_norm_rms_epsilon` |        |

use super::architecture::Architecture;
use super::error::ModelError;
use crate::backend::ops::HeadShape;
use crate::gguf::Metadata;

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
    /// `L`.
    pub num_layers: usize,
    /// `H`, `G`, `D`.
    pub heads: HeadShape,
    /// `V`.
    pub vocab_size: usize,
    /// Positions that the model was trained for.
    pub context_length: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Leading elements of a head that are rotated; even.
    pub rope_dims: usize,
    /// Positions are divided by this factor (linear RoPE scaling); 1 without scaling.
    pub rope_linear_factor: f32,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f32,
}

impl Config {
    /// Reads and checks the hyperparameters.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`] with the list that is supported;
    /// [`ModelError::MissingKey`], [`ModelError::Hyperparameter`] and
    /// [`ModelError::UnsupportedFeature`] name the key, its value and what is allowed.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let name = metadata
            .str("general.architecture")?
            .ok_or_else(|| missing("general.architecture"))?;
        let architecture =
            Architecture::by_name(name).ok_or_else(|| ModelError::UnsupportedArchitecture {
                name: name.to_owned(),
                supported: Architecture::supported(),
            })?;
        let keys = Keys {
            metadata,
            prefix: architecture.name,
        };

        let hidden_size = keys.size("embedding_length", MAX_HIDDEN)?;
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
        keys.none_of(&["expert_count"])?;

        Ok(Self {
            architecture,
            name: metadata.str("general.name")?.unwrap_or(name).to_owned(),
            hidden_size,
            intermediate_size: keys.size("feed_forward_length", MAX_INTERMEDIATE)?,
            num_layers: keys.size("block_count", MAX_LAYERS)?,
            heads: HeadShape {
                num_heads,
                num_kv_heads,
                head_dim,
            },
            vocab_size: vocab_size(&keys)?,
            context_length: keys.size("context_length", MAX_CONTEXT)?,
            rope_theta: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
            rope_dims: rope_dims(&keys, head_dim)?,
            rope_linear_factor: rope_linear_factor(&keys)?,
            rms_norm_eps: keys
                .positive("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| missing(&keys.key("attention.layer_norm_rms_epsilon")))?,
        })
    }

    /// KV cache bytes of one position, at 4 bytes an element.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> u64 {
        2 * 4 * self.num_layers as u64 * self.heads.kv_len() as u64
    }
}

fn missing(key: &str) -> ModelError {
    ModelError::MissingKey {
        key: key.to_owned(),
    }
}

/// The vocabulary's length: the token list, else the architecture's key.
fn vocab_size(keys: &Keys<'_>) -> Result<usize, ModelError> {
    match keys.metadata.strings("tokenizer.ggml.tokens")? {
        Some(tokens) if !tokens.is_empty() => Ok(tokens.len()),
        _ => Err(missing("tokenizer.ggml.tokens")),
    }
}

fn rope_dims(keys: &Keys<'_>, head_dim: usize) -> Result<usize, ModelError> {
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
    Ok(dims)
}

fn rope_linear_factor(keys: &Keys<'_>) -> Result<f32, ModelError> {
    let key = keys.key("rope.scaling.type");
    // Older files carry the linear factor alone.
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.positive("rope.scale_linear")?,
    };
    match keys.metadata.str(&key)? {
        None | Some("linear") => Ok(factor.unwrap_or(1.0)),
        Some("none") => Ok(1.0),
        Some(other) => Err(ModelError::UnsupportedFeature {
            key,
            value: format!("{other:?}"),
            supported: "\"none\", \"linear\"",
        }),
    }
}

/// Metadata under the architecture's prefix, checked on the way out.
struct Keys<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn size(&self, name: &str, max: u32) -> Result<usize, ModelError> {
        self.optional_size(name, max)?
            .ok_or_else(|| missing(&self.key(name)))
    }

    fn optional_size(&self, name: &str, max: u32) -> Result<Option<usize>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.metadata.u32(&key)? else {
            return Ok(None);
        };
        if value == 0 || value > max {
            return Err(ModelError::Hyperparameter {
                key,
                value: value.to_string(),
                limit: format!("between 1 and {max}"),
            });
        }
        Ok(Some(value as usize))
    }

    fn positive(&self, name: &str) -> Result<Option<f32>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.metadata.f32(&key)? else {
            return Ok(None);
        };
        if !value.is_finite() || value <= 0.0 {
            return Err(ModelError::Hyperparameter {
                key,
                value: value.to_string(),
                limit: "a positive finite number".to_owned(),
            });
        }
        Ok(Some(value))
    }

    fn divides(&self, name: &str, divisor: usize, dividend: usize) -> Result<(), ModelError> {
        if dividend.is_multiple_of(divisor) {
            return Ok(());
        }
        Err(ModelError::Hyperparameter {
            key: self.key(name),
            value: divisor.to_string(),
            limit: format!("a divisor of {dividend}"),
        })
    }

    /// Features that change the computation must be absent (or 0).
    fn none_of(&self, names: &[&str]) -> Result<(), ModelError> {
        for name in names {
            let key = self.key(name);
            if let Some(value) = self.metadata.u32(&key)?.filter(|&value| value != 0) {
                return Err(ModelError::UnsupportedFeature {
                    key,
                    value: value.to_string(),
                    supported: "0",
                });
            }
        }
        Ok(())
    }
}
