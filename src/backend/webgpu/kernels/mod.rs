//! The kernels: each a shader, a wrapper that records it, a plain twin and a case that compares
//! them.
//!
//! Products are `y[M, N] = x[M, K] * w[N, K]^T`: `gemv` has one row of `x`, `gemm` several.

pub mod attention;
pub mod attention_case;
mod cached;
pub mod embed;
pub mod gate;
pub mod kv_read;
pub mod linear;
pub mod norm_add;
pub mod qk_rope_append;
pub mod qk_rope_append_case;
pub mod rms_norm;
pub mod rms_norm_span;
pub mod rope_table;
pub mod sample;
pub mod sample_case;
pub mod yardstick;
