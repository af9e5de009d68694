//! The peer candle-transformers: the crate in `benches/candle`, which nothing else builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::build::{Kind, Module, package};
use crate::stamp::{self, Inputs};
use crate::wasm::{TARGET, Wasm};
use crate::{paths, process};

/// The crate that is measured, and what its row begins with.
const NAME: &str = "candle-transformers";

/// Whether a run with these engines, or with all for none, has its row.
pub(super) fn is_asked(engines: &[String], backend: &str) -> bool {
    let named = |part: &String| NAME.starts_with(part.as_str()) || part.starts_with(NAME);
    backend == "cpu" && (engines.is_empty() || engines.iter().any(named))
}

/// The folder with `candle.js`, `candle_bg.wasm` and a manifest that has candle's version, made
/// with as much work as this package's own modules.
pub(super) fn folder(wasm: &Wasm, kind: Kind) -> Result<PathBuf> {
    let folder = paths::at_root("target/xtask/candle");
    let profile = Module::Engine.profile(kind);
    let mut inputs = Inputs::new().text(&format!("{wasm:?} {profile}"));
    inputs = inputs.text(&process::output(Command::new("rustc").arg("-vV"))?);
    for path in ["Cargo.toml", "Cargo.lock", "benches/candle"] {
        inputs = inputs.path(&paths::at_root(path))?;
    }
    let manifest = folder.join("package.json");
    stamp::unless_fresh("candle", &inputs.finish(), &manifest, || {
        eprintln!("bench: making {}", folder.display());
        make(wasm, kind, &folder)?;
        // Last: it is made when its manifest is there.
        let lock = fs::read_to_string(paths::at_root("Cargo.lock"))?;
        let version = version(&lock).context("Cargo.lock has no candle-transformers")?;
        Ok(fs::write(
            &manifest,
            json!({ "name": NAME, "version": version }).to_string(),
        )?)
    })?;
    Ok(folder)
}

fn make(wasm: &Wasm, kind: Kind, folder: &Path) -> Result<()> {
    let profile = Module::Engine.profile(kind);
    let mut cargo = wasm.cargo();
    cargo.args(["build", "--package", "candle-peer", "--target", TARGET]);
    process::run(cargo.args(["--profile", profile]))?;
    let compiled = Wasm::artifact(profile).with_file_name("candle_peer.wasm");
    package::bind(&compiled, "candle", folder)?;
    match kind {
        Kind::Fast => Ok(()),
        Kind::Release => package::optimize(&folder.join("candle_bg.wasm"), Module::Engine),
    }
}

/// The version in a lock file.
fn version(lock: &str) -> Option<&str> {
    let (_, rest) = lock.split_once(&format!("name = \"{NAME}\"\nversion = \""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_built_only_for_a_row_that_is_asked_for() {
        let asked = |engines: &[&str], backend| {
            let engines: Vec<String> = engines.iter().map(|&name| name.to_owned()).collect();
            is_asked(&engines, backend)
        };
        assert!(asked(&[], "cpu"));
        assert!(asked(&["tokenbrook relaxed", "candle"], "cpu"));
        assert!(asked(&["candle-transformers 0.11"], "cpu"));
        assert!(!asked(&["tokenbrook", "wllama"], "cpu"));
        assert!(!asked(&[], "webgpu"));
    }

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = fs::read_to_string(paths::at_root("Cargo.lock")).unwrap();
        let manifest = fs::read_to_string(paths::at_root("benches/candle/Cargo.toml")).unwrap();
        let version = version(&lock).unwrap();
        assert!(manifest.contains(&format!(
            "candle-transformers = {{ version = \"={version}\""
        )));
    }
}
