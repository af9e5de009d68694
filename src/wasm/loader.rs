//! Bytes in, an engine out.

use std::rc::Rc;

use serde_json::{Map, Value};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::PerformanceClock;
use super::convert::{throw, throw_session, to_options};
use super::engine::Engine;
use crate::Error;
use crate::backend::cpu::{CpuBackend, Precision};
use crate::backend::webgpu::{
    DeviceOptions, Gpu, GpuError, KvFormat, WebGpuBackend, WebGpuOptions,
};
use crate::backend::{AnyBackend, BackendError};
use crate::session::{self, LoadOptions};

/// Takes the bytes of a GGUF file, or of its shards in order.
#[wasm_bindgen]
pub struct Loader {
    inner: session::Loader<AnyBackend>,
    choices: Choices,
}

/// What the load decided, for `model.info`.
pub(super) struct Choices {
    pub(super) precision: &'static str,
    pub(super) backend_reason: String,
}

#[wasm_bindgen]
impl Loader {
    /// `{ contextLength?, precision?, backend?, kvCache?, gpu?, fileBytes: (number | null)[] }`,
    /// one entry of `fileBytes` a file; and the `tokenizer.json` to use rather than the model's
    /// vocabulary.
    ///
    /// # Errors
    /// `invalid-option`; `insecure-context` and `unsupported-environment` where `webgpu` is
    /// asked for and there is none.
    pub async fn open(options: JsValue, tokenizer: Option<Vec<u8>>) -> Result<Self, JsValue> {
        let options = to_options(options, "load options")?;
        let asked = Asked::read(&options).map_err(|error| throw(&error))?;
        let (backend, choices) = choose(&asked).await.map_err(|error| throw(&error))?;
        let mut inner = session::Loader::new(backend, asked.load, Rc::new(PerformanceClock));
        if let Some(json) = tokenizer {
            inner = inner.with_tokenizer(json);
        }
        Ok(Self { inner, choices })
    }

    /// Takes the next bytes of the current file.
    ///
    /// # Errors
    /// `invalid-gguf`, `unsupported-architecture`, `unsupported-quantization`,
    /// `invalid-option`, `out-of-memory`.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), JsValue> {
        self.inner.push(bytes).map_err(throw_session)
    }

    /// The current file is over.
    ///
    /// # Errors
    /// `invalid-gguf` where it is truncated.
    #[wasm_bindgen(js_name = endFile)]
    pub fn end_file(&mut self) -> Result<(), JsValue> {
        self.inner.end_file().map_err(throw_session)
    }

    /// Bytes taken so far.
    #[wasm_bindgen(getter, js_name = receivedBytes)]
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "byte counts are far below 2^53")]
    pub fn received_bytes(&self) -> f64 {
        self.inner.received_bytes() as f64
    }

    /// Completes the model.
    ///
    /// # Errors
    /// `invalid-gguf` where tensors or shards are missing, `out-of-memory`.
    pub async fn finish(self) -> Result<Engine, JsValue> {
        let mut session = self.inner.finish().map_err(throw_session)?;
        session.ready().await.map_err(throw_session)?;
        Ok(Engine::new(session, self.choices))
    }
}

/// What the caller asks for.
struct Asked {
    load: LoadOptions,
    backend: Wanted,
    /// `None` for `auto`.
    precision: Option<Precision>,
    webgpu: WebGpuOptions,
}

/// The backends that a caller may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Auto,
    Cpu,
    WebGpu,
}

impl Asked {
    fn read(options: &Map<String, Value>) -> Result<Self, Error> {
        let mut asked = Self {
            load: LoadOptions {
                context_length: None,
                file_bytes: vec![None],
            },
            backend: Wanted::Auto,
            precision: None,
            webgpu: WebGpuOptions::default(),
        };
        for (name, value) in options {
            match name.as_str() {
                "contextLength" => asked.load.context_length = Some(context_length(value)?),
                "precision" => asked.precision = read_precision(value)?,
                "backend" => asked.backend = read_backend(value)?,
                "kvCache" => asked.webgpu.kv = read_kv(value)?,
                "gpu" => asked.webgpu.device = read_device(value)?,
                "fileBytes" => asked.load.file_bytes = file_bytes(value)?,
                _ => {
                    let known = "contextLength, precision, backend, kvCache, gpu, fileBytes";
                    return Err(choice("load", &Value::String(name.clone()), known));
                }
            }
        }
        Ok(asked)
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
            super::performance_now,
        )));
        let precision = name_of(precision);
        let choices = Choices {
            precision,
            backend_reason: reason,
        };
        (backend, choices)
    }
}

/// Opens the backend that was asked for, or the one that `auto` finds.
async fn choose(asked: &Asked) -> Result<(AnyBackend, Choices), Error> {
    let gpu_error = |error: GpuError| Error::Session(BackendError::from(error).into());
    match asked.backend {
        Wanted::Cpu => Ok(asked.cpu("asked for".to_owned())),
        Wanted::WebGpu => {
            let gpu = Gpu::open(asked.webgpu.device).await.map_err(gpu_error)?;
            Ok(asked.webgpu(gpu, "asked for".to_owned()))
        }
        Wanted::Auto => match Gpu::open(asked.webgpu.device).await {
            Err(error) => Ok(asked.cpu(error.to_string())),
            Ok(gpu) if gpu.capabilities().is_software => {
                let name = &gpu.adapter().description;
                Ok(asked.cpu(format!("the adapter {name:?} is software, which is slower")))
            }
            Ok(gpu) => Ok(asked.webgpu(gpu, "there is a GPU".to_owned())),
        },
    }
}

fn name_of(precision: Precision) -> &'static str {
    match precision {
        Precision::Fast => "fast",
        Precision::Exact => "exact",
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

fn choice(name: &'static str, value: &Value, known: &'static str) -> Error {
    let value = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    Error::Choice { name, value, known }
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

fn context_length(value: &Value) -> Result<usize, Error> {
    let whole = value
        .as_f64()
        .filter(|x| x.fract() == 0.0 && (1.0..=16_777_216.0).contains(x));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a small positive integer"
    )]
    whole.map(|x| x as usize).ok_or(Error::Kind {
        name: "option \"contextLength\"",
        expected: "an integer from 1 to the model's context length",
    })
}

fn file_bytes(value: &Value) -> Result<Vec<Option<u64>>, Error> {
    let wrong = Error::Kind {
        name: "fileBytes",
        expected: "an array of numbers or nulls",
    };
    let list = value
        .as_array()
        .filter(|list| !list.is_empty())
        .ok_or(wrong.clone())?;
    let read = |bytes: &Value| match bytes {
        Value::Null => Ok(None),
        // A length of 2^53 and more is none that a browser could report.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be an integer below 2^53"
        )]
        _ => bytes
            .as_f64()
            .filter(|x| x.fract() == 0.0 && (0.0..9.0e15).contains(x))
            .map(|x| Some(x as u64))
            .ok_or(wrong.clone()),
    };
    list.iter().map(read).collect()
}
