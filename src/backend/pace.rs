//! How fast a backend would run a model, measured on a small piece of it.

use serde::{Deserialize, Serialize};

use super::ops::{Cache, Embed, HeadShape, LmHead, Norm};
use super::random::{Seeded, random_blocks};
use super::{
    Backend, BackendError, BlockId, MatrixSpec, ModelShape, Outline, Outputs, PartSpec,
    SequenceStep, Slot, Step, TokenSource,
};
use crate::gguf::GgmlType;

/// Rows of weights, and of a prompt, that are multiplied.
const WEIGHT_ROWS: usize = 512;
const PROMPT_ROWS: usize = 16;

/// Each of the two measurements ends after this many milliseconds, or this many runs.
const LONGEST_MS: f64 = 30.0;
const MOST_RUNS: usize = 12;

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

/// The pace of an empty backend that computes while it records, from products with weights of the
/// model's main type. What is not a product is left out: it is little on a processor.
///
/// # Errors
/// The backend's.
pub async fn measure<B: Backend>(
    backend: &mut B,
    outline: &Outline,
    now_ms: &dyn Fn() -> f64,
) -> Result<Pace, BackendError> {
    let main = outline.types.iter().max_by_key(|(_, bytes)| *bytes);
    let ty = main.map_or(GgmlType::F32, |(ty, _)| *ty);
    let cols = outline.shape.hidden_size.next_multiple_of(256);
    let piece = Piece::load(backend, ty, cols.clamp(256, 2048))?;
    let decode = piece.least_ms(backend, 1, now_ms).await?;
    let prefill = piece.least_ms(backend, PROMPT_ROWS, now_ms).await?;
    let parts = outline.weights() / (WEIGHT_ROWS * piece.cols) as f64;
    Ok(Pace {
        decode_ms: decode * parts,
        prefill_ms: prefill * parts / PROMPT_ROWS as f64,
    })
}

/// An embedding whose output is tied to it, and nothing between.
struct Piece {
    cols: usize,
    embed: Embed,
    head: LmHead,
    block: BlockId,
}

impl Piece {
    fn load<B: Backend>(backend: &mut B, ty: GgmlType, cols: usize) -> Result<Self, BackendError> {
        let spec = MatrixSpec {
            cols,
            parts: vec![PartSpec {
                name: "weights to be timed".to_owned(),
                rows: WEIGHT_ROWS,
            }],
        };
        let table = backend.create_matrix(&spec)?;
        let blocks = random_blocks(ty, WEIGHT_ROWS * cols, &mut Seeded::new(3));
        backend.write_rows(table, 0, ty, 0, &blocks)?;
        let norm = Norm {
            weight: backend.create_vector(&vec![1.0; cols])?,
            eps: 1e-5,
        };
        backend.prepare(&ModelShape {
            num_layers: 1,
            window_layers: 0,
            hidden_size: cols,
            intermediate_size: 32,
            vocab_size: WEIGHT_ROWS,
            heads: HeadShape {
                num_heads: 1,
                num_kv_heads: 1,
                head_dim: 32,
            },
            max_rows: PROMPT_ROWS,
            block_tokens: PROMPT_ROWS,
        })?;
        Ok(Self {
            cols,
            embed: Embed { table, scale: 1.0 },
            head: LmHead {
                norm,
                head: table,
                scale: 1.0,
                soft_cap: None,
            },
            block: backend.allocate_block(Cache::Full)?,
        })
    }

    /// The shortest pass of this many rows, each with logits.
    async fn least_ms<B: Backend>(
        &self,
        backend: &mut B,
        rows: usize,
        now_ms: &dyn Fn() -> f64,
    ) -> Result<f64, BackendError> {
        let ids: Vec<u32> = (0..).take(rows).collect();
        let sequence = SequenceStep {
            rows,
            position: 0,
            blocks: &[self.block],
            window_blocks: &[],
        };
        let step = Step {
            tokens: TokenSource::Ids(&ids),
            sequences: &[sequence],
            outputs: Outputs::AllRows,
        };
        let (began, mut least) = (now_ms(), f64::INFINITY);
        for run in 0..MOST_RUNS {
            let started = now_ms();
            backend.begin(&step)?;
            backend.embed(&self.embed, Slot::Residual)?;
            backend.lm_head(Slot::Residual, &self.head, Slot::Logits)?;
            backend.submit().await?;
            let now = now_ms();
            // The first run fetches code and weights.
            if run > 0 {
                least = least.min(now - started);
            }
            if now - began > LONGEST_MS && run > 0 {
                break;
            }
        }
        Ok(least)
    }
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
        assert!((two.decode_ms / one.decode_ms - 2.0).abs() < 1e-3);
        assert!((two.prefill_ms / one.prefill_ms - 2.0).abs() < 1e-3);
        assert!((one.decode_ms / one.prefill_ms - 16.0).abs() < 1e-9);
        assert!(one.turn_ms() > one.decode_ms);
    }
}
