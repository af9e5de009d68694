//! The WebGPU backend on the adapter at hand: kernels against their twins, models against their
//! references.

#[path = "../common/ahead.rs"]
mod ahead;
mod architectures;
mod attention;
#[path = "../common/mod.rs"]
mod common;
mod counters;
mod embed;
mod gpu;
mod kv;
mod large;
mod linear;
mod norms;
mod planes;
mod profile;
mod rope;
mod sampling;
mod self_check;
mod steps;
mod texts;
mod tune;
