//! The WebGPU backend on the adapter at hand: kernels against their twins.

mod architectures;
mod attention;
#[path = "../common/mod.rs"]
mod common;
mod embed;
mod gpu;
mod linear;
mod norms;
mod planes;
mod rope;
mod sampling;
