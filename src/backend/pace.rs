//! How fast a backend would run a model, measured on a small piece of it.

use serde::{Deserialize, Serialize};

use super::memory::ask_for;
use super::ops::{
    Activation, Attention, Cache, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct,
    NormQkv, NormSpan, OutResidual, QkRopeAppend,
};
use super::random::{Seeded, random_blocks};
use super::{
    Backend, BackendError, BlockId, MatrixId, MatrixSpec, ModelShape, Outline, Outputs, PartSpec,
    SequenceStep, Slot, Step, TokenSource,
};
use crate::gguf::GgmlType;

/// Rows of random weights, which a larger output matrix has again and again.
const RANDOM_ROWS: usize = 1024;

/// Rows of a prompt that is multiplied.
const PROMPT_ROWS: usize = 16;

/// Weights of a layer at most; those of a larger one are scaled down.
const LAYER_WEIGHTS: f64 = 8e6;

/// Weights that a token of the answer reads, about, where the model has as many: more than a
/// processor's last cache holds.
const PIECE_WEIGHTS: f64 = 64e6;

/// Weights that a prompt is multiplied with, at least: caches hardly matter to it.
const PROMPT_WEIGHTS: f64 = 16e6;

/// Each of the two measurements ends after this many milliseconds, or this many runs.
const LONGEST_MS: f64 = 15.0;
const MOST_RUNS: usize = 24;

/// Positions of the piece's only block: more than all runs fill.
const POSITIONS: usize = MOST_RUNS * (2 + PROMPT_ROWS);

/// Times of a model, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// A token of an answer.
    pub decode_ms: f64,
    /// A token of a prompt.
    pub prefill_ms: f64,
}

impl Pace {
    /// Time of a prompt and an answer of 64 tokens each, a short turn of a chat.
    #[must_use]
    pub fn turn_ms(&self) -> f64 {
        64.0 * (self.decode_ms + self.prefill_ms)
    }
}

/// The pace of an empty backend that computes while it records: of some layers with the model's
/// sizes and weights of its main type, and of as large a part of its output matrix.
///
/// # Errors
/// The backend's.
pub async fn measure<B: Backend>(
    backend: &mut B,
    outline: &Outline,
    now_ms: &dyn Fn() -> f64,
) -> Result<Pace, BackendError> {
    let read = Read::of(outline);
    let mut piece = Piece::load(backend, outline, read)?;
    let answer = Work {
        rows: 1,
        layers: piece.layers.len(),
        logits: true,
    };
    let decode = piece.mean_ms(backend, answer, now_ms).await?;
    let prompt = Work {
        rows: PROMPT_ROWS,
        layers: piece.layers_of(PROMPT_WEIGHTS),
        logits: false,
    };
    let prefill = piece.mean_ms(backend, prompt, now_ms).await?;
    let times = |layers: usize| read.layers / (piece.layer_weights() * layers as f64);
    Ok(Pace {
        decode_ms: decode * times(answer.layers),
        prefill_ms: prefill * times(prompt.layers) / PROMPT_ROWS as f64,
    })
}

/// Weights of a model that a token of the answer reads.
#[derive(Clone, Copy)]
struct Read {
    layers: f64,
    head: f64,
}

impl Read {
    fn of(outline: &Outline) -> Self {
        let shape = &outline.shape;
        let head = shape.vocab_size as f64 * shape.hidden_size as f64;
        // An embedding that is no output is hardly read.
        let is_apart = outline.head.is_some_and(|head| !head.is_tied);
        let copies = if is_apart { 2.0 } else { 1.0 };
        let layers = (outline.weights() - copies * head).max(0.0);
        Self { layers, head }
    }
}

/// What a run computes behind the embedding.
#[derive(Clone, Copy)]
struct Work {
    rows: usize,
    layers: usize,
    logits: bool,
}

/// Matrices of a layer.
struct Layer {
    qkv: MatrixId,
    out: MatrixId,
    gate_up: MatrixId,
    down: MatrixId,
}

/// A model of a few layers.
struct Piece {
    shape: ModelShape,
    norm: Norm,
    /// The embedding too.
    head: MatrixId,
    layers: Vec<Layer>,
    block: BlockId,
    position: usize,
}

