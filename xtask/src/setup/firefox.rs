//! The second browser of the tests, with a WebGPU and a wasm compiler of its own.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::apt;

/// Where Debian puts it, which is also where the tests look.
const PROGRAM: &str = "/usr/bin/firefox-esr";

pub(crate) fn ready() -> Result<()> {
    if let Some(chosen) = env::var_os("TOKENBROOK_FIREFOX").map(PathBuf::from) {
        if !chosen.is_file() {
            bail!(
                "TOKENBROOK_FIREFOX names `{}`, which is not a file",
                chosen.display()
            );
        }
        return Ok(());
    }
    if Path::new(PROGRAM).is_file() {
        return Ok(());
    }
    apt::install(
        &["firefox-esr"],
        "Firefox ESR (or set TOKENBROOK_FIREFOX to its program)",
    )
}
