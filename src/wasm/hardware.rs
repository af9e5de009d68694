//! What runs models in this artifact.

#[cfg(not(feature = "compat"))]
pub(super) use own::*;
#[cfg(feature = "compat")]
pub(super) use whole::*;

/// The forward pass on a backend of ours.
#[cfg(not(feature = "compat"))]
mod own {
    use crate::backend::cpu::{CpuBackend, Precision};
    use crate::session;

    pub(in crate::wasm) type Hardware = CpuBackend;
    pub(in crate::wasm) type SessionLoader = session::Loader<CpuBackend>;

    /// Why `auto` takes the CPU.
    pub(in crate::wasm) const AUTO_REASON: &str = "the CPU is the only backend of this build";

    /// `model.info.wasmVariant`.
    pub(in crate::wasm) const VARIANT: &str = if cfg!(target_feature = "simd128") {
        "simd128"
    } else {
        "scalar"
    };

    /// Precisions by name.
    pub(in crate::wasm) const PRECISIONS: &[(&str, (Precision, &str))] = &[
        ("auto", (Precision::Fast, "fast")),
        ("fast", (Precision::Fast, "fast")),
        ("exact", (Precision::Exact, "exact")),
    ];

    /// These names, for messages.
    pub(in crate::wasm) const PRECISION_NAMES: &str = "\"auto\", \"fast\" and \"exact\"";

    pub(in crate::wasm) fn hardware(precision: Precision) -> Hardware {
        CpuBackend::new(precision)
    }
}

/// candle-transformers' models.
#[cfg(feature = "compat")]
mod whole {
    use crate::backend::cpu::Precision;
    use crate::compat::{CompatBackend, CompatLoader};
    use crate::session;

    pub(in crate::wasm) type Hardware = CompatBackend;
    pub(in crate::wasm) type SessionLoader = session::Loader<CompatBackend, CompatLoader>;

    pub(in crate::wasm) const AUTO_REASON: &str =
        "this architecture is run by candle-transformers, on the CPU alone";

    pub(in crate::wasm) const VARIANT: &str = "compat";

    /// Activations are int8 where the weights are quantized, and nothing else can be had.
    pub(in crate::wasm) const PRECISIONS: &[(&str, (Precision, &str))] = &[
        ("auto", (Precision::Fast, "fast")),
        ("fast", (Precision::Fast, "fast")),
    ];

    pub(in crate::wasm) const PRECISION_NAMES: &str = "\"auto\" and \"fast\"";

    pub(in crate::wasm) fn hardware(_precision: Precision) -> Hardware {
        CompatBackend::new()
    }
}
