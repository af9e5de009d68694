//! WebGPU backend: our own WGSL kernels through wgpu, in browsers and natively.

mod buffer;
pub mod check;
mod device;
mod error;
pub mod kernels;
pub mod kv;
mod readback;
mod recorder;
mod shader;
pub mod step;

pub use buffer::row_stride;
pub use device::{AdapterDescription, Capabilities, DeviceOptions, Gpu};
pub use error::GpuError;
pub use recorder::{Bind, Cost, Dispatch, Extent, Extents, Pipelines, Recorder, Recording};
pub use shader::{Constant, Dialect, Needs, Shader};