impl Piece {
    fn load<B: Backend>(
        backend: &mut B,
        outline: &Outline,
        read: Read,
    ) -> Result<Self, BackendError> {
        let main = outline.types.iter().max_by_key(|(_, bytes)| *bytes);
        let ty = main.map_or(GgmlType::F32, |(ty, _)| *ty);
        let mut shape = scaled(&outline.shape, ty);
        let share = read.layers / (read.layers + read.head).max(1.0);
        let real = outline.shape.num_layers + outline.shape.window_layers;
        let count = count_of(PIECE_WEIGHTS * share, layer_weights(&shape), real);
        shape.num_layers = count;
        let (c, f, heads) = (shape.hidden_size, shape.intermediate_size, shape.heads);
        let part = layer_weights(&shape) * count as f64 / read.layers.max(1.0);
        let head_rows = count_of(read.head * part, c as f64, outline.shape.vocab_size);
        shape.vocab_size = head_rows;
        let q = heads.query_len();
        if backend.is_on_host() {
            let layer = c * (heads.qkv_len() + q + 3 * f);
            let bytes = ty.row_bytes((layer * count + head_rows * c) as u64);
            // What cannot be had is missed where it is needed.
            ask_for(backend.held_bytes(ty, bytes.unwrap_or(0)));
        }
        let largest = (RANDOM_ROWS * c).max(2 * f * c).max(heads.qkv_len() * c);
        let blocks = random_blocks(ty, largest.max(c * q), &mut Seeded::new(3));
        let from = (ty, &blocks[..]);
        let head = match outline.head.map(|head| head.ggml_type) {
            Some(own) if own != ty && c.is_multiple_of(block_elements(own)) => {
                let blocks = random_blocks(own, RANDOM_ROWS * c, &mut Seeded::new(5));
                matrix(backend, (own, &blocks), head_rows, c)?
            }
            _ => matrix(backend, from, head_rows, c)?,
        };
        let mut layers = Vec::new();
        for _ in 0..count {
            layers.push(Layer {
                qkv: matrix(backend, from, heads.qkv_len(), c)?,
                out: matrix(backend, from, c, q)?,
                gate_up: matrix(backend, from, 2 * f, c)?,
                down: matrix(backend, from, c, f)?,
            });
        }
        let norm = Norm {
            weight: backend.create_vector(&vec![1.0; c])?,
            eps: 1e-5,
        };
        backend.prepare(&shape)?;
        let block = backend.allocate_block(Cache::Full)?;
        Ok(Self {
            shape,
            norm,
            head,
            layers,
            block,
            position: 0,
        })
    }

    /// Weights of one layer.
    fn layer_weights(&self) -> f64 {
        layer_weights(&self.shape)
    }

    /// Layers that have so many weights, or all.
    fn layers_of(&self, weights: f64) -> usize {
        count_of(weights, self.layer_weights(), self.layers.len())
    }

    /// What a pass of this many rows takes: the mean, since clocks may be as coarse as a pass.
    async fn mean_ms<B: Backend>(
        &mut self,
        backend: &mut B,
        work: Work,
        now_ms: &dyn Fn() -> f64,
    ) -> Result<f64, BackendError> {
        // The first run fetches code and weights.
        self.run(backend, work).await?;
        let (began, mut runs) = (now_ms(), 0);
        loop {
            self.run(backend, work).await?;
            runs += 1;
            let took = now_ms() - began;
            if took > LONGEST_MS || runs + 1 == MOST_RUNS {
                return Ok(took / runs as f64);
            }
        }
    }

    async fn run<B: Backend>(&mut self, backend: &mut B, work: Work) -> Result<(), BackendError> {
        let rows = work.rows;
        // Rows of the output matrix may be few.
        let ids = vec![0; rows];
        let sequence = SequenceStep {
            rows,
            position: self.position,
            blocks: &[self.block],
            window_blocks: &[],
        };
        backend.begin(&Step {
            tokens: TokenSource::Ids(&ids),
            sequences: &[sequence],
            outputs: match work.logits {
                true => Outputs::LastRow,
                false => Outputs::Nothing,
            },
        })?;
        let embed = Embed {
            table: self.head,
            scale: 1.0,
        };
        backend.embed(&embed, Slot::Residual)?;
        for index in 0..work.layers {
            self.record_layer(backend, index)?;
        }
        self.position += rows;
        if work.logits {
            let op = LmHead {
                norm: self.norm,
                head: self.head,
                scale: 1.0,
                soft_cap: None,
            };
            backend.lm_head(Slot::Residual, &op, Slot::Logits)?;
        }
        backend.submit().await
    }

    fn record_layer<B: Backend>(&self, backend: &mut B, layer: usize) -> Result<(), BackendError> {
        let Layer {
            qkv,
            out,
            gate_up,
            down,
        } = self.layers[layer];
        let (norm, heads, cache) = (Some(self.norm), self.shape.heads, Cache::Full);
        let op = NormQkv {
            norm,
            qkv,
            bias: None,
        };
        backend.norm_qkv(Slot::Residual, &op, Slot::Qkv)?;
        // Rotation is next to nothing, and has a table of its own.
        let op = QkRopeAppend {
            cache,
            layer,
            heads,
            rope: None,
            q_norm: None,
            k_norm: None,
            norm_span: NormSpan::Head,
        };
        backend.qk_rope_append(Slot::Qkv, &op)?;
        let op = Attention {
            cache,
            layer,
            heads,
            scale: 0.1,
            window: None,
            soft_cap: None,
        };
        backend.attention(Slot::Qkv, &op, Slot::Attended)?;
        let op = OutResidual {
            out,
            bias: None,
            post_norm: None,
            scale: 1.0,
        };
        backend.out_residual(Slot::Attended, &op, Slot::Residual)?;
        let op = NormGateUpAct {
            norm,
            gate_up,
            activation: Activation::Silu,
        };
        backend.norm_gate_up_act(Slot::Residual, &op, Slot::Activated)?;
        let op = DownResidual {
            down,
            post_norm: None,
            scale: 1.0,
        };
        backend.down_residual(Slot::Activated, &op, Slot::Residual)
    }
}

