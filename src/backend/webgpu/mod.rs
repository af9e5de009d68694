//! WebGPU backend: our own WGSL kernels through wgpu, in browsers and natively.

mod arena;
mod backend;
mod buffer;
pub mod check;
mod choice;
mod device;
mod error;
pub mod kernels;
pub mod kv;
mod ladder;
mod operations;
mod options;
mod plan;
pub mod planes;
#[cfg_attr(target_arch = "wasm32", path = "web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "native.rs")]
mod platform;
mod preparation;
mod prepared;
mod profile;
mod readback;
mod readiness;
mod recorder;
mod report;
pub mod sampler;
mod self_check;
mod shader;
pub mod step;
mod stopwatch;
mod tune;

pub use backend::WebGpuBackend;
pub use buffer::row_stride;
pub use device::{AdapterDescription, Capabilities, DeviceOptions, Gpu};
pub use error::GpuError;
pub use kv::KvFormat;
pub use options::{Fault, PlanKind, WebGpuOptions};
pub use preparation::{Given, Kernels, Phase, Preparation};
pub use profile::{KernelProfile, Profile};
pub use recorder::{Bind, Cost, Dispatch, Extent, Extents, Pipelines, Recorder, Recording, Work};
pub use report::{InUse, Report, Timing, Verdict};
pub use shader::{Constant, Dialect, Needs, Shader};
