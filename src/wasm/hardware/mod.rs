//! What runs models in this artifact, and the options of `load()` that choose it.
//!
//! All kinds have the same names: `Hardware` and how a session is loaded on it
//! (`SessionLoader`), `Settings` with `set` and `open`, and what `model.info` says of it.

#[cfg(not(any(feature = "compat", feature = "threads")))]
mod own;
#[cfg(all(feature = "threads", not(feature = "compat")))]
mod processor;
#[cfg(feature = "compat")]
mod whole;

#[cfg(not(any(feature = "compat", feature = "threads")))]
pub(super) use own::*;
#[cfg(all(feature = "threads", not(feature = "compat")))]
pub(super) use processor::*;
#[cfg(feature = "compat")]
pub(super) use whole::*;

use std::pin::Pin;

use serde_json::Value;

use crate::Error;
use crate::backend::Profile;
use crate::backend::cpu::Precision;

/// What a load decided, for `model.info`.
pub(super) struct Choices {
    pub(super) precision: &'static str,
    pub(super) backend_reason: String,
    /// Empty where none was asked for.
    pub(super) profile: Vec<Profile>,
}

/// Kernels being found while weights arrive.
pub(super) type Finding = Pin<Box<dyn Future<Output = Result<Found, Error>>>>;

/// Tells what is being done: `compile`, `check`.
pub(super) type OnPhase = Box<dyn Fn(&'static str)>;

/// A value that is none of the `known` ones.
pub(super) fn choice(name: &'static str, value: &Value, known: &'static str) -> Error {
    let value = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    Error::Choice { name, value, known }
}

/// `None` for `auto`.
#[cfg(not(feature = "compat"))]
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

fn name_of(precision: Precision) -> &'static str {
    match precision {
        Precision::Fast => "fast",
        Precision::Exact => "exact",
    }
}
