//! WebGPU backend: our own WGSL kernels through wgpu, in browsers and natively.

mod buffer;
pub mod check;
mod device;
mod error;
pub mod kernels;
#[cfg_attr(target_arch = "wasm32", path = "web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "native.rs")]
mod platform;
mod readback;
mod recorder;
mod shader;
pub mod step;

pub use buffer::row_stride;
pub use device::{AdapterDescription, Capabilities, DeviceOptions, Gpu};
pub use error::GpuError;
pub use recorder::{Bind, Cost, Dispatch, Extent, Extents, Pipelines, Recorder, Recording};
pub use shader::{Constant, Dialect, Needs, Shader};
