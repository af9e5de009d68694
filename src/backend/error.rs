//! What a backend can refuse.

#[cfg(feature = "webgpu")]
use super::webgpu::GpuError;
use crate::gguf::GgmlType;

/// Failure of a [`Backend`](super::Backend).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// An argument's size differs from what the operation needs.
    #[error("{op}: {argument} has {actual} elements where {expected} are needed")]
    Shape {
        /// Operation.
        op: &'static str,
        /// Argument of the operation.
        argument: &'static str,
        /// Elements needed.
        expected: usize,
        /// Elements given.
        actual: usize,
    },
    /// Rows that are written twice, out of range or of another type than those before.
    #[error("tensor {tensor:?}: rows {first_row} to {end_row} cannot be written: {why}")]
    Rows {
        /// GGUF tensor name.
        tensor: String,
        /// First row of the refused write.
        first_row: usize,
        /// Row after the last one of the refused write.
        end_row: usize,
        /// Reason.
        why: String,
    },
    /// A quantization that this backend cannot read.
    #[error("tensor {tensor:?}: this backend cannot read {}", ggml_type.name())]
    UnsupportedType {
        /// GGUF tensor name.
        tensor: String,
        /// The type.
        ggml_type: GgmlType,
    },
    /// Memory could not be had.
    #[error(
        "{bytes} bytes for {what} are not available; close other pages or use a smaller model \
         or contextLength"
    )]
    OutOfMemory {
        /// Purpose.
        what: &'static str,
        /// Size asked for.
        bytes: u64,
    },
    /// An id that this backend did not give out, or a call out of order.
    #[error("{op}: {why}")]
    Usage {
        /// Operation.
        op: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// Something that a library under this backend refused.
    #[error("{library}: {why}")]
    Library {
        /// The library.
        library: &'static str,
        /// Its own words.
        why: String,
    },
    /// What this backend cannot give for this model.
    #[error("{what} cannot be had of architecture {architecture:?}: its model gives logits alone")]
    NotOffered {
        /// What was asked for.
        what: &'static str,
        /// The model's architecture.
        architecture: &'static str,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab_size}")]
    TokenId {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// What the GPU refuses.
    #[cfg(feature = "webgpu")]
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Logits that are not numbers.
    #[error("the model produced no finite logits; its file is probably damaged")]
    NotFinite,
}

impl BackendError {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::NotOffered { .. } => "unsupported-architecture",
            Self::UnsupportedType { .. } => "unsupported-quantization",
            Self::Rows { .. } | Self::NotFinite => "invalid-gguf",
            Self::TokenId { .. } => "invalid-option",
            #[cfg(feature = "webgpu")]
            Self::Gpu(error) => error.code(),
            Self::Shape { .. } | Self::Usage { .. } | Self::Library { .. } => "internal",
        }
    }
}
