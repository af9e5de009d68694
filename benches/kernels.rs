//! Products of the CPU backend in every type, in both precisions, as GMAC/s of one thread: with
//! one row of activations, as in decoding, and with 16, as in a prompt.
//!
//! Each is first compared with the plain loops of the reference backend.

mod common;

use common::{least_seconds, line, rate};
use pollster::block_on;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::{Cache, Embed, HeadShape, LmHead, Norm};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::kernels::linear::random_blocks;
use tokenbrook::backend::{
    Backend, BlockId, MatrixSpec, ModelShape, Outputs, PartSpec, SequenceStep, Slot, Step,
    TokenSource,
};
use tokenbrook::gguf::GgmlType;

/// Rows and columns of the weights: as many bytes as a second-level cache holds.
const WEIGHT_ROWS: usize = 512;
const COLS: usize = 1536;
const ROWS: [usize; 2] = [1, 16];

/// Mean squared error over mean square that products may have.
const EXACT_ERROR: f64 = 1e-10;
const FAST_ERROR: f64 = 1e-3;

/// An embedding whose output is tied to it, and nothing between.
struct Piece<B: Backend> {
    backend: B,
    embed: Embed,
    head: LmHead,
    block: BlockId,
}

impl<B: Backend> Piece<B> {
    fn new(mut backend: B, ty: GgmlType) -> Self {
        let spec = MatrixSpec {
            cols: COLS,
            parts: vec![PartSpec {
                name: "weights".to_owned(),
                rows: WEIGHT_ROWS,
            }],
        };
        let table = backend.create_matrix(&spec).expect("memory");
        let blocks = random_blocks(ty, WEIGHT_ROWS * COLS, &mut Seeded::new(3));
        backend
            .write_rows(table, 0, ty, 0, &blocks)
            .expect("these rows are next");
        let weight = backend.create_vector(&vec![1.0; COLS]).expect("memory");
        let shape = ModelShape {
            num_layers: 1,
            window_layers: 0,
            hidden_size: COLS,
            intermediate_size: 32,
            vocab_size: WEIGHT_ROWS,
            heads: HeadShape {
                num_heads: 1,
                num_kv_heads: 1,
                head_dim: 32,
            },
            max_rows: ROWS[1],
            block_tokens: ROWS[1],
        };
        backend.prepare(&shape).expect("memory");
        let block = backend.allocate_block(Cache::Full).expect("memory");
        Self {
            backend,
            embed: Embed { table, scale: 1.0 },
            head: LmHead {
                norm: Norm { weight, eps: 1e-5 },
                head: table,
                scale: 1.0,
                soft_cap: None,
            },
            block,
        }
    }

    fn pass(&mut self, rows: usize) {
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
        let backend = &mut self.backend;
        backend.begin(&step).expect("a pass");
        backend
            .embed(&self.embed, Slot::Residual)
            .expect("a residual");
        backend
            .lm_head(Slot::Residual, &self.head, Slot::Logits)
            .expect("logits");
        block_on(backend.submit()).expect("it computes");
    }

    fn logits(&mut self, rows: usize) -> Vec<f32> {
        self.pass(rows);
        block_on(self.backend.read_logits())
            .expect("logits")
            .to_vec()
    }
}

/// Mean squared error over mean square.
fn error(want: &[f32], got: &[f32]) -> f64 {
    assert_eq!(want.len(), got.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    let wrong: f64 = want.iter().zip(got).map(|(&a, &b)| square(a - b)).sum();
    wrong / want.iter().map(|&a| square(a)).sum::<f64>()
}

fn main() {
    let head: [&dyn std::fmt::Display; 2] = [&"1 row, GMAC/s", &"16 rows"];
    line("products", &head);
    for ty in GgmlType::ALL {
        let mut plain = Piece::new(ReferenceBackend::new(), ty);
        let want = plain.logits(ROWS[1]);
        for precision in [Precision::Fast, Precision::Exact] {
            let mut piece = Piece::new(CpuBackend::new(precision), ty);
            let bound = match precision {
                Precision::Fast => FAST_ERROR,
                Precision::Exact => EXACT_ERROR,
            };
            let error = error(&want, &piece.logits(ROWS[1]));
            assert!(error <= bound, "{ty}, {precision:?}: error {error:e}");
            let rates = ROWS.map(|rows| {
                let products = (rows * WEIGHT_ROWS * COLS) as f64;
                rate(products / least_seconds(|| piece.pass(rows)) / 1e9)
            });
            line(&format!("{ty} {precision:?}"), &[&rates[0], &rates[1]]);
        }
    }
}
