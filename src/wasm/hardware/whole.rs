//! candle-transformers' models, on the CPU.

use serde_json::Value;

use super::{Choices, Finding, OnPhase, choice, name_of};
use crate::Error;
use crate::backend::Pace;
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
            ("gpu" | "gpuReports" | "backendReason", _) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// candle-transformers' models are not profiled.
    #[expect(
        clippy::unused_self,
        reason = "the other artifact's are, where they are asked for"
    )]
    pub(in crate::wasm) fn profiles(&self) -> bool {
        false
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
            profile: Vec::new(),
        };
        Ok((CompatBackend::new(), choices))
    }
}

/// Nothing: candle-transformers has no kernels to choose from.
pub(in crate::wasm) enum Found {}

/// Nothing has to be found.
pub(in crate::wasm) fn find(_: &Settings, _: &mut SessionLoader, _: OnPhase) -> Option<Finding> {
    None
}

/// Nothing is measured.
pub(in crate::wasm) async fn pace(
    _: &Settings,
    _: &mut SessionLoader,
) -> Result<Option<Pace>, Error> {
    Ok(None)
}

/// Cannot be called.
pub(in crate::wasm) fn pace_of(found: &Found) -> Option<Pace> {
    match *found {}
}

/// Cannot be called.
pub(in crate::wasm) fn report_of(found: &Found) -> Option<Value> {
    match *found {}
}

/// Cannot be called.
pub(in crate::wasm) fn adopt(_: &mut SessionLoader, found: Found) -> Option<String> {
    match found {}
}

/// Cannot be called.
pub(in crate::wasm) fn refusal(found: &Found) -> Option<&str> {
    match *found {}
}

/// `model.info.gpu`.
pub(in crate::wasm) fn report(_: &Hardware) -> Option<Value> {
    None
}

/// `model.info.backend`.
pub(in crate::wasm) fn backend(_: &Hardware) -> &'static str {
    "cpu"
}

/// `model.info.adapter`.
pub(in crate::wasm) fn adapter(_: &Hardware) -> Option<String> {
    None
}

/// `model.info.threads`.
pub(in crate::wasm) fn threads(_: &Hardware) -> usize {
    1
}
