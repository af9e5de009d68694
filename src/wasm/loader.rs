//! Bytes in, an engine out.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Map, Value};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::PerformanceClock;
use super::convert::{throw, throw_session, to_js, to_options};
use super::engine::Engine;
use super::hardware::{self, Choices, Found, SessionLoader, Settings, choice};
use crate::Error;
use crate::session::LoadOptions;

/// Takes the bytes of a GGUF file, or of its shards in order.
#[wasm_bindgen]
pub struct Loader {
    inner: SessionLoader,
    settings: Settings,
    choices: Choices,
    /// What a search for kernels has found.
    found: Rc<RefCell<Option<Found>>>,
}

#[wasm_bindgen]
impl Loader {
    /// `{ contextLength?, precision?, backend?, backendReason?, kvCache?, gpu?, gpuReports?,
    /// plans?, fileBytes: (number | null)[] }`, one entry of `fileBytes` a file; with `plans`,
    /// what does not fit is not refused; and the `tokenizer.json` to use rather than the model's
    /// vocabulary.
    ///
    /// # Errors
    /// `invalid-option`; `insecure-context` and `unsupported-environment` where `webgpu` is
    /// asked for and there is none.
    pub async fn open(options: JsValue, tokenizer: Option<Vec<u8>>) -> Result<Self, JsValue> {
        let options = to_options(options, "load options")?;
        let asked = Asked::read(&options).map_err(|error| throw(&error))?;
        let (backend, choices) = asked.hardware.open().await.map_err(|error| throw(&error))?;
        let mut inner = SessionLoader::assembling(backend, asked.load, Rc::new(PerformanceClock));
        if !asked.plans {
            inner = inner.with_room(HOST_BYTES);
        }
        if let Some(json) = tokenizer {
            inner = inner.with_tokenizer(json);
        }
        Ok(Self {
            inner,
            settings: asked.hardware,
            choices,
            found: Rc::default(),
        })
    }

    /// Types of the model whose CPU kernel differs from its plain twin in this browser; none, if
    /// all is well, or where kernels without relaxed instructions compute, which are alike
    /// everywhere. To be called when there is a header.
    ///
    /// # Errors
    /// `out-of-memory`.
    #[wasm_bindgen(js_name = differingKernels)]
    pub fn differing_kernels(&mut self) -> Result<Vec<String>, JsValue> {
        let is_relaxed = cfg!(feature = "relaxed-simd");
        if !is_relaxed || hardware::backend(self.inner.backend_mut()) != "cpu" {
            return Ok(Vec::new());
        }
        let types = self.inner.matrix_types();
        let names = crate::backend::cpu::differing_kernels_of(&types);
        let names = names.map_err(|error| throw_session(error.into()))?;
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// Starts to find the kernels that the model needs, while its bytes go on arriving; to be
    /// called once, when there is a header. `undefined` where there is nothing to find. Of
    /// several phases, each is told when it begins.
    ///
    /// The promise gives the reason why `auto` cannot use this backend, if it cannot; a new
    /// loader for `cpu` has to take the model then. It rejects with what the device refuses.
    pub fn prepare(&mut self, on_phase: js_sys::Function) -> Option<js_sys::Promise> {
        let tell = move |phase: &'static str| {
            // A listener that throws has itself to blame.
            let _ = on_phase.call1(&JsValue::UNDEFINED, &phase.into());
        };
        let finding = hardware::find(&self.settings, &mut self.inner, Box::new(tell))?;
        let place = Rc::clone(&self.found);
        Some(wasm_bindgen_futures::future_to_promise(async move {
            let found = finding.await.map_err(|error| throw(&error))?;
            let refusal = hardware::refusal(&found).map(JsValue::from);
            *place.borrow_mut() = Some(found);
            Ok(refusal.unwrap_or(JsValue::UNDEFINED))
        }))
    }

