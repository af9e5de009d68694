//! Tensor names to backend tensors, shape-checked, streamed.
//!
//! A [`WeightLoader`] is told each shard's header, then its tensors' rows in whatever order
//! they arrive. Queries, keys and values stack into one matrix by rows, gate and up into
//! another, so that each is one operation; every part keeps its own quantization. Vectors
//! (norm gains, biases) are small: they are gathered here as f32 and handed over whole.

use std::collections::{BTreeMap, BTreeSet};

use super::architecture::Bias;
use super::config::Config;
use super::error::ModelError;
use super::rope::{self, rope_spec};
use crate::backend::ops::NormSpan;
use crate::backend::{Backend, MatrixId, MatrixSpec, PartSpec, RopeId, VectorId};
use crate::gguf::{Header, TensorInfo};
use crate::quant::dequantize;

/// Backend tensors of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// `[C]`, before attention.
    pub attn_norm: Option<VectorId>,
    /// `[(H + 2 G) D, C]`.
    pub qkv: MatrixId,
    /// `[(H + 2 G) D]`.
    pub qkv_bias: Option<VectorId>,
    /// `[D]`, or `[H D]` where the norm goes over all heads.
    pub q_norm: Option<VectorId>,
    /// `[D]` or `[G D]`.
    pub k_norm: Option<VectorId>,
    /// `[C, H D]`.
    pub attn_output: MatrixId,
    /// `[C]`.
    pub attn_output_bias: Option<VectorId>,
    /// `[C]`, after attention.
    pub attn_post_norm: Option<VectorId>,
    /// `[C]`, before the feed-forward part.
    pub ffn_norm: Option<VectorId>,
    /// `[2 F, C]`.
    pub gate_up: MatrixId,
    /// `[C, F]`.
    pub ffn_down: MatrixId,
    /// `[C]`, after the feed-forward part.
    pub ffn_post_norm: Option<VectorId>,
    /// Rotary frequencies; `None` where the layer has no rotation.
    pub rope: Option<RopeId>,
}

/// Backend tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `[V, C]`.
    pub embedding: MatrixId,
    /// Layers in order.
    pub layers: Vec<LayerWeights>,
    /// `[C]`.
    pub output_norm: VectorId,
    /// `[V, C]`; the embedding itself where the output is tied to it.
    pub head: MatrixId,
}

/// Matrices of a layer while rows arrive.
struct LayerMatrices {
    qkv: MatrixId,
    attn_output: MatrixId,
    gate_up: MatrixId,
    ffn_down: MatrixId,
}

/// Where a tensor's rows go.
#[derive(Clone)]
enum Destination {
    Matrix { id: MatrixId, part: usize },
    Vector,
}

/// What the metadata says of a tensor.
#[derive(Clone)]
struct Expected {
    shape: Vec<u64>,
    destination: Destination,
    required: bool,
}

/// Streams tensors into a backend.
pub struct WeightLoader {
    config: Config,
    expected: BTreeMap<String, Expected>,
    vectors: BTreeMap<String, Vec<f32>>,
    seen: BTreeSet<String>,
    layers: Vec<LayerMatrices>,
    embedding: MatrixId,
    /// Created when a header shows that the output is not tied to the embedding.
    head: Option<MatrixId>,
    parameters: u64,
}

impl WeightLoader {
    /// Declares a model's matrices.
    ///
    /// # Errors
    /// The backend's.
    pub fn new<B: Backend>(config: &Config, backend: &mut B) -> Result<Self, ModelError> {
        let (v, c) = (config.vocab_size, config.hidden_size);
        let mut declared = Declared {
            expected: BTreeMap::new(),
            backend,
        };
        let embedding = declared.matrix(c, &[("token_embd.weight".to_owned(), v)])?;
        declared.vector("output_norm.weight", c, true);
        for name in [rope::FREQS, rope::LONG, rope::SHORT] {
            declared.vector(name, config.rope.dims / 2, false);
        }
        let mut layers = Vec::new();
        for index in 0..config.layers.len() {
            layers.push(declared.layer(config, index)?);
        }
        let expected = declared.expected;
        Ok(Self {
            config: config.clone(),
            expected,
            vectors: BTreeMap::new(),
            seen: BTreeSet::new(),
            layers,
            embedding,
            head: None,
            parameters: 0,
        })
    }

