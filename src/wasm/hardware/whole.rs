//! candle-transformers' models, on the CPU.

use serde_json::Value;

use super::{Choices, choice, name_of};
use crate::Error;
use crate::backend::cpu::Precision;
use crate::compat::{CompatBackend, CompatLoader};
use crate::session;

pub(in crate::wasm) type Hardware = CompatBackend;
pub(in crate::wasm) type SessionLoader = session::Loader<CompatBackend, CompatLoader>;

/// `model.info.wasmVariant`.
pub(in crate::wasm) const VARIANT: &str = "compat";

/// What the caller asks for.
#[derive(Default)]
pub(in crate::wasm) struct Settings {
    names_cpu: bool,
}

impl Settings {
    /// Takes an option; `false` for one of another name.
    pub(in crate::wasm) fn set(&mut self, name: &str, value: &Value) -> Result<bool, Error> {
        match (name, value.as_str()) {
            ("backend", Some(backend @ ("auto" | "cpu"))) => self.names_cpu = backend == "cpu",
            ("backend", _) => return Err(choice("backend", value, "\"auto\" and \"cpu\"")),
            // Activations are int8 where the weights are quantized.
            ("precision", Some("auto" | "fast")) => {}
            ("precision", _) => {
                return Err(choice("precision", value, "\"auto\" and \"fast\""));
            }
            ("kvCache", Some("auto" | "f32")) => {}
            ("kvCache", _) => return Err(choice("kvCache", value, "\"auto\" and \"f32\"")),
            // What it says to leave unused is not used. The other artifact has checked it.
            ("gpu", _) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A backend that waits for its model. Asynchronous because the other artifact has to wait
    /// for a GPU.
    pub(in crate::wasm) async fn open(&self) -> Result<(Hardware, Choices), Error> {
        let reason = if self.names_cpu {
            "asked for"
        } else {
            "this architecture is run by candle-transformers, on the CPU alone"
        };
        let choices = Choices {
            precision: name_of(Precision::Fast),
            backend_reason: reason.to_owned(),
        };
        Ok((CompatBackend::new(), choices))
    }
}

/// `model.info.backend`.
pub(in crate::wasm) fn backend(_: &Hardware) -> &'static str {
    "cpu"
}

/// `model.info.adapter`.
pub(in crate::wasm) fn adapter(_: &Hardware) -> Option<String> {
    None
}
