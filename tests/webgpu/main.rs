//! The WebGPU backend on the adapter at hand: kernels against their twins.

mod embed;
mod gpu;
mod linear;
mod norms;
mod planes;
mod sampling;
