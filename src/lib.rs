//! Language models that stream inside the browser.
//!
//! ```text
//! bytes ─► gguf ─► model (config · weights · one forward pass) ─► backend (cpu | reference)
//!                    │                                               │
//!                    ▼                                               ▼
//!                tokenizer ◄────────────── session (prefill · decode · KV cache · sampler)
//!                                             │
//!                                             ▼
//!               openai ─► sse ────► wasm: what the worker calls
//! ```
//!
//! Every stage has its own module and its own error enum; [`Error`] wraps them and gives the
//! codes of the public interface. The JavaScript face in `js/` is the npm package `tokenbrook`.
#![deny(unsafe_code)]

pub mod backend;
#[cfg(feature = "compat")]
pub mod compat;
mod error;
pub mod gguf;
pub mod measure;
pub mod model;
pub mod openai;
pub mod quant;
pub mod session;
pub mod sse;
pub mod tokenizer;
#[cfg(target_arch = "wasm32")]
pub mod wasm;

pub use error::Error;
