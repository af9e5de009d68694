//! What a GPU can refuse.

/// Failure of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// Pages that came over plain HTTP get no WebGPU.
    #[error(
        "WebGPU is for secure pages only: serve this one over HTTPS or from localhost, or use \
         backend \"cpu\""
    )]
    Insecure,
    /// No WebGPU, or no adapter.
    #[error("no GPU adapter: {0}; use backend \"cpu\", or enable WebGPU in this browser")]
    NoAdapter(String),
    /// The adapter gave no device.
    #[error("the GPU adapter gave no device: {0}; use backend \"cpu\"")]
    Device(String),
    /// The device is gone.
    #[error("the GPU device was lost ({0}); generate again to rebuild it")]
    Lost(String),
    /// Memory that the device does not have.
    #[error(
        "the GPU has no {bytes} bytes for {what} (largest buffer {max_buffer_bytes}); use a \
         smaller model or contextLength, or backend \"cpu\""
    )]
    OutOfMemory {
        /// Purpose.
        what: String,
        /// Size asked for.
        bytes: u64,
        /// The device's limit.
        max_buffer_bytes: u64,
    },
    /// No variant of a kernel is right on this device.
    #[error("{kernel} is wrong on this GPU ({fault}); use backend \"cpu\"")]
    Wrong {
        /// Kernel and variant.
        kernel: String,
        /// What came out.
        fault: String,
    },
    /// A variant that was asked for and is not to be had.
    #[error("option \"gpu\": there is no variant {variant:?} for {role:?} here, but {known}")]
    Variant {
        /// What it was to be for.
        role: String,
        /// The variant.
        variant: String,
        /// What there is.
        known: String,
    },
    /// A shader or a call that the device refuses: a fault of this library.
    #[error("the GPU refuses {what}: {why}")]
    Validation {
        /// Kernel or step.
        what: String,
        /// The device's words.
        why: String,
    },
}

impl GpuError {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Insecure => "insecure-context",
            Self::NoAdapter(_) | Self::Device(_) | Self::Wrong { .. } => "unsupported-environment",
            Self::Lost(_) => "device-lost",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::Variant { .. } => "invalid-option",
            Self::Validation { .. } => "internal",
        }
    }
}
