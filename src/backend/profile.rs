//! Where a pass's time goes on a device, as it is told.

use serde::Serialize;

/// One kernel of a pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelProfile {
    /// Entry point of its shader.
    pub kernel: String,
    /// Dispatches of one pass.
    pub dispatches: usize,
    /// Of all of them, once.
    pub micros: f64,
    /// Of the sum of all kernels, 0 to 1.
    pub share: f64,
    /// Weights and cache that they read.
    pub bytes: u64,
    /// Twice the multiplications with additions.
    pub flops: u64,
    /// Bytes a second as a share of those of a copy, which reads and writes.
    pub of_copy: f64,
    /// Operations a second as a share of those of nothing but multiplications with additions.
    pub of_peak: f64,
}

/// One pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Rows.
    pub rows: u32,
    /// Positions that its last row sees.
    pub positions: u32,
    /// Kernels, the costliest first.
    pub kernels: Vec<KernelProfile>,
    /// Dispatches in all.
    pub dispatches: usize,
    /// The whole pass on the device, without sampling.
    pub micros: f64,
    /// Weights and cache that it reads.
    pub bytes: u64,
    /// Twice the multiplications with additions.
    pub flops: u64,
    /// Writing the pass into a command buffer, on the host.
    pub encode_ms: f64,
    /// A read where there is no work to wait for.
    pub read_ms: f64,
    /// Bytes that a copy reads and writes.
    pub copy_bytes_per_second: f64,
    /// Of nothing but multiplications with additions.
    pub flops_per_second: f64,
}
