//! `build`: the wasm module, the npm package in `pkg/` and the pages in `dist/`.

pub(crate) mod package;
mod pages;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::wasm::Wasm;
use crate::{args, paths, process, setup};

/// How much work a build spends on speed and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// No link-time optimization, no wasm-opt: what tests and the command line run.
    Fast,
    /// What is published.
    Release,
}

impl Kind {
    /// The cargo profile, which is also the name of its output folder.
    fn profile(self) -> &'static str {
        match self {
            Self::Fast => "release",
            Self::Release => "dist",
        }
    }
}

/// `cargo xtask build`.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<()> {
    let mut kind = Kind::Release;
    while let Some(arg) = parser.next()? {
        match args::long(&arg)?.as_str() {
            "fast" => kind = Kind::Fast,
            name => return Err(args::unknown("build", name)),
        }
    }
    let wasm = setup::for_build()?;
    package(&wasm, kind)?;
    pages::build()?;
    print_sizes()
}

/// Makes `pkg/`.
pub(crate) fn package(wasm: &Wasm, kind: Kind) -> Result<()> {
    compile(wasm, kind)?;
    compile_compat(wasm, kind)?;
    package::make(kind)
}

/// Makes `pkg/` and `dist/`, fast.
pub(crate) fn fast(wasm: &Wasm) -> Result<()> {
    package(wasm, Kind::Fast)?;
    pages::build()
}

fn compile(wasm: &Wasm, kind: Kind) -> Result<()> {
    let mut cargo = wasm.cargo();
    cargo.args(["build", "--lib", "--package", "tokenbrook"]);
    cargo.args(["--features", "compat-dependencies"]);
    cargo.args(["--target", crate::wasm::TARGET, "--profile", kind.profile()]);
    process::run(&mut cargo)
}

/// The same library with candle-transformers' models instead of the forward pass. The compiler is
/// told where to put the module, so that both builds stay fresh side by side in one folder, with
/// their dependencies built once.
fn compile_compat(wasm: &Wasm, kind: Kind) -> Result<()> {
    let module = Wasm::compat_artifact(kind.profile());
    let folder = module.parent().context("the module has no folder")?;
    fs::create_dir_all(folder)?;
    let mut cargo = wasm.cargo();
    cargo.args(["rustc", "--lib", "--package", "tokenbrook"]);
    cargo.args(["--features", "compat", "--crate-type", "cdylib"]);
    cargo.args(["--target", crate::wasm::TARGET, "--profile", kind.profile()]);
    cargo
        .arg("--")
        .arg(format!("--emit=link={}", module.display()));
    process::run(&mut cargo)
}

/// Prints raw, gzip and brotli sizes; fails when the engine is larger than it may be.
pub(crate) fn print_sizes() -> Result<()> {
    let mut sizes: Command = process::node_script("sizes.mjs");
    sizes.arg(paths::at_root("target/xtask/sizes.json"));
    sizes.arg(paths::at_root("pkg")).arg(paths::at_root("dist"));
    process::print(&format!("{}\n", process::output_or_words(&mut sizes)?))
}
