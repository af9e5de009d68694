//! A seeded random model, small enough for every backend, and one forward pass over it.

use pollster::block_on;
use tokenbrook::backend::ops::{
    Activation, Attention, Cache, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct,
    NormQkv, NormSpan, OutResidual, QkRopeAppend,
};
use tokenbrook::backend::{
    Backend, BackendError, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs, PartSpec, Recording,
    RopeId, RopeKind, RopeSpec, SequenceStep, Slot, Step, TokenSource, VectorId,
};
use tokenbrook::gguf::GgmlType;

use crate::quantize::quantize;

/// SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[-1, 1)`.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn vector(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.signed() * scale).collect()
    }
}

/// What the model is like; `Default` is a small Llama.
#[derive(Clone, Debug)]
pub(crate) struct Tiny {
    pub seed: u64,
    pub layers: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub vocab: usize,
    pub heads: HeadShape,
    pub max_rows: usize,
    pub block_tokens: usize,
    /// Types of the query, key and value rows.
    pub qkv_types: [GgmlType; 3],
    /// Type of all other matrices.
    pub ggml_type: GgmlType,
    pub rope: Option<(RopeKind, usize, f32)>,
    pub bias: bool,
    pub qk_norm: bool,
    pub post_norm: bool,
    pub activation: Activation,
    pub window: Option<usize>,
    pub attention_cap: Option<f32>,
    pub logit_cap: Option<f32>,
    pub embed_scale: f32,
}

impl Default for Tiny {
    fn default() -> Self {
        Self {
            seed: 7,
            layers: 2,
            hidden: 96,
            intermediate: 160,
            vocab: 37,
            heads: HeadShape {
                num_heads: 3,
                num_kv_heads: 1,
                head_dim: 32,
            },
            max_rows: 16,
            block_tokens: 5,
            qkv_types: [GgmlType::F32; 3],
            ggml_type: GgmlType::F32,
            rope: Some((RopeKind::Interleaved, 16, 1.0)),
            bias: false,
            qk_norm: false,
            post_norm: false,
            activation: Activation::Silu,
            window: None,
            attention_cap: None,
            logit_cap: None,
            embed_scale: 1.0,
        }
    }
}

impl Tiny {
    /// All matrices of one type, with columns that every type's blocks divide.
    pub(crate) fn of_type(ggml_type: GgmlType) -> Self {
        Self {
            hidden: 256,
            intermediate: 256,
            heads: HeadShape {
                num_heads: 4,
                num_kv_heads: 2,
                head_dim: 64,
            },
            qkv_types: [ggml_type; 3],
            ggml_type,
            ..Self::default()
        }
    }

    pub(crate) fn shape(&self) -> ModelShape {
        ModelShape {
            num_layers: self.layers,
            window_layers: 0,
            hidden_size: self.hidden,
            intermediate_size: self.intermediate,
            vocab_size: self.vocab,
            heads: self.heads,
            max_rows: self.max_rows,
            block_tokens: self.block_tokens,
        }
    }

    /// Token ids of a prompt.
    pub(crate) fn prompt(&self, len: usize) -> Vec<u32> {
        let mut random = Random(self.seed ^ 0x55);
        (0..len)
            .map(|_| u32::try_from(random.next_u64() % self.vocab as u64).unwrap())
            .collect()
    }
}

/// Ids of a layer's weights.
struct Layer {
    norms: [Norm; 2],
    qkv: MatrixId,
    bias: Option<VectorId>,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    out: MatrixId,
    out_bias: Option<VectorId>,
    post_norms: [Option<Norm>; 2],
    gate_up: MatrixId,
    down: MatrixId,
}

/// A backend with the model's weights in it.
pub(crate) struct Loaded<B> {
    pub backend: B,
    pub tiny: Tiny,
    embed: MatrixId,
    head: MatrixId,
    norm: Norm,
    rope: Option<RopeId>,
    layers: Vec<Layer>,
}

