//! The browser that `chat`, `score` and the browser tests drive.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::apt;
use crate::paths;

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
const MAC: &str = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

pub(crate) fn ready() -> Result<PathBuf> {
    if let Some(chosen) = env::var_os("TOKENBROOK_CHROMIUM") {
        let chosen = PathBuf::from(chosen);
        if !chosen.is_file() {
            bail!(
                "TOKENBROOK_CHROMIUM names `{}`, which is not a file",
                chosen.display()
            );
        }
        return Ok(chosen);
    }
    if let Some(found) = find() {
        return Ok(found);
    }
    apt::install(
        &["chromium"],
        "Chromium (or set TOKENBROOK_CHROMIUM to its program)",
    )?;
    find().context("apt-get installed chromium, but there is no such program in PATH")
}

fn find() -> Option<PathBuf> {
    NAMES
        .iter()
        .find_map(|name| paths::find_program(name))
        .or_else(|| Some(PathBuf::from(MAC)).filter(|path| path.is_file()))
}
