//! WebGPU backend: our own WGSL kernels through wgpu, in browsers and natively.

mod arena;
mod backend;
mod buffer;
pub mod check;
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
mod prepared;
mod readback;
mod recorder;
pub mod sampler;
mod self_check;
mod shader;
pub mod step;

pub use backend::WebGpuBackend;
pub use buffer::row_stride;
pub use device::{AdapterDescription, Capabilities, DeviceOptions, Gpu};
pub use error::GpuError;
pub use kv::KvFormat;
pub use options::{Fault, PlanKind, WebGpuOptions};
pub use recorder::{Bind, Cost, Dispatch, Extent, Extents, Pipelines, Recorder, Recording};
pub use self_check::Verdict;
pub use shader::{Constant, Dialect, Needs, Shader};
