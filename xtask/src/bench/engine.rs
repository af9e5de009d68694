//! The suite `engine`: speed of the engine by itself, and where its time goes.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Measured, Options};
use crate::args::ModelSource;
use crate::{build, paths, process, setup};

pub(super) const OPTIONS: &[&str] = &["model", "backend", "precision"];

pub(super) fn run(options: &Options) -> Result<Measured> {
    if options.browser != "chromium" {
        bail!("the suite `engine` runs in chromium");
    }
    let ready = setup::all()?;
    build::package(&ready.wasm, build::Kind::Fast, &build::Module::ALL)?;
    let model = options.models.last().cloned();
    let model = model.unwrap_or(ModelSource::File(ready.model));
    let mut load = json!({ "backend": options.backend.as_deref().unwrap_or("webgpu") });
    if let Some(precision) = &options.precision {
        load["precision"] = precision.as_str().into();
    }
    let config = json!({
        "chromium": ready.chromium,
        "pkg": paths::at_root("pkg"),
        "model": model.to_json(),
        "load": load,
        "samples": options.samples,
    });
    let mut script = process::node_script("bench-engine.mjs");
    let measured = process::output_or_words(script.arg(config.to_string()))?;
    let mut json: Value = serde_json::from_str(&measured).context("the script gave no JSON")?;
    let table = json.as_object_mut().and_then(|map| map.remove("table"));
    let table = table.as_ref().and_then(Value::as_str).unwrap_or_default();
    Ok(Measured {
        table: table.to_owned(),
        json,
    })
}
