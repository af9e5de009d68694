//! The suite `peers`: this package's engines and other packages, in one run of one browser.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::report::Report;
use super::{Measured, Options, candle, models, results};
use crate::args::ModelSource;
use crate::build::{self, Kind};
use crate::{paths, process, setup};

/// Prompt lengths in tokens. Decoding is measured behind the first and the last: at a depth of
/// next to nothing, and deep.
const PROMPTS: [u32; 4] = [1, 32, 128, 512];
const THREADS: [u32; 2] = [1, 2];
/// A GPU that is a processor, as on a machine without one, does not get further in good time.
const GPU_PROMPTS: [u32; 2] = [1, 32];

pub(super) const OPTIONS: &[&str] = &[
    "model",
    "backend",
    "threads",
    "prompts",
    "engines",
    "samples",
    "onnx",
    "native-python",
    "fast",
    "write-results",
    "report",
];

pub(super) fn run(options: &Options) -> Result<Measured> {
    let reports = match &options.reports[..] {
        [] => vec![measure(options)?],
        files => files
            .iter()
            .map(|file| Report::read(file))
            .collect::<Result<_>>()?,
    };
    if options.write_results {
        results::write("peers", &reports)?;
    }
    let table = reports.iter().map(Report::table).collect::<Vec<_>>();
    let mut all: Vec<_> = reports.into_iter().map(Report::into_json).collect();
    let json = match (all.len(), all.pop()) {
        (1, Some(only)) => only,
        (_, last) => all.into_iter().chain(last).collect(),
    };
    Ok(Measured {
        table: table.join("\n"),
        json,
    })
}

/// One run of a browser.
fn measure(options: &Options) -> Result<Report> {
    let ready = setup::all()?;
    install()?;
    let kind = if options.fast {
        Kind::Fast
    } else {
        Kind::Release
    };
    build::package(&ready.wasm, kind, &build::Module::ALL)?;
    let models = models::sources(&options.models)?;
    let backend = options.backend.as_deref().unwrap_or("cpu");
    let (threads, prompts): (&[u32], &[u32]) = match backend {
        "cpu" => (&THREADS, &PROMPTS),
        _ => (&[1], &GPU_PROMPTS),
    };
    let candle = match candle::is_asked(&options.engines, backend) {
        true => Some(candle::folder(&ready.wasm, kind)?),
        false => None,
    };
    let config = json!({
        "chromium": ready.chromium,
        "firefox": setup::firefox(&options.browser)?,
        "backend": backend,
        "pkg": paths::at_root("pkg"),
        "peers": folder(),
        "references": paths::at_root("tests/data/reference"),
        "models": models.iter().map(ModelSource::to_json).collect::<Vec<_>>(),
        "candle": candle,
        "onnx": options.onnx,
        "nativePython": options.native_python,
        "threads": or(&options.threads, threads),
        "prompts": or(&options.prompts, prompts),
        "engines": options.engines,
        "samples": options.samples,
        "build": if kind == Kind::Fast { "fast" } else { "release" },
    });
    let mut script = process::node_script("bench-peers.mjs");
    let measured = process::output_or_words(script.arg(config.to_string()))?;
    let measured: Value = serde_json::from_str(&measured).context("the script gave no JSON")?;
    Report::new(measured)
}

/// What was asked for, or all of it.
fn or<'a>(asked: &'a [u32], all: &'a [u32]) -> &'a [u32] {
    if asked.is_empty() { all } else { asked }
}

fn folder() -> std::path::PathBuf {
    paths::at_root("benches/peers")
}

/// The other packages, which nothing but this suite needs, in the versions of the lock file.
fn install() -> Result<()> {
    let lock = folder().join("node_modules/.package-lock.json");
    let wanted = folder().join("package-lock.json");
    let time = |path| std::fs::metadata(path).and_then(|meta| meta.modified());
    if time(&lock).is_ok_and(|have| time(&wanted).is_ok_and(|want| have >= want)) {
        return Ok(());
    }
    eprintln!("bench: npm ci in benches/peers");
    let mut npm = std::process::Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    process::run(npm.current_dir(folder()))
}