impl<B: Backend> Loaded<B> {
    pub(crate) fn new(tiny: &Tiny, mut backend: B) -> Self {
        let random = &mut Random(tiny.seed);
        let (hidden, inter, ty) = (tiny.hidden, tiny.intermediate, tiny.ggml_type);
        let b = &mut backend;
        let [query, kv] = [tiny.heads.query_len(), tiny.heads.kv_len()];
        let [q, k, v] = tiny.qkv_types;
        let embed = matrix(b, random, hidden, &[(tiny.vocab, ty)]);
        let layers = (0..tiny.layers)
            .map(|_| Layer {
                norms: [norm(b, random, hidden), norm(b, random, hidden)],
                qkv: matrix(b, random, hidden, &[(query, q), (kv, k), (kv, v)]),
                bias: tiny.bias.then(|| vector(b, random, query + 2 * kv)),
                q_norm: tiny.qk_norm.then(|| norm(b, random, tiny.heads.head_dim)),
                k_norm: tiny.qk_norm.then(|| norm(b, random, tiny.heads.head_dim)),
                out: matrix(b, random, query, &[(hidden, ty)]),
                out_bias: tiny.bias.then(|| vector(b, random, hidden)),
                post_norms: [0, 1].map(|_| tiny.post_norm.then(|| norm(b, random, hidden))),
                gate_up: matrix(b, random, hidden, &[(inter, ty), (inter, ty)]),
                down: matrix(b, random, inter, &[(hidden, ty)]),
            })
            .collect();
        let head = matrix(b, random, hidden, &[(tiny.vocab, ty)]);
        let norm = norm(b, random, hidden);
        let rope = tiny.rope.map(|(kind, pairs, magnitude)| {
            let frequencies = (0..pairs)
                .map(|i| 10_000_f32.powf(-(i as f32) / pairs as f32))
                .collect();
            b.create_rope(&RopeSpec {
                kind,
                frequencies,
                magnitude,
            })
            .unwrap()
        });
        b.prepare(&tiny.shape()).unwrap();
        Self {
            backend,
            tiny: tiny.clone(),
            embed,
            head,
            norm,
            rope,
            layers,
        }
    }

    /// A block table for `positions`.
    pub(crate) fn table(&mut self, positions: usize) -> Vec<BlockId> {
        (0..positions.div_ceil(self.tiny.block_tokens))
            .map(|_| self.backend.allocate_block(Cache::Full).unwrap())
            .collect()
    }

