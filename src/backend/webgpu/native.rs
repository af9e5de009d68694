//! What a platform without a browser has.

use super::{AdapterDescription, Gpu, GpuError};

/// Nothing: a native device is polled.
pub(super) struct Nudge;

impl Gpu {
    /// Native devices need no reminder.
    #[expect(clippy::unused_self, reason = "browsers need the device")]
    pub(super) fn nudge(&self) -> Option<Nudge> {
        None
    }
}

/// Whether there can be a device.
#[expect(clippy::unnecessary_wraps, reason = "browsers may have none")]
pub(super) fn check() -> Result<(), GpuError> {
    Ok(())
}

/// What stands between this library and the driver: nothing.
pub(super) fn agent() -> String {
    "native".to_owned()
}

/// Names of an adapter.
pub(super) fn describe(info: &wgpu::AdapterInfo, _device: &wgpu::Device) -> AdapterDescription {
    AdapterDescription {
        vendor: String::new(),
        architecture: String::new(),
        device: info.name.clone(),
        description: [info.driver.as_str(), &info.driver_info]
            .join(" ")
            .trim()
            .to_owned(),
    }
}

/// Whether shaders of the device may use subgroup operations.
pub(super) fn subgroups(device: &wgpu::Device) -> bool {
    device.features().contains(wgpu::Features::SUBGROUP)
}
