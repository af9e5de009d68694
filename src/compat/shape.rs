//! Hyperparameters, as far as candle's models are right.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value as CandleValue;

use crate::gguf::{Metadata, Value};
use crate::model::{Architecture, Keys, ModelError, missing};

// Names are made for all tensors of all experts of all layers, whatever the file has.
const MAX_LAYERS: u32 = 128;
const MAX_EXPERTS: u32 = 32;
const MAX_HIDDEN: u32 = 1 << 17;
const MAX_INTERMEDIATE: u32 = 1 << 20;
const MAX_HEADS: u32 = 1024;
const MAX_HEAD_DIM: u32 = 4096;
const MAX_CONTEXT: u32 = 1 << 20;
const MAX_CONVOLUTION: u32 = 64;

/// Positions for which `quantized_phi` and `quantized_llama` have rotations.
const CANDLE_CONTEXT: usize = 4096;

/// Which of candle's models runs a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `quantized_phi`.
    Phi2,
    /// `quantized_glm4`.
    Glm4,
    /// `quantized_lfm2`.
    Lfm2,
    /// `quantized_llama`, with experts.
    Mixtral,
}

/// Shape and constants of a model. Files that differ from what candle's model has built in are
/// refused: another rotary base or part, scaled rotations, windows, heads of another length.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Which of candle's models runs it.
    pub family: Family,
    /// `general.name`, or the architecture's name.
    pub name: String,
    /// `C`.
    pub hidden_size: usize,
    /// `F`.
    pub intermediate_size: usize,
    /// `H`.
    pub num_heads: usize,
    /// `G` of each layer; 0 where a layer is a convolution instead of attention.
    pub kv_heads: Vec<usize>,
    /// `D`.
    pub head_dim: usize,
    /// `V`.
    pub vocab_size: usize,
    /// Positions that the model can be run with.
    pub context_length: usize,
    /// Added to the mean square in every norm.
    pub norm_eps: f32,
    /// Elements of a head that are rotated.
    pub rope_dims: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Experts of a layer, 0 where there are none.
    pub experts: usize,
    /// Experts that a token takes.
    pub experts_used: usize,
    /// Positions that a convolution sees, 0 where there are none.
    pub convolution: usize,
}

impl Family {
    /// The model that runs an architecture, if one does.
    #[must_use]
    pub fn by_name(architecture: &str, has_experts: bool) -> Option<Self> {
        if !Architecture::is_compat(architecture, has_experts) {
            return None;
        }
        match architecture {
            "phi2" => Some(Self::Phi2),
            "glm4" => Some(Self::Glm4),
            "lfm2" => Some(Self::Lfm2),
            "llama" => Some(Self::Mixtral),
            _ => None,
        }
    }

    /// `general.architecture`.
    #[must_use]
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Phi2 => "phi2",
            Self::Glm4 => "glm4",
            Self::Lfm2 => "lfm2",
            Self::Mixtral => "llama",
        }
    }
}