    /// Issues the operations of one pass.
    pub(crate) fn record(&mut self) -> Result<(), BackendError> {
        let lm_head = self.lm_head();
        let (tiny, b) = (&self.tiny, &mut self.backend);
        let embed = Embed {
            table: self.embed,
            scale: tiny.embed_scale,
        };
        b.embed(&embed, Slot::Residual)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let heads = tiny.heads;
            let qkv = NormQkv {
                norm: Some(layer.norms[0]),
                qkv: layer.qkv,
                bias: layer.bias,
            };
            b.norm_qkv(Slot::Residual, &qkv, Slot::Qkv)?;
            let (q_norm, k_norm) = (layer.q_norm, layer.k_norm);
            let append = QkRopeAppend {
                cache: Cache::Full,
                layer: i,
                heads,
                rope: self.rope,
                q_norm,
                k_norm,
                norm_span: NormSpan::Head,
            };
            b.qk_rope_append(Slot::Qkv, &append)?;
            let attention = Attention {
                cache: Cache::Full,
                layer: i,
                heads,
                scale: (heads.head_dim as f32).powf(-0.5),
                window: tiny.window,
                soft_cap: tiny.attention_cap,
            };
            b.attention(Slot::Qkv, &attention, Slot::Attended)?;
            let [first, second] = layer.post_norms;
            let out = OutResidual {
                out: layer.out,
                bias: layer.out_bias,
                post_norm: first,
                scale: 1.0,
            };
            b.out_residual(Slot::Attended, &out, Slot::Residual)?;
            let (norm, gate_up) = (layer.norms[1], layer.gate_up);
            let gate_up = NormGateUpAct {
                norm: Some(norm),
                gate_up,
                activation: tiny.activation,
            };
            b.norm_gate_up_act(Slot::Residual, &gate_up, Slot::Activated)?;
            let down = DownResidual {
                down: layer.down,
                post_norm: second,
                scale: 1.0,
            };
            b.down_residual(Slot::Activated, &down, Slot::Residual)?;
        }
        b.lm_head(Slot::Residual, &lm_head, Slot::Logits)
    }

    pub(crate) fn lm_head(&self) -> LmHead {
        LmHead {
            norm: self.norm,
            head: self.head,
            scale: 1.0,
            soft_cap: self.tiny.logit_cap,
        }
    }

    /// A whole pass: the logits of the rows that `outputs` names.
    pub(crate) fn pass(
        &mut self,
        ids: &[u32],
        sequences: &[SequenceStep<'_>],
        outputs: Outputs,
    ) -> Vec<f32> {
        let step = Step {
            tokens: TokenSource::Ids(ids),
            sequences,
            outputs,
        };
        assert_eq!(self.backend.begin(&step), Ok(Recording::Needed));
        self.record().unwrap();
        block_on(self.backend.submit()).unwrap();
        if outputs == Outputs::Nothing {
            return Vec::new();
        }
        block_on(self.backend.read_logits()).unwrap().to_vec()
    }

    /// Logits of all rows of one sequence that is fed in chunks of these sizes.
    pub(crate) fn chunks(&mut self, ids: &[u32], chunks: &[usize]) -> Vec<f32> {
        let table = self.table(ids.len());
        let mut logits = Vec::new();
        let mut position = 0;
        for &rows in chunks {
            let sequence = SequenceStep {
                rows,
                position,
                blocks: &table,
                window_blocks: &[],
            };
            let ids = &ids[position..position + rows];
            logits.extend(self.pass(ids, &[sequence], Outputs::AllRows));
            position += rows;
        }
        assert_eq!(position, ids.len());
        table
            .into_iter()
            .for_each(|block| self.backend.release_block(block));
        logits
    }
}

fn norm<B: Backend>(backend: &mut B, random: &mut Random, len: usize) -> Norm {
    let gains: Vec<f32> = random.vector(len, 0.5).iter().map(|v| v + 1.0).collect();
    Norm {
        weight: backend.create_vector(&gains).unwrap(),
        eps: 1e-5,
    }
}

fn vector<B: Backend>(backend: &mut B, random: &mut Random, len: usize) -> VectorId {
    backend.create_vector(&random.vector(len, 0.3)).unwrap()
}

/// A random matrix, each part written as five rows and the rest.
fn matrix<B: Backend>(
    backend: &mut B,
    random: &mut Random,
    cols: usize,
    parts: &[(usize, GgmlType)],
) -> MatrixId {
    let specs = parts
        .iter()
        .enumerate()
        .map(|(i, &(rows, _))| PartSpec {
            name: format!("part.{i}"),
            rows,
        })
        .collect();
    let id = backend
        .create_matrix(&MatrixSpec { cols, parts: specs })
        .unwrap();
    for (part, &(rows, ggml_type)) in parts.iter().enumerate() {
        let values = random.vector(rows * cols, 1.7 / (cols as f32).sqrt());
        let bytes = quantize(ggml_type, &values, cols);
        let split = bytes.len() / rows * 5;
        backend
            .write_rows(id, part, ggml_type, 0, &bytes[..split])
            .unwrap();
        backend
            .write_rows(id, part, ggml_type, 5, &bytes[split..])
            .unwrap();
    }
    id
}

/// Largest difference relative to the largest magnitude of `want`.
pub(crate) fn distance(want: &[f32], got: &[f32]) -> f32 {
    assert_eq!(want.len(), got.len());
    assert!(want.iter().chain(got).all(|v| v.is_finite()), "not finite");
    let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    assert!(scale > 0.1, "logits too small to compare: {scale}");
    want.iter()
        .zip(got)
        .fold(0.0_f32, |m, (a, b)| m.max((a - b).abs()))
        / scale
}
