//! The forward pass, on the backend that was asked for or found.

use serde_json::Value;

use super::{Choices, Finding, OnPhase, choice, name_of, read_precision};
use crate::Error;
use crate::backend::cpu::{CpuBackend, Precision};
use crate::backend::webgpu::{
    Given, Gpu, GpuError, InUse, Kernels, KvFormat, Phase, PlanKind, WebGpuBackend, WebGpuOptions,
};
use crate::backend::{AnyBackend, BackendError, Outline, Pace, measure};
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
    given: Given,
    profiles: bool,
    /// Why `cpu` is asked for, where it was not the caller who did.
    reason: Option<String>,
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
            "gpu" => self.read_gpu(value)?,
            // Reports of another version have other fields.
            "gpuReports" => {
                let reports = value.as_array().into_iter().flatten();
                let read = |report: &Value| serde_json::from_value(report.clone()).ok();
                self.given.reports = reports.filter_map(read).collect();
            }
            "backendReason" => self.reason = value.as_str().map(str::to_owned),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the caller says of the GPU:
    /// `{ defaultLimits?, subgroups?, f16?, profile?, plan?, variants? }`.
    fn read_gpu(&mut self, value: &Value) -> Result<(), Error> {
        let wrong = || Error::Kind {
            name: "option \"gpu\"",
            expected: "{ defaultLimits?, subgroups?, f16?, profile? } of booleans, plan? \
                       \"software\" or \"hardware\", variants? an object of names by role",
        };
        let device = &mut self.webgpu.device;
        for (name, value) in value.as_object().ok_or_else(wrong)? {
            let flag = || value.as_bool().ok_or_else(wrong);
            match (name.as_str(), value.as_str()) {
                ("defaultLimits", _) => device.default_limits = flag()?,
                ("subgroups", _) => device.without_subgroups = !flag()?,
                ("f16", _) => device.without_f16 = !flag()?,
                ("profile", _) => self.profiles = flag()?,
                ("plan", Some("software")) => self.webgpu.plan = Some(PlanKind::Software),
                ("plan", Some("hardware")) => self.webgpu.plan = Some(PlanKind::Hardware),
                ("variants", _) => {
                    self.given.variants = read_variants(value).ok_or_else(wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(())
    }

    /// Whether the model is to be profiled when it is loaded.
    pub(in crate::wasm) fn profiles(&self) -> bool {
        self.profiles
    }

    /// Opens the backend that was asked for, or the one that `auto` finds.
    pub(in crate::wasm) async fn open(&self) -> Result<(AnyBackend, Choices), Error> {
        match self.backend {
            Wanted::Cpu => {
                let reason = self.reason.clone();
                Ok(self.cpu(reason.unwrap_or_else(|| "asked for".to_owned())))
            }
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
            profile: Vec::new(),
        };
        (backend, choices)
    }

    fn webgpu(&self, gpu: Gpu, reason: String) -> (AnyBackend, Choices) {
        let precision = self.precision.unwrap_or(Precision::Exact);
        let mut options = self.webgpu;
        options.fast = precision == Precision::Fast;
        let backend = WebGpuBackend::new(gpu, options, crate::wasm::performance_now);
        let backend = AnyBackend::WebGpu(Box::new(backend.with_given(self.given.clone())));
        let precision = name_of(precision);
        let choices = Choices {
            precision,
            backend_reason: reason,
            profile: Vec::new(),
        };
        (backend, choices)
    }
}

/// What came of a search for kernels.
pub(in crate::wasm) enum Found {
    /// They are there, and why they are used.
    Kernels(Box<Kernels>, Option<String>),
    /// The processor has to take the model, and why.
    Refused(String),
}

/// Starts to find the kernels of the model whose header is known, where it will run on a GPU.
///
/// For `auto`, a GPU that has none, or none that are faster than the processor, is no error.
pub(in crate::wasm) fn find(
    settings: &Settings,
    loader: &mut SessionLoader,
    on_phase: OnPhase,
) -> Option<Finding> {
    let outline = loader.outline()?;
    let AnyBackend::WebGpu(backend) = loader.backend_mut() else {
        return None;
    };
    let phase = move |phase| {
        on_phase(match phase {
            Phase::Compile => "compile",
            Phase::Check => "check",
        });
    };
    let preparation = backend.preparation(outline.clone(), Box::new(phase));
    let is_auto = settings.backend == Wanted::Auto;
    let precision = settings.precision.unwrap_or(Precision::Fast);
    Some(Box::pin(async move {
        match preparation.await {
            Ok(kernels) if is_auto => Ok(faster(kernels, precision, &outline).await),
            Ok(kernels) => Ok(Found::Kernels(Box::new(kernels), None)),
            // What the caller got wrong is told whoever would run the model.
            Err(error) if is_auto && error.code() != "invalid-option" => {
                Ok(Found::Refused(error.to_string()))
            }
            Err(error) => Err(gpu_error(error)),
        }
    }))
}

/// The GPU, or the processor where that is measured to be faster.
async fn faster(kernels: Kernels, precision: Precision, outline: &Outline) -> Found {
    let Some(gpu) = kernels.report.pace else {
        return Found::Kernels(Box::new(kernels), Some("there is a GPU".to_owned()));
    };
    let mut cpu = CpuBackend::new(precision);
    let Ok(cpu) = measure(&mut cpu, outline, &crate::wasm::performance_now).await else {
        return Found::Kernels(Box::new(kernels), Some("there is a GPU".to_owned()));
    };
    let times = format!(
        "measured on a part of the model: {:.2} ms a token on the GPU, {:.2} on the CPU",
        gpu.decode_ms, cpu.decode_ms
    );
    if gpu.turn_ms() <= cpu.turn_ms() {
        Found::Kernels(
            Box::new(kernels),
            Some(format!("the GPU is faster ({times})")),
        )
    } else {
        Found::Refused(format!("the GPU is slower than the CPU ({times})"))
    }
}

/// How fast the model whose header is known would run on the processor, if that is to run it.
pub(in crate::wasm) async fn pace(
    settings: &Settings,
    loader: &mut SessionLoader,
) -> Result<Option<Pace>, Error> {
    let Some(outline) = loader.outline() else {
        return Ok(None);
    };
    if !matches!(loader.backend_mut(), AnyBackend::Cpu(_)) {
        return Ok(None);
    }
    let mut cpu = CpuBackend::new(settings.precision.unwrap_or(Precision::Fast));
    let pace = measure(&mut cpu, &outline, &crate::wasm::performance_now).await;
    pace.map(Some).map_err(|error| Error::Session(error.into()))
}

/// How fast the kernels that were found run the model, as far as that was measured.
pub(in crate::wasm) fn pace_of(found: &Found) -> Option<Pace> {
    match found {
        Found::Kernels(kernels, _) => kernels.report.pace,
        Found::Refused(_) => None,
    }
}

/// What was found out about a GPU, and whether an earlier load had.
pub(in crate::wasm) fn report_of(found: &Found) -> Option<Value> {
    let Found::Kernels(kernels, _) = found else {
        return None;
    };
    let mut report = serde_json::to_value(&kernels.report).ok()?;
    report["isKnown"] = kernels.is_known.into();
    Some(report)
}

/// Takes what was found; the reason for using it, where there is another than before.
pub(in crate::wasm) fn adopt(loader: &mut SessionLoader, found: Found) -> Option<String> {
    let Found::Kernels(kernels, reason) = found else {
        return None;
    };
    if let AnyBackend::WebGpu(backend) = loader.backend_mut() {
        backend.adopt(*kernels);
    }
    reason
}

/// Why the processor has to take the model, if it has to.
pub(in crate::wasm) fn refusal(found: &Found) -> Option<&str> {
    match found {
        Found::Refused(reason) => Some(reason),
        Found::Kernels(..) => None,
    }
}

/// `model.info.gpu`.
pub(in crate::wasm) fn report(hardware: &Hardware) -> Option<Value> {
    let AnyBackend::WebGpu(backend) = hardware else {
        return None;
    };
    let mut report = serde_json::to_value(backend.report()?).ok()?;
    report["isKnown"] = backend.report_is_known().into();
    Some(report)
}

fn gpu_error(error: GpuError) -> Error {
    Error::Session(BackendError::from(error).into())
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

fn read_variants(value: &Value) -> Option<Vec<InUse>> {
    let named = value.as_object()?.iter().map(|(role, variant)| {
        let variant = variant.as_str()?.to_owned();
        let role = role.clone();
        let format = None;
        Some(InUse {
            role,
            format,
            variant,
        })
    });
    named.collect()
}

/// `model.info.threads`.
pub(in crate::wasm) fn threads(_: &Hardware) -> usize {
    1
}