impl Shape {
    /// Reads and checks the hyperparameters.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`] with the lists that are supported;
    /// [`ModelError::MissingKey`], [`ModelError::Hyperparameter`] and
    /// [`ModelError::UnsupportedFeature`] name the key, its value and what is allowed.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let architecture = metadata
            .str("general.architecture")?
            .ok_or_else(|| missing("general.architecture"))?;
        let experts = metadata.u32(&format!("{architecture}.expert_count"))?;
        let has_experts = experts.unwrap_or(0) > 0;
        let Some(family) = Family::by_name(architecture, has_experts) else {
            return Err(ModelError::UnsupportedArchitecture {
                name: architecture.to_owned(),
                supported: Architecture::supported(),
            });
        };
        let keys = Keys {
            metadata,
            prefix: family.architecture(),
        };
        let shape = Self::read(&keys, family)?;
        shape.check(&keys)?;
        Ok(shape)
    }

    fn read(keys: &Keys<'_>, family: Family) -> Result<Self, ModelError> {
        let hidden_size = keys.size("embedding_length", MAX_HIDDEN)?;
        let num_heads = keys.size("attention.head_count", MAX_HEADS)?;
        let head_dim = if family == Family::Glm4 {
            keys.size("attention.key_length", MAX_HEAD_DIM)?
        } else {
            keys.divides("attention.head_count", num_heads, hidden_size)?;
            hidden_size / num_heads
        };
        let context_length = keys.size("context_length", MAX_CONTEXT)?;
        let epsilon = match family {
            Family::Phi2 => "attention.layer_norm_epsilon",
            _ => "attention.layer_norm_rms_epsilon",
        };
        let (mut experts, mut experts_used) = (0, 0);
        if family == Family::Mixtral {
            experts = keys.size("expert_count", MAX_EXPERTS)?;
            experts_used = keys.size("expert_used_count", MAX_EXPERTS)?;
        }
        let tokens = keys.metadata.strings("tokenizer.ggml.tokens")?;
        let vocab_size = tokens.map_or(0, |tokens| tokens.len());
        if vocab_size == 0 {
            return Err(missing("tokenizer.ggml.tokens"));
        }
        let name = keys.metadata.str("general.name")?;
        Ok(Self {
            family,
            name: name.unwrap_or(family.architecture()).to_owned(),
            hidden_size,
            intermediate_size: keys.size("feed_forward_length", MAX_INTERMEDIATE)?,
            num_heads,
            kv_heads: kv_heads(keys)?,
            head_dim,
            vocab_size,
            context_length: match family {
                Family::Phi2 | Family::Mixtral => context_length.min(CANDLE_CONTEXT),
                Family::Glm4 | Family::Lfm2 => context_length,
            },
            norm_eps: keys
                .positive(epsilon)?
                .ok_or_else(|| missing(&keys.key(epsilon)))?,
            rope_dims: match keys.optional_size("rope.dimension_count", MAX_HEAD_DIM)? {
                Some(dims) => dims,
                None if family == Family::Phi2 => {
                    return Err(missing(&keys.key("rope.dimension_count")));
                }
                None if family == Family::Glm4 => head_dim / 2,
                None => head_dim,
            },
            rope_base: keys.positive("rope.freq_base")?.unwrap_or(match family {
                Family::Lfm2 => 1_000_000.0,
                _ => 10_000.0,
            }),
            experts,
            experts_used,
            convolution: match family {
                Family::Lfm2 => keys.size("shortconv.l_cache", MAX_CONVOLUTION)?,
                _ => 0,
            },
        })
    }

    /// What candle's model has built in.
    fn check(&self, keys: &Keys<'_>) -> Result<(), ModelError> {
        keys.none_of(&["attention.sliding_window", "expert_shared_count"])?;
        let refused = |name: &str, value: String, supported: &'static str| {
            let key = keys.key(name);
            Err(ModelError::UnsupportedFeature {
                key,
                value,
                supported,
            })
        };
        let scaling = keys.metadata.str(&keys.key("rope.scaling.type"))?;
        if let Some(scaling) = scaling.filter(|&scaling| scaling != "none") {
            return refused("rope.scaling.type", format!("{scaling:?}"), "\"none\"");
        }
        for name in ["rope.scaling.factor", "rope.scale_linear"] {
            if let Some(factor) = keys.positive(name)?.filter(|&factor| factor != 1.0) {
                return refused(name, factor.to_string(), "1");
            }
        }
        for name in ["attention.key_length", "attention.value_length"] {
            let length = keys.optional_size(name, MAX_HEAD_DIM)?;
            if let Some(length) = length.filter(|&length| length != self.head_dim) {
                return refused(name, length.to_string(), "one length for all heads");
            }
        }
        let (dims, part) = match self.family {
            Family::Phi2 => (self.rope_dims.min(self.head_dim), "at most a head's length"),
            Family::Glm4 => (self.head_dim / 2, "half a head's length"),
            Family::Lfm2 | Family::Mixtral => (self.head_dim, "a head's length"),
        };
        if dims != self.rope_dims || dims % 2 != 0 {
            return refused("rope.dimension_count", self.rope_dims.to_string(), part);
        }
        #[expect(clippy::float_cmp, reason = "any other base is another model")]
        if self.family == Family::Phi2 && self.rope_base != 10_000.0 {
            return refused("rope.freq_base", self.rope_base.to_string(), "10000");
        }
        for &kv_heads in &self.kv_heads {
            if kv_heads == 0 && self.family == Family::Lfm2 {
                continue;
            }
            if kv_heads == 0 || !self.num_heads.is_multiple_of(kv_heads) {
                return Err(ModelError::Hyperparameter {
                    key: keys.key("attention.head_count_kv"),
                    value: kv_heads.to_string(),
                    limit: format!("a divisor of {}", self.num_heads),
                });
            }
            if self.family == Family::Phi2 && kv_heads != self.num_heads {
                let value = kv_heads.to_string();
                return refused("attention.head_count_kv", value, "as many as query heads");
            }
        }
        if self.experts_used > self.experts {
            return Err(ModelError::Hyperparameter {
                key: keys.key("expert_used_count"),
                value: self.experts_used.to_string(),
                limit: format!("at most {}", self.experts),
            });
        }
        Ok(())
    }

    /// Bytes of the embedding as f32.
    pub(super) fn embedding_bytes(&self) -> u64 {
        let elements = (self.vocab_size as u64).saturating_mul(self.hidden_size as u64);
        elements.saturating_mul(size_of::<f32>() as u64)
    }

    /// Bytes of the cache that a position takes.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        let heads: usize = self.kv_heads.iter().sum();
        2 * (heads as u64) * (self.head_dim as u64) * size_of::<f32>() as u64
    }

    /// The keys that candle's model reads, of the types that it wants.
    pub(super) fn candle_metadata(&self, context_length: usize) -> HashMap<String, CandleValue> {
        let architecture = self.family.architecture();
        let mut metadata = HashMap::new();
        let mut set = |name: &str, value: CandleValue| {
            metadata.insert(format!("{architecture}.{name}"), value);
        };
        let number = |value: usize| CandleValue::U32(u32::try_from(value).unwrap_or(u32::MAX));
        let first = self.kv_heads.first().copied().unwrap_or(0);
        let kv_heads = match self.family {
            Family::Lfm2 => CandleValue::Array(self.kv_heads.iter().copied().map(number).collect()),
            _ => number(first),
        };
        set("attention.head_count", number(self.num_heads));
        set("attention.head_count_kv", kv_heads);
        set("attention.key_length", number(self.head_dim));
        set("block_count", number(self.kv_heads.len()));
        set("embedding_length", number(self.hidden_size));
        set("context_length", number(context_length));
        set("rope.dimension_count", number(self.rope_dims));
        set("rope.freq_base", CandleValue::F32(self.rope_base));
        set("expert_count", number(self.experts));
        set("expert_used_count", number(self.experts_used));
        set("shortconv.l_cache", number(self.convolution));
        for name in ["layer_norm_epsilon", "layer_norm_rms_epsilon"] {
            let eps = CandleValue::F32(self.norm_eps);
            set(&format!("attention.{name}"), eps);
        }
        let name = CandleValue::String(architecture.to_owned());
        metadata.insert("general.architecture".to_owned(), name);
        metadata
    }
}

/// One number for all layers, or one a layer.
fn kv_heads(keys: &Keys<'_>) -> Result<Vec<usize>, ModelError> {
    let layers = keys.size("block_count", MAX_LAYERS)?;
    let key = keys.key("attention.head_count_kv");
    let heads = match keys.metadata.get(&key) {
        Some(Value::Array(_)) => keys.metadata.u32s(&key)?.unwrap_or_default(),
        Some(_) => vec![keys.metadata.u32(&key)?.unwrap_or(0); layers],
        None => {
            let heads = keys.metadata.u32(&keys.key("attention.head_count"))?;
            vec![heads.unwrap_or(0); layers]
        }
    };
    if heads.len() != layers || heads.iter().any(|&heads| heads > MAX_HEADS) {
        return Err(ModelError::Hyperparameter {
            key,
            value: format!("an array of {}", heads.len()),
            limit: format!("one number a layer, {layers}, each at most {MAX_HEADS}"),
        });
    }
    Ok(heads.into_iter().map(|heads| heads as usize).collect())
}
