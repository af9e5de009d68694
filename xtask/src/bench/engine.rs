//! The suite `engine`: speed of the engine by itself, and where its time goes.

use anyhow::Result;
use serde_json::json;

use super::{Measured, Options, models};
use crate::args::ModelSource;
use crate::{build, paths, setup};

pub(super) const OPTIONS: &[&str] = &["model", "backend", "precision", "samples"];

pub(super) fn run(options: &Options) -> Result<Measured> {
    let ready = setup::all()?;
    build::package(&ready.wasm, build::Kind::Fast, &build::Module::ALL)?;
    let models = models::sources(&options.models)?;
    let mut load = json!({ "backend": options.backend.as_deref().unwrap_or("webgpu") });
    if let Some(precision) = &options.precision {
        load["precision"] = precision.as_str().into();
    }
    let config = json!({
        "chromium": ready.chromium,
        "pkg": paths::at_root("pkg"),
        "model": models.last().map(ModelSource::to_json),
        "load": load,
        "samples": options.samples,
    });
    super::in_chromium("bench-engine.mjs", options, &config)
}
