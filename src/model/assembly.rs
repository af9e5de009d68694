//! How a file becomes what a session runs.

use super::config::{Config, Pooling};
use super::error::ModelError;
use super::forward::forward;
use super::weights::{WeightLoader, Weights};
use crate::backend::{Backend, BackendError, ModelShape, Outputs};
use crate::gguf::{Header, TensorInfo};

/// What a session has to know of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// `general.name`, or the architecture's name.
    pub name: String,
    /// `V`.
    pub vocab_size: usize,
    /// `C`.
    pub hidden_size: usize,
    /// The most positions that the model can be run with.
    pub context_length: usize,
    /// The window of the layers that have one in their cache.
    pub window: Option<usize>,
    /// How a text's states become its embedding, where the file says.
    pub pooling: Option<Pooling>,
    /// Whether the cache can forget its last positions and keep the ones before.
    pub rewinds: bool,
}

/// Sizes that a session chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Positions of the KV cache.
    pub context_length: usize,
    /// The most rows of one pass.
    pub max_rows: usize,
    /// Positions of one KV block.
    pub block_tokens: usize,
}

/// A model in the making: begun with the first header, told each shard's header, the first one's
/// too, then its tensors' rows in whatever order they arrive.
pub trait Assembly<B: Backend>: Sized {
    /// Starts from the first header.
    ///
    /// # Errors
    /// An architecture or hyperparameters that are not known, or the backend's.
    fn begin(header: &Header, backend: &mut B) -> Result<Self, ModelError>;

    /// What the first header says.
    fn facts(&self) -> ModelFacts;

    /// Checks a shard's tensor directory before any of its rows arrive.
    ///
    /// # Errors
    /// Tensors that are unknown or of the wrong shape, or the backend's.
    fn header(&mut self, header: &Header, backend: &mut B) -> Result<(), ModelError>;

    /// Takes whole rows of a tensor that [`header`](Self::header) has accepted.
    ///
    /// # Errors
    /// Values that cannot be, or the backend's.
    fn rows(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        blocks: &[u8],
        backend: &mut B,
    ) -> Result<(), ModelError>;

    /// Sizes of the passes to come, where they are those of a forward pass.
    fn shape(&self, limits: &Limits) -> Option<ModelShape> {
        let _ = limits;
        None
    }

    /// Elements of all tensors seen.
    fn parameters(&self) -> u64;

    /// Completes the model.
    ///
    /// # Errors
    /// Missing tensors, or the backend's.
    fn finish(self, limits: &Limits, backend: &mut B) -> Result<Plan, ModelError>;
}

/// What runs when a backend asks for a pass's operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Those of the forward pass.
    Forward {
        /// Shape and constants.
        config: Box<Config>,
        /// The backend's tensors.
        weights: Weights,
    },
    /// None: the backend has a whole model and runs it by itself, so it never asks.
    Whole,
}

impl Plan {
    /// Issues the operations of one pass.
    ///
    /// # Errors
    /// The backend's.
    pub fn record<B: Backend>(
        &self,
        backend: &mut B,
        outputs: Outputs,
    ) -> Result<(), BackendError> {
        match self {
            Self::Forward { config, weights } => forward(config, weights, backend, outputs),
            Self::Whole => Err(BackendError::Usage {
                op: "begin",
                why: "a backend with a whole model asked for operations",
            }),
        }
    }
}

impl<B: Backend> Assembly<B> for WeightLoader {
    fn begin(header: &Header, backend: &mut B) -> Result<Self, ModelError> {
        Self::new(&Config::from_header(header)?, backend)
    }

    fn facts(&self) -> ModelFacts {
        let config = self.config();
        ModelFacts {
            architecture: config.architecture.name,
            name: config.name.clone(),
            vocab_size: config.vocab_size,
            hidden_size: config.hidden_size,
            context_length: config.context_length,
            window: config.window(),
            pooling: config.pooling,
            rewinds: true,
        }
    }

    fn header(&mut self, header: &Header, backend: &mut B) -> Result<(), ModelError> {
        self.header(header, backend)
    }

    fn rows(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        blocks: &[u8],
        backend: &mut B,
    ) -> Result<(), ModelError> {
        self.rows(tensor, first_row, blocks, backend)
    }

    fn shape(&self, limits: &Limits) -> Option<ModelShape> {
        Some(self.config().shape(limits.max_rows, limits.block_tokens))
    }

    fn parameters(&self) -> u64 {
        self.parameters()
    }

    fn finish(self, limits: &Limits, backend: &mut B) -> Result<Plan, ModelError> {
        let config = Box::new(self.config().clone());
        let weights = self.finish(
            limits.context_length,
            limits.max_rows,
            limits.block_tokens,
            backend,
        )?;
        Ok(Plan::Forward { config, weights })
    }
}
