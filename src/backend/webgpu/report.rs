//! What was found out about a device before a model was used on it.

use serde::{Deserialize, Serialize};

use crate::backend::Pace;

/// How the check of one variant went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the variant is for.
    pub role: String,
    /// The quantization of the weights, where there are any.
    pub format: Option<String>,
    /// The variant.
    pub variant: String,
    /// What is wrong with it, if anything is.
    pub fault: Option<String>,
}

/// How long one variant took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// What the variant is for.
    pub role: String,
    /// The variant.
    pub variant: String,
    /// The quantization of the weights, where there are any.
    pub format: Option<String>,
    /// Of one dispatch, or of as many as the variant takes.
    pub micros: f64,
}

/// The variant in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InUse {
    /// What it is for. Products whose activations may be rounded are reported by themselves,
    /// their role ending in `Rounded`.
    pub role: String,
    /// The quantization of the weights, where there are any. `None` in a wish: all of them.
    pub format: Option<String>,
    /// The variant.
    pub variant: String,
}

/// All of it. A report holds for every load with the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version, browser, adapter, limits, features, and what the model asks for.
    pub key: String,
    /// Names of the adapter.
    pub adapter: String,
    /// The variant of each role and quantization.
    pub variants: Vec<InUse>,
    /// Every check, also of variants that are not in use.
    pub checks: Vec<Verdict>,
    /// Every measurement; none where the choice was given.
    pub timings: Vec<Timing>,
    /// `None` without measurements.
    pub pace: Option<Pace>,
    /// Time that checks took, making of pipelines included, milliseconds.
    pub check_ms: f64,
    /// Time that measurements took, milliseconds.
    pub tune_ms: f64,
}