    /// Checks a shard's tensor directory before any of its rows arrive.
    ///
    /// # Errors
    /// [`ModelError::UnknownTensor`], [`ModelError::TensorShape`], or the backend's.
    pub fn header<B: Backend>(
        &mut self,
        header: &Header,
        backend: &mut B,
    ) -> Result<(), ModelError> {
        for tensor in &header.tensors {
            if tensor.name == "output.weight" && self.head.is_none() {
                let mut declared = Declared {
                    expected: std::mem::take(&mut self.expected),
                    backend,
                };
                let (v, c) = (self.config.vocab_size, self.config.hidden_size);
                let head = declared.matrix(c, &[("output.weight".to_owned(), v)]);
                self.expected = declared.expected;
                self.head = Some(head?);
            }
            let expected =
                self.expected
                    .get(&tensor.name)
                    .ok_or_else(|| ModelError::UnknownTensor {
                        name: tensor.name.clone(),
                        architecture: self.config.architecture.name,
                    })?;
            if tensor.shape != expected.shape {
                return Err(ModelError::TensorShape {
                    name: tensor.name.clone(),
                    expected: expected.shape.clone(),
                    actual: tensor.shape.clone(),
                });
            }
            self.seen.insert(tensor.name.clone());
            self.parameters = self
                .parameters
                .saturating_add(tensor.shape.iter().product());
        }
        Ok(())
    }

