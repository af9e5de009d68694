//! Devices for tests.

use pollster::block_on;
use tokenbrook::backend::webgpu::check::{Case, run};
use tokenbrook::backend::webgpu::{DeviceOptions, Gpu, Pipelines};

/// The ways in which one adapter is used.
pub(crate) const ALL: [DeviceOptions; 4] = [
    DeviceOptions {
        default_limits: false,
        without_subgroups: false,
        without_f16: false,
        most_binding_bytes: None,
    },
    DeviceOptions {
        default_limits: false,
        without_subgroups: true,
        without_f16: false,
        most_binding_bytes: None,
    },
    DeviceOptions {
        default_limits: false,
        without_subgroups: false,
        without_f16: true,
        most_binding_bytes: None,
    },
    DeviceOptions {
        default_limits: true,
        without_subgroups: true,
        without_f16: true,
        most_binding_bytes: None,
    },
];

/// A device; a machine without an adapter fails, because the suite installs one.
pub(crate) fn open(options: DeviceOptions) -> Gpu {
    block_on(Gpu::open(options)).expect("an adapter: xtask setup installs a software one")
}

/// Runs a case and fails with its description.
pub(crate) fn check(gpu: &Gpu, case: &Case) {
    check_with(gpu, &mut Pipelines::default(), case);
}

/// The same with the pipelines of earlier cases.
pub(crate) fn check_with(gpu: &Gpu, pipelines: &mut Pipelines, case: &Case) {
    let outcome = block_on(run(gpu, pipelines, case)).expect("the device works");
    assert!(
        outcome.fault.is_none(),
        "{}, {}: {}",
        outcome.kernel,
        outcome.description,
        outcome.fault.unwrap_or_default()
    );
}
