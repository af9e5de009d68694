//! What was found out about a device before a model was used on it.

use serde::{Deserialize, Serialize};

/// How the check of one variant went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the variant is for.
    pub role: String,
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
    /// What it is for.
    pub role: String,
    /// The variant.
    pub variant: String,
}

/// Times that the measured kernels predict for the whole model, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// A token of an answer.
    pub decode_ms: f64,
    /// A token of a prompt.
    pub prefill_ms: f64,
}

impl Pace {
    /// Time of a prompt and an answer of this many tokens each, about a turn of a chat.
    #[must_use]
    pub fn turn_ms(&self) -> f64 {
        64.0 * (self.decode_ms + self.prefill_ms)
    }
}

/// All of it. A report holds for every load with the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version, browser, adapter, limits, features, and what the model asks for.
    pub key: String,
    /// Names of the adapter.
    pub adapter: String,
    /// The variant of each role.
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
