//! A backend that runs whole models.

use super::LIBRARY;
use super::shape::Shape;
use super::whole::Whole;
use crate::backend::ops::{
    Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};
use crate::backend::{
    Backend, BackendError, BackendMemory, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs,
    Recording, RopeId, RopeSpec, SampleParams, Sampled, Slot, Step, TokenSlot, TokenSource,
    VectorId, sample,
};
use crate::gguf::GgmlType;

/// A backend with a model of its own: [`begin`](Backend::begin) runs the step, row by row, and
/// never asks for operations.
///
/// It holds one sequence. A step goes on where the last one ended or starts at position 0; block
/// tables are given out for form's sake and not looked at.
#[derive(Default)]
pub struct CompatBackend {
    loaded: Option<Loaded>,
    blocks: usize,
}

struct Loaded {
    whole: Whole,
    architecture: &'static str,
    vocab_size: usize,
    /// Positions of the cache; `None` after a failure, when nobody knows.
    len: Option<usize>,
    /// Of the last step, `[rows, V]`.
    logits: Vec<f32>,
    sampled: Option<(TokenSlot, Sampled)>,
    slots: usize,
    cache_bytes: u64,
    memory: BackendMemory,
}

impl CompatBackend {
    /// A backend that waits for its model.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn install(&mut self, whole: Whole, shape: &Shape, memory: BackendMemory) {
        self.loaded = Some(Loaded {
            whole,
            architecture: shape.family.architecture(),
            vocab_size: shape.vocab_size,
            len: Some(0),
            logits: Vec::new(),
            sampled: None,
            slots: 0,
            cache_bytes: shape.cache_bytes(),
            memory,
        });
    }

    fn loaded(&mut self) -> Result<&mut Loaded, BackendError> {
        self.loaded.as_mut().ok_or(BackendError::Usage {
            op: "begin",
            why: "no model is loaded",
        })
    }
}

impl Loaded {
    fn check(&self, ids: &[u32], position: usize, outputs: Outputs) -> Result<(), BackendError> {
        if outputs == Outputs::States {
            return Err(BackendError::NotOffered {
                what: "embeddings of texts",
                architecture: self.architecture,
            });
        }
        if position != 0 && Some(position) != self.len {
            return Err(usage("a step that does not go on where the last one ended"));
        }
        let vocab_size = self.vocab_size;
        match ids.iter().find(|&&id| id as usize >= vocab_size) {
            Some(&id) => Err(BackendError::TokenId { id, vocab_size }),
            None => Ok(()),
        }
    }

    fn run(&mut self, ids: &[u32], position: usize, outputs: Outputs) -> Result<(), BackendError> {
        self.check(ids, position, outputs)?;
        self.logits.clear();
        self.len = None;
        if position == 0 {
            self.whole.restart().map_err(library)?;
        }
        for (row, &id) in ids.iter().enumerate() {
            let logits = self.whole.step(id, position + row).map_err(library)?;
            if logits.len() != self.vocab_size {
                return Err(BackendError::Shape {
                    op: "begin",
                    argument: "logits",
                    expected: self.vocab_size,
                    actual: logits.len(),
                });
            }
            match outputs {
                Outputs::AllRows => self.logits.extend_from_slice(&logits),
                Outputs::LastRow => self.logits = logits,
                Outputs::Nothing | Outputs::States => {}
            }
        }
        self.len = Some(position + ids.len());
        Ok(())
    }
}

fn usage(why: &'static str) -> BackendError {
    BackendError::Usage { op: "begin", why }
}

fn library(error: candle_core::Error) -> BackendError {
    BackendError::Library {
        library: LIBRARY,
        why: error.to_string(),
    }
}

/// What only a backend of operations does.
fn no_operations<T>(op: &'static str) -> Result<T, BackendError> {
    Err(BackendError::Usage {
        op,
        why: "this backend runs whole models",
    })
}

impl Backend for CompatBackend {
    fn create_matrix(&mut self, _: &MatrixSpec) -> Result<MatrixId, BackendError> {
        no_operations("create_matrix")
    }

    fn write_rows(
        &mut self,
        _: MatrixId,
        _: usize,
        _: GgmlType,
        _: usize,
        _: &[u8],
    ) -> Result<(), BackendError> {
        no_operations("write_rows")
    }

