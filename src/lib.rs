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
//!
//! tokens ─► stream (when they are shown) · sse ─► client (whom to ask, and what a reply is)
//! ```
//!
//! Every stage has its own module and its own error enum; [`Error`] wraps them and gives the
//! codes of the public interface. The JavaScript face in `js/` is the npm package `tokenbrook`.
//!
//! | feature             | holds                                                             |
//! |---------------------|-------------------------------------------------------------------|
//! | `engine` (default)  | `gguf`, `quant`, `backend`, `model`, `tokenizer`, `session`       |
//! | `compat`            | `engine`, and the models of architectures that only candle has    |
//! | `relaxed-simd`      | `engine`, for browsers that have relaxed SIMD                     |
//! | `threads`           | `relaxed-simd` on several threads, without `webgpu`               |
//! | `webgpu` (default)  | `engine` with the backend of its name                             |
//! | `streaming`         | the exports of the small wasm module, which has no engine         |
//!
//! The other modules are in every build.
#![deny(unsafe_code)]

#[cfg(feature = "engine")]
pub mod backend;
pub mod client;
#[cfg(feature = "compat")]
pub mod compat;
mod error;
#[cfg(feature = "engine")]
pub mod gguf;
pub mod measure;
pub mod mock;
#[cfg(feature = "engine")]
pub mod model;
pub mod openai;
#[cfg(feature = "engine")]
pub mod quant;
#[cfg(feature = "engine")]
pub mod session;
pub mod sse;
pub mod stream;
#[cfg(feature = "engine")]
pub mod tokenizer;
#[cfg(target_arch = "wasm32")]
pub mod wasm;

pub use error::Error;