    /// Takes whole rows of a tensor that [`header`](Self::header) has accepted.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`] for vectors, or the backend's.
    pub fn rows<B: Backend>(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        blocks: &[u8],
        backend: &mut B,
    ) -> Result<(), ModelError> {
        let Some(expected) = self.expected.get(&tensor.name) else {
            return Err(ModelError::UnknownTensor {
                name: tensor.name.clone(),
                architecture: self.config.architecture.name,
            });
        };
        match expected.destination {
            Destination::Matrix { id, part } => {
                let first_row = usize::try_from(first_row).unwrap_or(usize::MAX);
                backend.write_rows(id, part, tensor.ggml_type, first_row, blocks)?;
            }
            Destination::Vector => {
                // A vector is one row, and a slab holds whole rows.
                let len: u64 = expected.shape.iter().product();
                let mut values = vec![0.0; usize::try_from(len).unwrap_or(0)];
                dequantize(tensor.ggml_type, blocks, &mut values)?;
                if let Some(index) = values.iter().position(|x| !x.is_finite()) {
                    return Err(ModelError::NotFinite {
                        name: tensor.name.clone(),
                        index,
                        value: values[index],
                    });
                }
                self.vectors.insert(tensor.name.clone(), values);
            }
        }
        Ok(())
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Elements of all tensors seen.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Completes the model; `max_rows` and `block_tokens` size the backend's arena, and
    /// `context_length`, the positions that the cache will hold, decides between long and
    /// short rotary factors.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`], or the backend's.
    pub fn finish<B: Backend>(
        mut self,
        context_length: usize,
        max_rows: usize,
        block_tokens: usize,
        backend: &mut B,
    ) -> Result<Weights, ModelError> {
        let missing = self
            .expected
            .iter()
            .find(|(name, expected)| expected.required && !self.seen.contains(*name));
        if let Some((name, _)) = missing {
            return Err(ModelError::MissingTensor { name: name.clone() });
        }
        let ropes = self.ropes(context_length, backend)?;
        let output_norm = self.vector("output_norm.weight", backend)?;
        let mut layers = Vec::with_capacity(self.layers.len());
        for (index, matrices) in std::mem::take(&mut self.layers).into_iter().enumerate() {
            layers.push(self.layer(index, &matrices, ropes, backend)?);
        }
        backend.prepare(&self.config.shape(max_rows, block_tokens))?;
        Ok(Weights {
            embedding: self.embedding,
            layers,
            output_norm,
            head: self.head.unwrap_or(self.embedding),
        })
    }

    /// Rotations of layers without and with a window.
    fn ropes<B: Backend>(
        &mut self,
        context_length: usize,
        backend: &mut B,
    ) -> Result<[RopeId; 2], ModelError> {
        let by_context = rope::factors_name(&self.config, context_length);
        let name = [rope::FREQS, by_context]
            .into_iter()
            .find(|&name| self.vectors.contains_key(name));
        if name.is_none()
            && let Some(other) = [rope::LONG, rope::SHORT]
                .into_iter()
                .find(|&name| self.vectors.contains_key(name))
        {
            // One without the other: which factors this context needs is not known.
            let name = if other == rope::LONG {
                rope::SHORT
            } else {
                rope::LONG
            };
            return Err(ModelError::MissingTensor {
                name: name.to_owned(),
            });
        }
        let factors = name.and_then(|name| self.vectors.remove(name));
        if let (Some(name), Some(factors)) = (name, &factors) {
            check_rope_factors(name, factors)?;
        }
        let config = &self.config;
        let kind = config.architecture.rope_kind;
        let all = backend.create_rope(&rope_spec(kind, &config.rope, factors.as_deref()))?;
        let windowed = match &config.window_rope {
            Some(rope) => backend.create_rope(&rope_spec(kind, rope, None))?,
            None => all,
        };
        Ok([all, windowed])
    }

    fn layer<B: Backend>(
        &mut self,
        index: usize,
        matrices: &LayerMatrices,
        [all, windowed]: [RopeId; 2],
        backend: &mut B,
    ) -> Result<LayerWeights, ModelError> {
        let layer = self.config.layers[index];
        let rope = if layer.window.is_some() {
            windowed
        } else {
            all
        };
        let qkv_bias = self.qkv_bias(index, backend)?;
        let mut vector = |name: &str| {
            let values = self.vectors.remove(&format!("blk.{index}.{name}"));
            values
                .map(|values| backend.create_vector(&values))
                .transpose()
        };
        Ok(LayerWeights {
            attn_norm: vector("attn_norm.weight")?,
            qkv: matrices.qkv,
            qkv_bias,
            q_norm: vector("attn_q_norm.weight")?,
            k_norm: vector("attn_k_norm.weight")?,
            attn_output: matrices.attn_output,
            attn_output_bias: vector("attn_output.bias")?,
            attn_post_norm: vector("post_attention_norm.weight")?,
            ffn_norm: vector("ffn_norm.weight")?,
            gate_up: matrices.gate_up,
            ffn_down: matrices.ffn_down,
            ffn_post_norm: vector("post_ffw_norm.weight")?,
            rope: layer.rotated.then_some(rope),
        })
    }

    fn vector<B: Backend>(&mut self, name: &str, backend: &mut B) -> Result<VectorId, ModelError> {
        let values = self
            .vectors
            .remove(name)
            .ok_or_else(|| ModelError::MissingTensor {
                name: name.to_owned(),
            })?;
        Ok(backend.create_vector(&values)?)
    }

    /// Stacks the biases of queries, keys and values; a file has all three or none.
    fn qkv_bias<B: Backend>(
        &mut self,
        index: usize,
        backend: &mut B,
    ) -> Result<Option<VectorId>, ModelError> {
        let names = ["q", "k", "v"].map(|part| format!("blk.{index}.attn_{part}.bias"));
        if !names.iter().any(|name| self.vectors.contains_key(name)) {
            return Ok(None);
        }
        let mut stacked = Vec::with_capacity(self.config.heads.qkv_len());
        for name in names {
            let values = self
                .vectors
                .remove(&name)
                .ok_or(ModelError::MissingTensor { name })?;
            stacked.extend_from_slice(&values);
        }
        Ok(Some(backend.create_vector(&stacked)?))
    }
}

/// A factor divides a frequency: zero would make it infinite.
fn check_rope_factors(name: &str, factors: &[f32]) -> Result<(), ModelError> {
    match factors.iter().position(|&x| x <= 0.0) {
        None => Ok(()),
        Some(index) => Err(ModelError::NotFinite {
            name: name.to_owned(),
            index,
            value: factors[index],
        }),
    }
}

/// Tensors declared so far, beside the backend that makes them.
struct Declared<'a, B: Backend> {
    expected: BTreeMap<String, Expected>,
    backend: &'a mut B,
}

