//! The WebGPU backend on the adapter at hand: kernels against their twins.

mod gpu;
mod norms;
mod sampling;