    fn create_vector(&mut self, _: &[f32]) -> Result<VectorId, BackendError> {
        no_operations("create_vector")
    }

    fn create_rope(&mut self, _: &RopeSpec) -> Result<RopeId, BackendError> {
        no_operations("create_rope")
    }

    fn prepare(&mut self, _: &ModelShape) -> Result<(), BackendError> {
        no_operations("prepare")
    }

    fn allocate_block(&mut self, _: Cache) -> Result<BlockId, BackendError> {
        self.blocks += 1;
        Ok(BlockId(self.blocks))
    }

    fn release_block(&mut self, _: BlockId) {}

    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError> {
        let TokenSource::Ids(ids) = step.tokens else {
            return Err(usage("ids that the host does not know"));
        };
        let [sequence] = step.sequences else {
            return Err(usage("another number of sequences than one"));
        };
        if sequence.rows != ids.len() {
            return Err(usage("another number of ids than rows"));
        }
        self.loaded()?.run(ids, sequence.position, step.outputs)?;
        Ok(Recording::Replay)
    }

    fn embed(&mut self, _: &Embed, _: Slot) -> Result<(), BackendError> {
        no_operations("embed")
    }

    fn norm_qkv(&mut self, _: Slot, _: &NormQkv, _: Slot) -> Result<(), BackendError> {
        no_operations("norm_qkv")
    }

    fn qk_rope_append(&mut self, _: Slot, _: &QkRopeAppend) -> Result<(), BackendError> {
        no_operations("qk_rope_append")
    }

    fn attention(&mut self, _: Slot, _: &Attention, _: Slot) -> Result<(), BackendError> {
        no_operations("attention")
    }

    fn out_residual(&mut self, _: Slot, _: &OutResidual, _: Slot) -> Result<(), BackendError> {
        no_operations("out_residual")
    }

    fn norm_gate_up_act(
        &mut self,
        _: Slot,
        _: &NormGateUpAct,
        _: Slot,
    ) -> Result<(), BackendError> {
        no_operations("norm_gate_up_act")
    }

    fn down_residual(&mut self, _: Slot, _: &DownResidual, _: Slot) -> Result<(), BackendError> {
        no_operations("down_residual")
    }

    fn lm_head(&mut self, _: Slot, _: &LmHead, _: Slot) -> Result<(), BackendError> {
        no_operations("lm_head")
    }

    fn output_norm(&mut self, _: Slot, _: &Norm) -> Result<(), BackendError> {
        no_operations("output_norm")
    }

    fn sample(&mut self, _: Slot, params: &SampleParams<'_>) -> Result<TokenSlot, BackendError> {
        if !params.pending.is_empty() {
            return Err(BackendError::Usage {
                op: "sample",
                why: "tokens that the host does not know",
            });
        }
        let loaded = self.loaded()?;
        let last = loaded.logits.len().checked_sub(loaded.vocab_size);
        let logits = last.and_then(|last| loaded.logits.get(last..));
        let logits = logits.ok_or(BackendError::Usage {
            op: "sample",
            why: "the last step gave no logits",
        })?;
        let sampled = sample(logits, params)?;
        loaded.slots += 1;
        let slot = TokenSlot(loaded.slots);
        loaded.sampled = Some((slot, sampled));
        Ok(slot)
    }

    async fn submit(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError> {
        match &self.loaded()?.sampled {
            Some((last, sampled)) if *last == slot => Ok(sampled.clone()),
            _ => Err(BackendError::Usage {
                op: "read_token",
                why: "another slot than the last one",
            }),
        }
    }

    async fn read_logits(&mut self) -> Result<&[f32], BackendError> {
        Ok(&self.loaded()?.logits)
    }

    async fn read_states(&mut self) -> Result<&[f32], BackendError> {
        let architecture = self.loaded()?.architecture;
        Err(BackendError::NotOffered {
            what: "states",
            architecture,
        })
    }

    fn memory(&self) -> BackendMemory {
        let Some(loaded) = &self.loaded else {
            return BackendMemory::default();
        };
        BackendMemory {
            kv_cache_bytes: loaded.cache_bytes * loaded.len.unwrap_or(0) as u64,
            scratch_bytes: (loaded.logits.capacity() * size_of::<f32>()) as u64,
            ..loaded.memory
        }
    }
}
