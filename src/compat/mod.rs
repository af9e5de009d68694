//! Whole models of candle-transformers, for architectures that the forward pass does not have.
//!
//! | file                                      | candle's model                        |
//! |-------------------------------------------|---------------------------------------|
//! | `phi2`                                    | `quantized_phi`                       |
//! | `glm4`                                    | `quantized_glm4`                      |
//! | `lfm2`                                    | `quantized_lfm2`                      |
//! | `llama` with `expert_count` (Mixtral)     | `quantized_llama`                     |
//!
//! In: a GGUF header and tensor rows, as for the forward pass. Out: [`CompatBackend`], a backend
//! that answers each step with logits instead of asking for operations, so that sessions, samplers
//! and streams are the same. Refuses: what these models would get wrong, by name (see [`Shape`]).
//!
//! candle's parser never sees the file: its tables are made from our own header, checked tensor by
//! tensor, and its reader gets the bytes that were kept. Each piece of the file is dropped once
//! candle has copied it. The peak while loading is the file, the embedding as f32, and twice the
//! largest tensor; after it, the file (matrices that are not quantized as f32) and the embedding.
//!
//! What these models cannot do, as of 0.11.1:
//! - Their caches grow or start anew: a prompt that does not continue the cached ids in full is
//!   computed from its first token, and counts no cached tokens.
//! - Several tokens in one pass are wrong in `quantized_lfm2` past the first chunk, and in others
//!   leave a mask behind for each pair of lengths. So a prompt is read token by token: no faster
//!   than an answer is written, but stopped as fast.
//! - They give logits alone: texts are scored, not embedded.
//! - The architecture `qwen3moe` is not here, because `quantized_qwen3_moe` multiplies experts on
//!   CUDA devices only.

mod backend;
mod kept;
mod loader;
mod shape;
mod tensors;
mod whole;

pub use backend::CompatBackend;
pub use loader::CompatLoader;
pub use shape::{Family, Shape};

/// Where failures of candle's come from.
const LIBRARY: &str = "candle-transformers";
