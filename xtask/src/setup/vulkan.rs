//! A Vulkan adapter for the native tests of the GPU backend: Debian's software one where
//! nothing else says that there is a GPU.

use std::path::Path;

use anyhow::Result;

use super::apt;

const PACKAGES: [&str; 2] = ["libvulkan1", "mesa-vulkan-drivers"];

/// Where drivers announce themselves to the loader.
const DRIVERS: [&str; 2] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

pub(crate) fn ready() -> Result<()> {
    // Elsewhere the system comes with its own driver.
    if !cfg!(target_os = "linux") || has_driver() {
        return Ok(());
    }
    apt::install(
        &PACKAGES,
        "a Vulkan driver for the tests of the GPU backend",
    )
}

fn has_driver() -> bool {
    DRIVERS
        .iter()
        .filter_map(|folder| Path::new(folder).read_dir().ok())
        .any(|mut entries| entries.next().is_some())
}
