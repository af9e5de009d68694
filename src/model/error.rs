//! What a model description can refuse.

use crate::backend::BackendError;
use crate::gguf::GgufError;
use crate::quant::QuantError;

/// Failure while reading a model's description or weights.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// `general.architecture` names none that is known here.
    #[error("architecture {name:?} is not supported; supported: {supported}")]
    UnsupportedArchitecture {
        /// Name in the file.
        name: String,
        /// Names that work, comma-separated.
        supported: String,
    },
    /// An architecture that the compat artifact runs, met by a build that is not it.
    #[error("architecture {name:?}, as in this file, is run by the compat artifact only")]
    CompatArchitecture {
        /// Name in the file.
        name: String,
    },
    /// A feature of the architecture that is not known here.
    #[error("metadata key {key:?} is {value}, which is not supported; supported: {supported}")]
    UnsupportedFeature {
        /// Metadata key.
        key: String,
        /// Its value.
        value: String,
        /// Values that work.
        supported: &'static str,
    },
    /// A key that the architecture needs.
    #[error("metadata key {key:?} is missing; the file is incomplete or its conversion failed")]
    MissingKey {
        /// Metadata key.
        key: String,
    },
    /// A hyperparameter outside its limits.
    #[error("metadata key {key:?} is {value}; it must be {limit}")]
    Hyperparameter {
        /// Metadata key.
        key: String,
        /// Value in the file.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A tensor that the architecture needs.
    #[error("tensor {name:?} is missing; the file is incomplete or its conversion failed")]
    MissingTensor {
        /// GGUF tensor name.
        name: String,
    },
    /// A tensor that the architecture does not have: ignoring it would give wrong output.
    #[error("tensor {name:?} is not part of architecture {architecture:?} as known here")]
    UnknownTensor {
        /// GGUF tensor name.
        name: String,
        /// Architecture.
        architecture: &'static str,
    },
    /// A tensor of the wrong shape.
    #[error("tensor {name:?} has shape {actual:?}; the metadata asks for {expected:?}")]
    TensorShape {
        /// GGUF tensor name.
        name: String,
        /// Shape that follows from the metadata, contiguous dimension first.
        expected: Vec<u64>,
        /// Shape in the file.
        actual: Vec<u64>,
    },
    /// A file that a library of whole models refuses, though its tables are as they should be.
    #[error("the model of architecture {architecture:?} could not be built: {why}")]
    Refused {
        /// Architecture.
        architecture: &'static str,
        /// The library's own words.
        why: String,
    },
    /// A small tensor with values that are not numbers.
    #[error("tensor {name:?} holds {value} at element {index}; the file is damaged")]
    NotFinite {
        /// GGUF tensor name.
        name: String,
        /// Element.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// The file itself.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A tensor's blocks.
    #[error(transparent)]
    Quant(#[from] QuantError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl ModelError {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedArchitecture { .. }
            | Self::CompatArchitecture { .. }
            | Self::UnsupportedFeature { .. }
            | Self::UnknownTensor { .. } => "unsupported-architecture",
            Self::Gguf(error) => error.code(),
            Self::Backend(error) => error.code(),
            Self::MissingKey { .. }
            | Self::Hyperparameter { .. }
            | Self::MissingTensor { .. }
            | Self::TensorShape { .. }
            | Self::NotFinite { .. }
            | Self::Refused { .. }
            | Self::Quant(_) => "invalid-gguf",
        }
    }
}
