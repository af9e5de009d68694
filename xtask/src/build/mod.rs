//! `build`: the wasm modules, the npm package in `pkg/` and the pages in `dist/`.

pub(crate) mod package;
mod pages;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use lexopt::ValueExt;

use crate::stamp::{self, Inputs};
use crate::wasm::Wasm;
use crate::{args, paths, process, setup};

/// How much work a build spends on speed and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// No link-time optimization, no wasm-opt: what tests and the command line run. But for the
    /// streaming module, which is always made as published: it takes seconds, and its size counts.
    Fast,
    /// What is published.
    Release,
}

/// One of the wasm modules that are built from the one crate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Module {
    /// The models.
    Engine,
    /// The same, for browsers that have relaxed SIMD.
    Relaxed,
    /// The same for the processor alone, on several threads.
    Threads,
    /// The models of candle-transformers, in place of the forward pass.
    Compat,
    /// Server-sent events, the mock server, the stopwatch and the client.
    Streaming,
}

impl Module {
    pub(crate) const ALL: [Self; 5] = [
        Self::Engine,
        Self::Relaxed,
        Self::Threads,
        Self::Compat,
        Self::Streaming,
    ];

    /// What wasm-bindgen names its output after: `NAME.js` and `NAME_bg.wasm`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Relaxed => "engine-relaxed",
            Self::Threads => "engine-threads",
            Self::Compat => "compat",
            Self::Streaming => "streaming",
        }
    }

    fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|module| module.name() == name);
        found.with_context(|| format!("there is no module `{name}`"))
    }

    /// The cargo profile, which is also the name of its output folder.
    pub(crate) fn profile(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Streaming, _) => "streaming",
            (_, Kind::Fast) => "release",
            (_, Kind::Release) => "dist",
        }
    }

    /// What clippy needs to see this one; the dependencies are those of the others.
    pub(crate) fn clippy_features(self) -> &'static [&'static str] {
        match self {
            Self::Threads => &["--features", "compat-dependencies,threads"],
            _ => self.features(),
        }
    }

    /// What cargo needs to build this one.
    pub(crate) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Engine => &["--features", "compat-dependencies"],
            Self::Relaxed => &["--features", "compat-dependencies,relaxed-simd"],
            Self::Threads => &["--no-default-features", "--features", "threads"],
            Self::Compat => &["--features", "compat"],
            Self::Streaming => &crate::wasm::STREAMING,
        }
    }

    /// What a build leaves.
    pub(crate) fn artifact(self, kind: Kind) -> PathBuf {
        match self {
            Self::Relaxed | Self::Compat => Wasm::own_artifact(self.name(), self.profile(kind)),
            Self::Threads => Wasm::threads_artifact(self.profile(kind)),
            Self::Engine | Self::Streaming => Wasm::artifact(self.profile(kind)),
        }
    }
}

/// `cargo xtask build`.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<()> {
    let mut kind = Kind::Release;
    let mut modules = Module::ALL.to_vec();
    while let Some(arg) = parser.next()? {
        match args::long(&arg)?.as_str() {
            "fast" => kind = Kind::Fast,
            "only" => modules = vec![Module::named(&parser.value()?.string()?)?],
            name => return Err(args::unknown("build", name)),
        }
    }
    let wasm = setup::for_build()?;
    package(&wasm, kind, &modules)?;
    if modules.len() < Module::ALL.len() {
        return Ok(());
    }
    pages::build()?;
    print_sizes(kind)
}

/// Makes `pkg/`, with these modules made anew and the others as they are.
pub(crate) fn package(wasm: &Wasm, kind: Kind, modules: &[Module]) -> Result<()> {
    for module in modules {
        compile(wasm, kind, *module)?;
    }
    package::make(kind, modules)
}

/// Makes `pkg/` and `dist/`, fast.
pub(crate) fn fast(wasm: &Wasm) -> Result<()> {
    package(wasm, Kind::Fast, &Module::ALL)?;
    pages::build()
}

/// Compiles a module unless nothing that it is made of has changed. Cargo by itself cannot tell:
/// modules of one profile share the place where it remembers what it built last.
fn compile(wasm: &Wasm, kind: Kind, module: Module) -> Result<()> {
    let step = format!("wasm-{}-{}", module.name(), module.profile(kind));
    let mut inputs = Inputs::new().text(&format!("{wasm:?} {module:?} {:?}", module.features()));
    inputs = inputs.text(&process::output(Command::new("rustc").arg("-vV"))?);
    for path in ["Cargo.toml", "Cargo.lock", "src"] {
        inputs = inputs.path(&paths::at_root(path))?;
    }
    stamp::unless_fresh(&step, &inputs.finish(), &module.artifact(kind), || {
        compile_anew(wasm, kind, module)
    })?;
    Ok(())
}

fn compile_anew(wasm: &Wasm, kind: Kind, module: Module) -> Result<()> {
    let mut cargo = match module {
        Module::Threads => {
            let (compiler, sysroot) = setup::threads(wasm)?;
            compiler.threads_cargo(&sysroot)
        }
        _ => wasm.cargo(),
    };
    let own_place = matches!(module, Module::Relaxed | Module::Compat);
    let command = if own_place { "rustc" } else { "build" };
    cargo.args([command, "--lib", "--package", "tokenbrook"]);
    cargo.args(module.features());
    cargo.args(["--target", crate::wasm::TARGET]);
    cargo.args(["--profile", module.profile(kind)]);
    if own_place {
        let artifact = module.artifact(kind);
        let folder = artifact.parent().context("the module has no folder")?;
        fs::create_dir_all(folder)?;
        // The compiler is told where to put it, so that no build overwrites the module of another
        // in their one folder, where dependencies are built once.
        cargo.args(["--crate-type", "cdylib", "--"]);
        cargo.arg(format!("--emit=link={}", artifact.display()));
    }
    process::run(&mut cargo)
}

/// Prints raw, gzip and brotli sizes; fails when a module is larger than it may be.
pub(crate) fn print_sizes(kind: Kind) -> Result<()> {
    let mut sizes: Command = process::node_script("sizes.mjs");
    if kind == Kind::Fast {
        sizes.arg("--quick");
    }
    let cache = match kind {
        Kind::Fast => "target/xtask/sizes-fast.json",
        Kind::Release => "target/xtask/sizes.json",
    };
    sizes.arg(paths::at_root(cache));
    sizes.arg(paths::at_root("pkg")).arg(paths::at_root("dist"));
    process::print(&format!("{}\n", process::output_or_words(&mut sizes)?))
}
