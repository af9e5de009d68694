//! `setup`: everything that building needs. Each step is skipped when its result is
//! there, and puts the result in place in one rename, so that an interrupted run
//! leaves nothing half-done.

mod apt;
mod chromium;
mod firefox;
mod model;
mod nginx;
mod npm;
mod standard_library;
mod vulkan;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::wasm::Wasm;

/// A step that found its result in place says nothing: every command calls these steps.
const WORTH_A_LINE: Duration = Duration::from_millis(300);

/// What a complete setup gives to the other commands.
pub(crate) struct Ready {
    pub(crate) wasm: Wasm,
    pub(crate) chromium: PathBuf,
    pub(crate) model: PathBuf,
}

/// `cargo xtask setup`.
pub(crate) fn command(parser: lexopt::Parser) -> Result<()> {
    crate::args::nothing_left(parser)?;
    let start = Instant::now();
    all()?;
    eprintln!(
        "setup: everything is ready ({:.1} s)",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs every step.
pub(crate) fn all() -> Result<Ready> {
    let wasm = for_build()?;
    let chromium = step("Chromium", chromium::ready)?;
    let model = default_model()?;
    gemma()?;
    Ok(Ready {
        wasm,
        chromium,
        model,
    })
}

/// The default model's file.
pub(crate) fn default_model() -> Result<PathBuf> {
    step("default model", || model::ready(&model::DEFAULT))
}

/// Gemma 3's file.
pub(crate) fn gemma() -> Result<PathBuf> {
    step("second model", || model::ready(&model::GEMMA))
}

/// The program of Firefox, where that browser is asked for.
pub(crate) fn firefox(browser: &str) -> Result<Option<PathBuf>> {
    if browser != "firefox" {
        return Ok(None);
    }
    step("Vulkan driver", vulkan::ready)?;
    step("Firefox", firefox::ready).map(Some)
}

/// Runs every step, and those that only tests need.
pub(crate) fn for_tests() -> Result<Ready> {
    let ready = all()?;
    step("Vulkan driver", vulkan::ready)?;
    step("Firefox", firefox::ready)?;
    step("nginx", nginx::ready)?;
    Ok(ready)
}

/// A compiler, and its sysroot with a standard library for threads in wasm32.
pub(crate) fn threads(wasm: &Wasm) -> Result<(Wasm, PathBuf)> {
    step("wasm32 standard library with threads", || {
        standard_library::with_threads(wasm)
    })
}

/// Runs the steps that `build` needs: no browser, no model.
pub(crate) fn for_build() -> Result<Wasm> {
    let wasm = step("wasm32 standard library", standard_library::ready)?;
    threads(&wasm)?;
    step("npm packages", npm::ready)?;
    Ok(wasm)
}

fn step<T>(name: &str, ready: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let value = ready().with_context(|| format!("setup, {name}"))?;
    let took = start.elapsed();
    if took > WORTH_A_LINE {
        eprintln!("setup: {name}: ready ({:.1} s)", took.as_secs_f64());
    }
    Ok(value)
}
