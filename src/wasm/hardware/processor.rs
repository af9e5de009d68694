//! The forward pass on the threads of the processor, where there is nothing to choose from.

use serde_json::Value;

use super::{Choices, Finding, OnPhase, choice, name_of, read_precision};
use crate::Error;
use crate::backend::cpu::{CpuBackend, Precision};
use crate::backend::{Pace, measure};
use crate::session;
use crate::wasm::{performance_now, threads::crew};

pub(in crate::wasm) type Hardware = CpuBackend;
pub(in crate::wasm) type SessionLoader = session::Loader<CpuBackend>;

/// `model.info.wasmVariant`.
pub(in crate::wasm) const VARIANT: &str = "relaxed-simd-threads";

/// What the caller asks for.
#[derive(Default)]
pub(in crate::wasm) struct Settings {
    /// `None` for `auto`.
    precision: Option<Precision>,
    /// Why the processor is used, where it was not the caller who asked for it.
    reason: Option<String>,
}

impl Settings {
    /// Takes an option; `false` for one of another name.
    pub(in crate::wasm) fn set(&mut self, name: &str, value: &Value) -> Result<bool, Error> {
        match (name, value.as_str()) {
            ("precision", _) => self.precision = read_precision(value)?,
            ("backendReason", reason) => self.reason = reason.map(str::to_owned),
            ("backend", Some("cpu")) => {}
            ("backend", _) => return Err(choice("backend", value, "\"cpu\"")),
            ("kvCache", Some("auto" | "f32" | "f16" | "q8_0")) => {}
            ("kvCache", _) => {
                let known = "\"auto\", \"f32\", \"f16\" and \"q8_0\"";
                return Err(choice("kvCache", value, known));
            }
            // What it says to leave unused is not used.
            ("gpu" | "gpuReports", _) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn precision(&self) -> Precision {
        self.precision.unwrap_or(Precision::Fast)
    }

    fn hardware(&self) -> CpuBackend {
        CpuBackend::with_crew(self.precision(), crew().clone())
    }

    /// The processor is not profiled.
    #[expect(
        clippy::unused_self,
        reason = "what other artifacts run on is, where it is asked for"
    )]
    pub(in crate::wasm) fn profiles(&self) -> bool {
        false
    }

    /// A backend that waits for its model. Asynchronous because another artifact has to wait for
    /// a GPU.
    pub(in crate::wasm) async fn open(&self) -> Result<(Hardware, Choices), Error> {
        let reason = self.reason.clone();
        let choices = Choices {
            precision: name_of(self.precision()),
            backend_reason: reason.unwrap_or_else(|| "asked for".to_owned()),
            profile: Vec::new(),
        };
        Ok((self.hardware(), choices))
    }
}

/// Nothing: the kernels are chosen already.
pub(in crate::wasm) enum Found {}

/// Nothing has to be found.
pub(in crate::wasm) fn find(_: &Settings, _: &mut SessionLoader, _: OnPhase) -> Option<Finding> {
    None
}

/// How fast the model whose header is known would run.
pub(in crate::wasm) async fn pace(
    settings: &Settings,
    loader: &mut SessionLoader,
) -> Result<Option<Pace>, Error> {
    let Some(outline) = loader.outline() else {
        return Ok(None);
    };
    let pace = measure(&mut settings.hardware(), &outline, &performance_now).await;
    pace.map(Some).map_err(|error| Error::Session(error.into()))
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
pub(in crate::wasm) fn threads(hardware: &Hardware) -> usize {
    hardware.threads()
}
