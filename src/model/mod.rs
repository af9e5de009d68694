//! A decoder-only transformer, described once and driven by metadata.
//!
//! In: a GGUF header and tensor rows. Out: operations on a [`Backend`](crate::backend::Backend).
//! Refuses: architectures it does not know, hyperparameters that make no sense, tensors that
//! are missing, unknown or of the wrong shape. It never asks which backend it runs on.

mod architecture;
mod assembly;
mod config;
mod error;
mod forward;
mod keys;
mod rope;
mod weights;

pub use architecture::{Architecture, Bias, COMPAT_ARCHITECTURES, WindowRope};
pub use assembly::{Assembly, Limits, ModelFacts, Plan};
pub use config::{Config, LayerConfig, Pooling};
pub use error::ModelError;
pub use forward::forward;
#[cfg(feature = "compat")]
pub(crate) use keys::{Keys, missing};
pub use rope::{RopeConfig, RopeScaling};
pub use weights::{LayerWeights, WeightLoader, Weights};