impl<B: Backend> Declared<'_, B> {
    fn layer(&mut self, config: &Config, index: usize) -> Result<LayerMatrices, ModelError> {
        let (c, f) = (config.hidden_size, config.intermediate_size);
        let (q, kv) = (config.heads.query_len(), config.heads.kv_len());
        let name = |tensor: &str| format!("blk.{index}.{tensor}");
        self.layer_vectors(config, &name);
        let stacked = config.architecture.stacked;
        let qkv = if stacked {
            vec![(name("attn_qkv.weight"), q + 2 * kv)]
        } else {
            vec![
                (name("attn_q.weight"), q),
                (name("attn_k.weight"), kv),
                (name("attn_v.weight"), kv),
            ]
        };
        let gate_up = if stacked {
            vec![(name("ffn_up.weight"), 2 * f)]
        } else {
            vec![(name("ffn_gate.weight"), f), (name("ffn_up.weight"), f)]
        };
        Ok(LayerMatrices {
            qkv: self.matrix(c, &qkv)?,
            attn_output: self.matrix(q, &[(name("attn_output.weight"), c)])?,
            gate_up: self.matrix(c, &gate_up)?,
            ffn_down: self.matrix(f, &[(name("ffn_down.weight"), c)])?,
        })
    }

    fn layer_vectors(&mut self, config: &Config, name: &impl Fn(&str) -> String) {
        let (architecture, heads, c) = (&config.architecture, &config.heads, config.hidden_size);
        if architecture.pre_norms {
            self.vector(&name("attn_norm.weight"), c, true);
            self.vector(&name("ffn_norm.weight"), c, true);
        }
        if architecture.post_norms {
            self.vector(&name("post_attention_norm.weight"), c, true);
            self.vector(&name("post_ffw_norm.weight"), c, true);
        }
        if let Some(span) = architecture.qk_norm {
            let [q, k] = match span {
                NormSpan::Head => [heads.head_dim; 2],
                NormSpan::Row => [heads.query_len(), heads.kv_len()],
            };
            self.vector(&name("attn_q_norm.weight"), q, true);
            self.vector(&name("attn_k_norm.weight"), k, true);
        }
        if architecture.bias != Bias::Never {
            self.vector(&name("attn_q.bias"), heads.query_len(), false);
            self.vector(&name("attn_k.bias"), heads.kv_len(), false);
            self.vector(&name("attn_v.bias"), heads.kv_len(), false);
        }
        if architecture.bias == Bias::QkvOutput {
            self.vector(&name("attn_output.bias"), c, false);
        }
    }

    fn matrix(&mut self, cols: usize, parts: &[(String, usize)]) -> Result<MatrixId, ModelError> {
        let specs = parts
            .iter()
            .map(|(name, rows)| PartSpec {
                name: name.clone(),
                rows: *rows,
            })
            .collect();
        let id = self
            .backend
            .create_matrix(&MatrixSpec { cols, parts: specs })?;
        for (part, (name, rows)) in parts.iter().enumerate() {
            let expected = Expected {
                shape: vec![cols as u64, *rows as u64],
                destination: Destination::Matrix { id, part },
                required: true,
            };
            self.expected.insert(name.clone(), expected);
        }
        Ok(id)
    }

    fn vector(&mut self, name: &str, len: usize, required: bool) {
        let expected = Expected {
            shape: vec![len as u64],
            destination: Destination::Vector,
            required,
        };
        self.expected.insert(name.to_owned(), expected);
    }
}
