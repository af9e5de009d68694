//! The forward pass, on the backend that was asked for or found.

use serde_json::Value;

use super::{Choices, choice, name_of};
use crate::Error;
use crate::backend::cpu::{CpuBackend, Precision};
use crate::backend::webgpu::{
    DeviceOptions, Gpu, GpuError, KvFormat, WebGpuBackend, WebGpuOptions,
};
use crate::backend::{AnyBackend, BackendError};
use crate::session;

pub(in crate::wasm) type Hardware = AnyBackend;
pub(in crate::wasm) type SessionLoader = session::Loader<AnyBackend>;

/// `model.info.wasmVariant`.
pub(in crate::wasm) const VARIANT: &str = if cfg!(feature = "relaxed-simd") {
    "relaxed-simd"
} else if cfg!(target_feature = "simd128") {
    "simd128"
} else {
    "scalar"
};

/// What the caller asks for.
#[derive(Default)]
pub(in crate::wasm) struct Settings {
    backend: Wanted,
    /// `None` for `auto`.
    precision: Option<Precision>,
    webgpu: WebGpuOptions,
}

/// The backends that a caller may name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Auto,
    Cpu,
    WebGpu,
}

impl Settings {
    /// Takes an option; `false` for one of another name.
    pub(in crate::wasm) fn set(&mut self, name: &str, value: &Value) -> Result<bool, Error> {
        match name {
            "precision" => self.precision = read_precision(value)?,
            "backend" => self.backend = read_backend(value)?,
            "kvCache" => self.webgpu.kv = read_kv(value)?,
            "gpu" => self.webgpu.device = read_device(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opens the backend that was asked for, or the one that `auto` finds.
    pub(in crate::wasm) async fn open(&self) -> Result<(AnyBackend, Choices), Error> {
        let gpu_error = |error: GpuError| Error::Session(BackendError::from(error).into());
        match self.backend {
            Wanted::Cpu => Ok(self.cpu("asked for".to_owned())),
            Wanted::WebGpu => {
                let gpu = Gpu::open(self.webgpu.device).await.map_err(gpu_error)?;
                Ok(self.webgpu(gpu, "asked for".to_owned()))
            }
            Wanted::Auto => match Gpu::open(self.webgpu.device).await {
                Err(error) => Ok(self.cpu(error.to_string())),
                Ok(gpu) if gpu.capabilities().is_software => {
                    let name = &gpu.adapter().description;
                    Ok(self.cpu(format!("the adapter {name:?} is software, which is slower")))
                }
                Ok(gpu) => Ok(self.webgpu(gpu, "there is a GPU".to_owned())),
            },
        }
    }

    fn cpu(&self, reason: String) -> (AnyBackend, Choices) {
        let precision = self.precision.unwrap_or(Precision::Fast);
        let backend = AnyBackend::Cpu(Box::new(CpuBackend::new(precision)));
        let precision = name_of(precision);
        let choices = Choices {
            precision,
            backend_reason: reason,
        };
        (backend, choices)
    }

    fn webgpu(&self, gpu: Gpu, reason: String) -> (AnyBackend, Choices) {
        let precision = self.precision.unwrap_or(Precision::Exact);
        let mut options = self.webgpu;
        options.fast = precision == Precision::Fast;
        let backend = AnyBackend::WebGpu(Box::new(WebGpuBackend::new(
            gpu,
            options,
            crate::wasm::performance_now,
        )));
        let precision = name_of(precision);
        let choices = Choices {
            precision,
            backend_reason: reason,
        };
        (backend, choices)
    }
}

/// `model.info.backend`.
pub(in crate::wasm) fn backend(hardware: &Hardware) -> &'static str {
    match hardware {
        AnyBackend::Cpu(_) => "cpu",
        AnyBackend::WebGpu(_) => "webgpu",
    }
}

/// `model.info.adapter`.
pub(in crate::wasm) fn adapter(hardware: &Hardware) -> Option<String> {
    match hardware {
        AnyBackend::Cpu(_) => None,
        AnyBackend::WebGpu(backend) => Some(backend.adapter().to_string()),
    }
}

fn read_backend(value: &Value) -> Result<Wanted, Error> {
    match value.as_str() {
        Some("auto") => Ok(Wanted::Auto),
        Some("cpu") => Ok(Wanted::Cpu),
        Some("webgpu") => Ok(Wanted::WebGpu),
        _ => Err(choice("backend", value, "\"auto\", \"cpu\" and \"webgpu\"")),
    }
}

fn read_kv(value: &Value) -> Result<Option<KvFormat>, Error> {
    match value.as_str() {
        Some("auto") => Ok(None),
        Some("f32") => Ok(Some(KvFormat::F32)),
        Some("f16") => Ok(Some(KvFormat::F16)),
        Some("q8_0") => Ok(Some(KvFormat::Q8_0)),
        _ => {
            let known = "\"auto\", \"f32\", \"f16\" and \"q8_0\"";
            Err(choice("kvCache", value, known))
        }
    }
}

/// What to leave unused of the GPU: `{ defaultLimits?, subgroups?, f16? }`, booleans.
fn read_device(value: &Value) -> Result<DeviceOptions, Error> {
    let wrong = Error::Kind {
        name: "option \"gpu\"",
        expected: "{ defaultLimits?, subgroups?, f16? } of booleans",
    };
    let fields = value.as_object().ok_or_else(|| wrong.clone())?;
    let mut options = DeviceOptions::default();
    for (name, value) in fields {
        let flag = value.as_bool().ok_or_else(|| wrong.clone())?;
        match name.as_str() {
            "defaultLimits" => options.default_limits = flag,
            "subgroups" => options.without_subgroups = !flag,
            "f16" => options.without_f16 = !flag,
            _ => return Err(wrong),
        }
    }
    Ok(options)
}

fn read_precision(value: &Value) -> Result<Option<Precision>, Error> {
    match value.as_str() {
        Some("auto") => Ok(None),
        Some("fast") => Ok(Some(Precision::Fast)),
        Some("exact") => Ok(Some(Precision::Exact)),
        _ => Err(choice(
            "precision",
            value,
            "\"auto\", \"fast\" and \"exact\"",
        )),
    }
}
