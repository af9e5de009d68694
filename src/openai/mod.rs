//! The OpenAI dialect of HTTP: requests to what a generation takes, tokens to what clients read.
//!
//! ```text
//! method, path ─► Route ─► CompletionRequest ─► (an engine) ─► CompletionWriter ─► bytes
//!                 │     └────────────── DialectError ──────────────────────┘
//!                 └───► EmbeddingsRequest ─► (an engine) ─► one JSON object
//! ```
//!
//! Field names and shapes: <https://platform.openai.com/docs/api-reference>. No engine is
//! known here: options are JSON under the names of the public interface.

mod embeddings;
mod error;
mod messages;
mod models;
mod parameters;
mod reply;
mod request;
mod route;
mod writer;

pub use embeddings::EmbeddingsRequest;
pub use error::DialectError;
pub use models::model_list;
pub use reply::TokenScore;
pub use request::{CompletionRequest, MAX_BODY_BYTES};
pub use route::{Endpoint, Route};
pub use writer::{CallDelta, CompletionWriter, Head, Usage};
