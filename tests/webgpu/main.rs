//! The WebGPU backend on the adapter at hand: kernels against their twins.

mod attention;
mod gpu;
mod kv;
mod norms;
mod rope;
