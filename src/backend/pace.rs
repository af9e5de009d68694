//! How fast a backend would run a model, measured on a small piece of it.

use serde::{Deserialize, Serialize};

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

/// Rows of the output matrix, and of a prompt, that are multiplied.
const HEAD_ROWS: usize = 1024;
const PROMPT_ROWS: usize = 16;

/// Weights of a layer at most; those of a larger one are scaled down.
const LAYER_WEIGHTS: f64 = 8e6;

/// Weights of all layers together, at least, where the model has as many: more than a core's cache
/// holds.
const PIECE_WEIGHTS: f64 = 24e6;

/// Each of the three measurements ends after this many milliseconds, or this many runs.
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
/// sizes and weights of its main type, and of a part of its output matrix.
///
/// # Errors
/// The backend's.
pub async fn measure<B: Backend>(
    backend: &mut B,
    outline: &Outline,
    now_ms: &dyn Fn() -> f64,
) -> Result<Pace, BackendError> {
    let mut piece = Piece::load(backend, outline)?;
    let decode = piece.mean_ms(backend, (1, Work::Layers), now_ms).await?;
    let head = piece.mean_ms(backend, (1, Work::Head), now_ms).await?;
    let prefill = piece
        .mean_ms(backend, (PROMPT_ROWS, Work::Layers), now_ms)
        .await?;
    let shape = &outline.shape;
    let of_head = shape.vocab_size as f64 * shape.hidden_size as f64;
    // An embedding that is no output is hardly read.
    let copies = if outline.head.is_some_and(|head| !head.is_tied) {
        2.0
    } else {
        1.0
    };
    let of_layers = (outline.weights() - copies * of_head).max(0.0);
    let layers = of_layers / piece.layer_weights();
    let heads = of_head / piece.head_weights();
    Ok(Pace {
        decode_ms: decode * layers + head * heads,
        prefill_ms: prefill * layers / PROMPT_ROWS as f64,
    })
}

/// What a run computes behind the embedding.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Layers,
    Head,
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
    table: MatrixId,
    head: MatrixId,
    layers: Vec<Layer>,
    block: BlockId,
    position: usize,
}

impl Piece {
    fn load<B: Backend>(backend: &mut B, outline: &Outline) -> Result<Self, BackendError> {
        let main = outline.types.iter().max_by_key(|(_, bytes)| *bytes);
        let ty = main.map_or(GgmlType::F32, |(ty, _)| *ty);
        let mut shape = scaled(&outline.shape, ty);
        let wanted = (PIECE_WEIGHTS / layer_weights(&shape)).ceil();
        let real = outline.shape.num_layers + outline.shape.window_layers;
        let mut count = 1;
        while (count as f64) < wanted && count < real {
            count += 1;
        }
        shape.num_layers = count;
        let (c, f, heads) = (shape.hidden_size, shape.intermediate_size, shape.heads);
        let q = heads.query_len();
        let largest = (HEAD_ROWS * c).max(2 * f * c).max(heads.qkv_len() * c);
        let blocks = random_blocks(ty, largest.max(c * q), &mut Seeded::new(3));
        let from = (ty, &blocks[..]);
        let table = matrix(backend, from, HEAD_ROWS, c)?;
        let head = match outline.head.map(|head| head.ggml_type) {
            Some(own) if own != ty && c.is_multiple_of(block_elements(own)) => {
                let blocks = random_blocks(own, HEAD_ROWS * c, &mut Seeded::new(5));
                matrix(backend, (own, &blocks), HEAD_ROWS, c)?
            }
            _ => table,
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
            table,
            head,
            layers,
            block,
            position: 0,
        })
    }

    fn layer_weights(&self) -> f64 {
        layer_weights(&self.shape) * self.layers.len() as f64
    }

    fn head_weights(&self) -> f64 {
        HEAD_ROWS as f64 * self.shape.hidden_size as f64
    }

    /// What a pass of this many rows takes: the mean, since clocks may be as coarse as a pass.
    async fn mean_ms<B: Backend>(
        &mut self,
        backend: &mut B,
        (rows, work): (usize, Work),
        now_ms: &dyn Fn() -> f64,
    ) -> Result<f64, BackendError> {
        // The first run fetches code and weights.
        self.run(backend, rows, work).await?;
        let (began, mut runs) = (now_ms(), 0);
        loop {
            self.run(backend, rows, work).await?;
            runs += 1;
            let took = now_ms() - began;
            if took > LONGEST_MS || runs + 1 == MOST_RUNS {
                return Ok(took / runs as f64);
            }
        }
    }

    async fn run<B: Backend>(
        &mut self,
        backend: &mut B,
        rows: usize,
        work: Work,
    ) -> Result<(), BackendError> {
        let ids: Vec<u32> = (0..).take(rows).collect();
        let sequence = SequenceStep {
            rows,
            position: self.position,
            blocks: &[self.block],
            window_blocks: &[],
        };
        backend.begin(&Step {
            tokens: TokenSource::Ids(&ids),
            sequences: &[sequence],
            outputs: if work == Work::Head {
                Outputs::LastRow
            } else {
                Outputs::Nothing
            },
        })?;
        let embed = Embed {
            table: self.table,
            scale: 1.0,
        };
        backend.embed(&embed, Slot::Residual)?;
        match work {
            Work::Layers => {
                for index in 0..self.layers.len() {
                    self.record_layer(backend, index)?;
                }
                self.position += rows;
            }
            Work::Head => {
                let op = LmHead {
                    norm: self.norm,
                    head: self.head,
                    scale: 1.0,
                    soft_cap: None,
                };
                backend.lm_head(Slot::Residual, &op, Slot::Logits)?;
            }
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

/// A matrix of random weights, from the blocks of a larger one.
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
    let bytes = usize::try_from(bytes).unwrap_or(0) * rows;
    backend.write_rows(id, 0, ty, 0, &blocks[..bytes])?;
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
        vocab_size: HEAD_ROWS,
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
