//! Bytes in, an engine out.

use std::rc::Rc;

use serde_json::{Map, Value};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::PerformanceClock;
use super::convert::{throw, throw_session, to_options};
use super::engine::Engine;
use super::hardware::{AUTO_REASON, PRECISION_NAMES, PRECISIONS, SessionLoader, hardware};
use crate::Error;
use crate::backend::cpu::Precision;
use crate::session::LoadOptions;

/// Takes the bytes of a GGUF file, or of its shards in order.
#[wasm_bindgen]
pub struct Loader {
    inner: SessionLoader,
    choices: Choices,
}

/// What the load decided, for `model.info`.
pub(super) struct Choices {
    pub(super) precision: &'static str,
    pub(super) backend_reason: &'static str,
}

#[wasm_bindgen]
impl Loader {
    /// `{ contextLength?, precision?, backend?, fileBytes: (number | null)[] }`, one entry of
    /// `fileBytes` a file.
    ///
    /// # Errors
    /// `invalid-option`.
    #[wasm_bindgen(constructor)]
    pub fn new(options: JsValue) -> Result<Self, JsValue> {
        let options = to_options(options, "load options")?;
        let (load, choices, precision) = read(&options).map_err(|error| throw(&error))?;
        let clock = Rc::new(PerformanceClock);
        let inner = SessionLoader::assembling(hardware(precision), load, clock);
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

    /// Whether the header of the first file is complete and accepted.
    #[wasm_bindgen(getter, js_name = hasHeader)]
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.inner.has_header()
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
    pub fn finish(self) -> Result<Engine, JsValue> {
        let session = self.inner.finish().map_err(throw_session)?;
        Ok(Engine::new(session, self.choices))
    }
}

fn read(options: &Map<String, Value>) -> Result<(LoadOptions, Choices, Precision), Error> {
    let mut load = LoadOptions {
        context_length: None,
        file_bytes: vec![None],
    };
    let mut precision = (Precision::Fast, "fast");
    let mut backend_reason = "asked for";
    if !options.contains_key("backend") {
        backend_reason = AUTO_REASON;
    }
    for (name, value) in options {
        match name.as_str() {
            "contextLength" => load.context_length = Some(context_length(value)?),
            "precision" => precision = read_precision(value)?,
            "backend" => match value.as_str() {
                Some("cpu") => {}
                Some("auto") => backend_reason = AUTO_REASON,
                _ => return Err(choice("backend", value, "\"auto\" and \"cpu\"")),
            },
            "fileBytes" => load.file_bytes = file_bytes(value)?,
            _ => {
                let known = "contextLength, precision, backend, fileBytes";
                return Err(choice("load", &Value::String(name.clone()), known));
            }
        }
    }
    Ok((
        load,
        Choices {
            precision: precision.1,
            backend_reason,
        },
        precision.0,
    ))
}

fn choice(name: &'static str, value: &Value, known: &'static str) -> Error {
    let value = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    Error::Choice { name, value, known }
}

fn read_precision(value: &Value) -> Result<(Precision, &'static str), Error> {
    let mut known = PRECISIONS.iter();
    let found = known.find(|(name, _)| value.as_str() == Some(*name));
    match found {
        Some((_, precision)) => Ok(*precision),
        None => Err(choice("precision", value, PRECISION_NAMES)),
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
