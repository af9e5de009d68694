//! The suite `lab`: the lab page's own run of waits and streams, through its service worker.

use anyhow::Result;
use serde_json::json;

use super::{Measured, Options};
use crate::{build, paths, setup};

pub(super) fn run(options: &Options) -> Result<Measured> {
    let ready = setup::all()?;
    build::fast(&ready.wasm)?;
    let config = json!({ "chromium": ready.chromium, "dist": paths::at_root("dist") });
    super::in_chromium("bench-lab.mjs", options, &config)
}