/// How many of a size make up a whole: one at least, and so many at most.
fn count_of(whole: f64, size: f64, most: usize) -> usize {
    let wanted = whole / size;
    let mut count = 1;
    while (count as f64) < wanted && count < most {
        count += 1;
    }
    count
}

/// A matrix of random weights, which are those of the blocks again and again.
fn matrix<B: Backend>(
    backend: &mut B,
    (ty, blocks): (GgmlType, &[u8]),
    rows: usize,
    cols: usize,
) -> Result<MatrixId, BackendError> {
    let spec = MatrixSpec {
        cols,
        parts: vec![PartSpec {
            name: "weights to be timed".to_owned(),
            rows,
        }],
    };
    let id = backend.create_matrix(&spec)?;
    let bytes = ty.row_bytes(cols as u64).unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(0).max(1);
    let most = (blocks.len() / bytes).max(1);
    for first in (0..rows).step_by(most) {
        let count = most.min(rows - first);
        backend.write_rows(id, 0, ty, first, &blocks[..bytes * count])?;
    }
    Ok(id)
}

/// The sizes of the piece: the model's, or less where a layer is large, in whole blocks.
fn scaled(shape: &ModelShape, ty: GgmlType) -> ModelShape {
    let factor = (LAYER_WEIGHTS / layer_weights(shape)).sqrt().min(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a size that was one"
    )]
    let part = |size: usize| ((size as f64 * factor) as usize).max(1);
    let block = block_elements(ty);
    let whole = |size: usize| part(size).next_multiple_of(block);
    let heads = shape.heads;
    let group = (heads.num_heads / heads.num_kv_heads.max(1)).max(1);
    let mut num_kv_heads = part(heads.num_kv_heads);
    while !(num_kv_heads * group * heads.head_dim).is_multiple_of(block) {
        num_kv_heads += 1;
    }
    ModelShape {
        num_layers: 1,
        window_layers: 0,
        hidden_size: whole(shape.hidden_size),
        intermediate_size: whole(shape.intermediate_size),
        vocab_size: RANDOM_ROWS,
        heads: HeadShape {
            num_heads: num_kv_heads * group,
            num_kv_heads,
            head_dim: heads.head_dim,
        },
        max_rows: PROMPT_ROWS,
        block_tokens: POSITIONS,
    }
}

fn block_elements(ty: GgmlType) -> usize {
    usize::try_from(ty.block_elements()).unwrap_or(1).max(1)
}

/// Weights of one layer.
fn layer_weights(shape: &ModelShape) -> f64 {
    let heads = &shape.heads;
    let [c, f] = [shape.hidden_size, shape.intermediate_size].map(|size| size as f64);
    let [q, all] = [heads.query_len(), heads.qkv_len()].map(|size| size as f64);
    c * (q + all + 3.0 * f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::{CpuBackend, Precision};

    #[test]
    fn a_model_of_twice_the_bytes_takes_twice_the_time() {
        let outline = |bytes| Outline {
            shape: ModelShape {
                num_layers: 2,
                window_layers: 0,
                hidden_size: 100,
                intermediate_size: 100,
                vocab_size: 100,
                heads: HeadShape {
                    num_heads: 1,
                    num_kv_heads: 1,
                    head_dim: 32,
                },
                max_rows: 8,
                block_tokens: 8,
            },
            types: vec![(GgmlType::F32, 1), (GgmlType::Q4_0, bytes)],
            head: None,
        };
        // A clock that tells the runs apart: each call is a millisecond later.
        let pace = |bytes| {
            let ticks = std::cell::Cell::new(0.0);
            let now = || {
                ticks.set(ticks.get() + 1.0);
                ticks.get()
            };
            let mut backend = CpuBackend::new(Precision::Fast);
            let outline = outline(bytes);
            pollster::block_on(measure(&mut backend, &outline, &now))
                .expect("the processor computes")
        };
        let [one, two] = [pace(18_000_000), pace(36_000_000)];
        // But for the output matrix, which is as large in both.
        assert!((two.decode_ms / one.decode_ms - 2.0).abs() < 1e-2);
        assert!((two.prefill_ms / one.prefill_ms - 2.0).abs() < 1e-2);
        assert!((one.decode_ms / one.prefill_ms - 16.0).abs() < 0.2);
        assert!(one.turn_ms() > one.decode_ms);
    }
}
