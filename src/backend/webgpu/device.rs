//! Adapter, device and what they can do.
//!
//! The device is asked for all that the adapter has, and nothing above WebGPU's default limits
//! is ever required: better hardware only opens more variants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{GpuError, platform};

/// Names of adapters that are no hardware, where the platform does not say so.
const SOFTWARE: [&str; 3] = ["swiftshader", "llvmpipe", "basic render"];

/// What a caller may take away from the device, to run as on a lesser one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Ask for WebGPU's default limits and no features.
    pub default_limits: bool,
    /// Do not use subgroup operations.
    pub without_subgroups: bool,
    /// Do not use 16-bit floats in shaders.
    pub without_f16: bool,
    /// Bind no buffer of weights or cache that is larger, bytes.
    pub most_binding_bytes: Option<u64>,
}

/// What kernels may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Least and most lanes of a subgroup, where shaders may use subgroup operations.
    pub subgroups: Option<[u32; 2]>,
    /// `f16` in shaders.
    pub f16: bool,
    /// Times inside the queue can be read.
    pub timestamps: bool,
    /// `dot4U8Packed` and its like are instructions of the language.
    pub packed_dot: bool,
    /// A processor that plays a GPU: barriers are slow there.
    pub is_software: bool,
    /// Largest binding of a storage buffer, bytes.
    pub max_binding_bytes: u64,
    /// Largest buffer, bytes.
    pub max_buffer_bytes: u64,
    /// Workgroup memory, bytes.
    pub max_workgroup_bytes: u32,
    /// Invocations of a workgroup.
    pub max_invocations: u32,
    /// Workgroups in one dimension of a dispatch.
    pub max_groups: u32,
}

/// Names of an adapter; a browser may keep any of them to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterDescription {
    /// Maker.
    pub vendor: String,
    /// Family of the GPU.
    pub architecture: String,
    /// The GPU.
    pub device: String,
    /// All of it in words.
    pub description: String,
}

impl std::fmt::Display for AdapterDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            &self.vendor,
            &self.architecture,
            &self.device,
            &self.description,
        ];
        let known: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
        match known.is_empty() {
            true => f.write_str("an adapter without a name"),
            false => f.write_str(
                &known
                    .iter()
                    .map(|n| n.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        }
    }
}

/// A device and its queue.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    capabilities: Capabilities,
    adapter: AdapterDescription,
    lost: Arc<Mutex<Option<String>>>,
    objects: Arc<AtomicUsize>,
}

impl Gpu {
    /// Opens the adapter that the platform prefers for heavy work.
    ///
    /// # Errors
    /// [`GpuError::Insecure`], [`GpuError::NoAdapter`], [`GpuError::Device`].
    pub async fn open(options: DeviceOptions) -> Result<Self, GpuError> {
        platform::check()?;
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::BROWSER_WEBGPU;
        let instance = wgpu::Instance::new(descriptor);
        let request = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        let adapter = instance
            .request_adapter(&request)
            .await
            .map_err(|error| GpuError::NoAdapter(error.to_string()))?;
        let wanted = wanted_features(&adapter, options);
        let limits = if options.default_limits {
            wgpu::Limits::default()
        } else {
            adapter.limits()
        };
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("tokenbrook"),
                required_features: wanted,
                required_limits: limits,
                memory_hints: wgpu::MemoryHints::Performance,
                ..Default::default()
            })
            .await
            .map_err(|error| GpuError::Device(error.to_string()))?;
        let lost = Arc::new(Mutex::new(None));
        let note = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            if let Ok(mut note) = note.lock() {
                *note = Some(format!("{reason:?}: {message}"));
            }
        });
        let names = platform::describe(&adapter.get_info(), &device);
        let packed_dot = instance
            .wgsl_language_features()
            .contains(wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct);
        Ok(Self {
            capabilities: capabilities(&adapter, &device, (packed_dot, &names), options),
            adapter: names,
            device,
            queue,
            lost,
            objects: Arc::default(),
        })
    }

    /// What kernels may use.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Names of the adapter.
    #[must_use]
    pub fn adapter(&self) -> &AdapterDescription {
        &self.adapter
    }

    /// Buffers, bind groups and pipelines made so far: a replayed step makes none.
    #[must_use]
    pub fn objects_made(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Counts an object.
    pub(super) fn count_object(&self) {
        self.objects.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails once the device is lost.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        let lost = self.lost.lock().map_or(None, |lost| lost.clone());
        lost.map_or(Ok(()), |why| Err(GpuError::Lost(why)))
    }
}

fn wanted_features(adapter: &wgpu::Adapter, options: DeviceOptions) -> wgpu::Features {
    let mut wanted = wgpu::Features::TIMESTAMP_QUERY;
    if !options.without_subgroups && !options.default_limits {
        wanted |= wgpu::Features::SUBGROUP;
    }
    if !options.without_f16 && !options.default_limits {
        wanted |= wgpu::Features::SHADER_F16;
    }
    wanted & adapter.features()
}

fn capabilities(
    adapter: &wgpu::Adapter,
    device: &wgpu::Device,
    (packed_dot, names): (bool, &AdapterDescription),
    options: DeviceOptions,
) -> Capabilities {
    let (info, limits, features) = (adapter.get_info(), device.limits(), device.features());
    let sizes = [info.subgroup_min_size, info.subgroup_max_size];
    // A browser's device may have them all the same.
    let without = options.without_subgroups || options.default_limits;
    Capabilities {
        subgroups: (platform::subgroups(device) && !without).then_some(sizes),
        f16: features.contains(wgpu::Features::SHADER_F16),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        packed_dot,
        is_software: info.device_type == wgpu::DeviceType::Cpu || is_software(names),
        max_binding_bytes: options
            .most_binding_bytes
            .unwrap_or(u64::MAX)
            .min(limits.max_storage_buffer_binding_size),
        max_buffer_bytes: limits.max_buffer_size,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_groups: limits.max_compute_workgroups_per_dimension,
    }
}

fn is_software(names: &AdapterDescription) -> bool {
    let names = names.to_string().to_lowercase();
    SOFTWARE.iter().any(|name| names.contains(name))
}