    /// Why the CPU will run the model, as far as is known; `undefined` where a GPU will.
    #[wasm_bindgen(js_name = cpuReason)]
    pub fn cpu_reason(&mut self) -> Option<String> {
        let backend = hardware::backend(self.inner.backend_mut());
        (backend == "cpu").then(|| self.choices.backend_reason.clone())
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

    /// Whether the header of the first file is complete and accepted.
    #[wasm_bindgen(getter, js_name = hasHeader)]
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.inner.has_header()
    }

    /// What the headers so far say of the model, and how fast it would be here: on the processor
    /// by a measurement of some tens of milliseconds, on a GPU as [`prepare`](Self::prepare) has
    /// found, if it was called: `{ architecture, name, parameters, weightsBytes, kvCacheBytes,
    /// maxContext, contextLength, longestContext, shortage: { what, need, have } | null, backend,
    /// pace: { decodeMs, prefillMs } | null, gpu }`, the last as in `model.info`. `undefined`
    /// before there is a header, and for models of the compat engine.
    ///
    /// # Errors
    /// `out-of-memory`.
    pub async fn sketch(&mut self) -> Result<JsValue, JsValue> {
        let Some(sketch) = self.inner.sketch(HOST_BYTES) else {
            return Ok(JsValue::UNDEFINED);
        };
        let known = self.found.borrow().as_ref().and_then(hardware::pace_of);
        let pace = match known {
            Some(pace) => Some(pace),
            None => hardware::pace(&self.settings, &mut self.inner)
                .await
                .map_err(|error| throw(&error))?,
        };
        let shortage = sketch.fit.shortage.map(|it| {
            let what = it.what.to_string();
            serde_json::json!({ "what": what, "need": it.need, "have": it.have })
        });
        let backend = hardware::backend(self.inner.backend_mut());
        to_js(&serde_json::json!({
            "architecture": sketch.architecture,
            "name": sketch.name,
            "parameters": sketch.parameters,
            "weightsBytes": sketch.fit.weights_bytes,
            "kvCacheBytes": sketch.fit.kv_cache_bytes,
            "maxContext": sketch.max_context,
            "contextLength": sketch.context_length,
            "longestContext": sketch.fit.longest_context,
            "shortage": shortage,
            "backend": backend,
            "pace": pace,
            "gpu": self.found.borrow().as_ref().and_then(hardware::report_of),
        }))
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
        let mut choices = self.choices;
        let mut inner = self.inner;
        if let Some(found) = self.found.take()
            && let Some(reason) = hardware::adopt(&mut inner, found)
        {
            choices.backend_reason = reason;
        }
        let mut session = inner.finish().map_err(throw_session)?;
        session.ready().await.map_err(throw_session)?;
        session.warm().await.map_err(throw_session)?;
        if self.settings.profiles() {
            choices.profile = session.profile().await.map_err(throw_session)?;
        }
        Ok(Engine::new(session, choices))
    }
}

/// What 32 bits address, less what the engine itself, its scratch and a tokenizer take.
const HOST_BYTES: u64 = (4 << 30) - (256 << 20);

/// What the caller asks for.
struct Asked {
    load: LoadOptions,
    /// Whether the model fits is for the caller to judge.
    plans: bool,
    hardware: Settings,
}

impl Asked {
    fn read(options: &Map<String, Value>) -> Result<Self, Error> {
        let mut asked = Self {
            load: LoadOptions {
                context_length: None,
                file_bytes: vec![None],
            },
            plans: false,
            hardware: Settings::default(),
        };
        for (name, value) in options {
            match name.as_str() {
                "contextLength" => asked.load.context_length = Some(context_length(value)?),
                "plans" => asked.plans = value.as_bool().unwrap_or(false),
                "fileBytes" => asked.load.file_bytes = file_bytes(value)?,
                name if asked.hardware.set(name, value)? => {}
                _ => {
                    let known = "contextLength, precision, backend, kvCache, gpu, fileBytes";
                    return Err(choice("load", &Value::String(name.clone()), known));
                }
            }
        }
        Ok(asked)
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
