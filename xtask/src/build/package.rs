//! The npm package in `pkg/`: wasm-bindgen's modules, the compiled TypeScript face, the
//! manifest and the texts that belong to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use wasm_bindgen_cli_support::Bindgen;

use super::{Kind, Module};
use crate::stamp::{self, Inputs};
use crate::{paths, process};

const TEXTS: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// What rustc's wasm32 target and simd128 may use; wasm-opt rejects a module otherwise.
const WASM_OPT: [&str; 7] = [
    "--enable-simd",
    "--enable-bulk-memory",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-multivalue",
];

pub(crate) fn make(kind: Kind, modules: &[Module]) -> Result<()> {
    for module in modules {
        bound(*module, kind)?;
    }
    face()
}

fn pkg() -> PathBuf {
    paths::at_root("pkg")
}

/// Turns a compiled module into `NAME.js` and `NAME_bg.wasm`.
fn bound(module: Module, kind: Kind) -> Result<()> {
    let name = module.name();
    let compiled = module.artifact(kind);
    let inputs = Inputs::new()
        .text(module.profile(kind))
        .path(&compiled)?
        .finish();
    let output = pkg().join(format!("{name}_bg.wasm"));
    let ran = stamp::unless_fresh(name, &inputs, &output, || {
        eprintln!("build: wasm-bindgen, {name}");
        bind(&compiled, name, &pkg())?;
        if kind == Kind::Release || module == Module::Streaming {
            optimize(&output, module)
        } else {
            Ok(())
        }
    })?;
    if ran {
        eprintln!("build: pkg/{name}.js, pkg/{name}_bg.wasm");
    }
    Ok(())
}

/// Makes `NAME.js` and `NAME_bg.wasm` in that folder.
pub(crate) fn bind(compiled: &Path, name: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(compiled).out_name(name).typescript(true);
    bindgen
        .web(true)
        .map_err(|error| anyhow!("wasm-bindgen: {error:#}"))?;
    bindgen
        .generate(folder)
        .map_err(|error| anyhow!("wasm-bindgen: {error:#}"))
}

/// wasm-opt, as for that module.
pub(crate) fn optimize(file: &Path, module: Module) -> Result<()> {
    let level = match module {
        Module::Streaming => "-Oz",
        Module::Engine | Module::Relaxed | Module::Threads | Module::Compat => "-O3",
    };
    eprintln!(
        "build: wasm-opt {level}, {} (minutes for an engine)",
        module.name()
    );
    let smaller = file.with_extension("wasm.opt");
    let mut command = Command::new("node");
    command
        .current_dir(paths::root())
        .arg("node_modules/binaryen/bin/wasm-opt");
    command.arg(level).args(WASM_OPT);
    if matches!(module, Module::Relaxed | Module::Threads) {
        command.arg("--enable-relaxed-simd");
    }
    if module == Module::Threads {
        command.arg("--enable-threads");
    }
    command.arg(file).arg("-o").arg(&smaller);
    process::run(&mut command)?;
    fs::rename(&smaller, file).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Compiles `js/` into the package and adds the manifest and the texts.
fn face() -> Result<()> {
    let mut inputs = Inputs::new()
        .text(env!("CARGO_PKG_VERSION"))
        .path(&paths::at_root("js"))?
        .path(&paths::at_root("package-lock.json"))?
        .path(&paths::at_root("xtask/node/bundle-workers.mjs"))?;
    for module in Module::ALL {
        for ending in ["js", "d.ts"] {
            inputs = inputs.path(&pkg().join(format!("{}.{ending}", module.name())))?;
        }
    }
    for text in TEXTS {
        inputs = inputs.path(&paths::at_root(text))?;
    }
    stamp::unless_fresh(
        "face",
        &inputs.finish(),
        &pkg().join("package.json"),
        || {
            eprintln!("build: tsc");
            remove_last_face()?;
            process::run(&mut tsc("js"))?;
            process::run(&mut tsc("js/node"))?;
            bundle_workers()?;
            for text in TEXTS {
                fs::copy(paths::at_root(text), pkg().join(text))
                    .with_context(|| format!("cannot copy `{text}` into the package"))?;
            }
            // Last: the package counts as made when its manifest is there.
            manifest()
        },
    )?;
    Ok(())
}

/// Makes scripts of the workers that sites can serve as they are.
fn bundle_workers() -> Result<()> {
    let mut command = process::node_script("bundle-workers.mjs");
    command.arg(pkg()).arg(env!("CARGO_PKG_VERSION"));
    process::run(&mut command)
}

/// The TypeScript compiler on one project folder.
pub(crate) fn tsc(project: &str) -> Command {
    let mut command = Command::new("node");
    command
        .current_dir(paths::root())
        .args(["node_modules/typescript/bin/tsc", "-p", project]);
    command
}

/// Removes what an earlier build compiled: a source file that is gone leaves nothing.
fn remove_last_face() -> Result<()> {
    for entry in fs::read_dir(pkg())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bound = Module::ALL.iter().any(|module| {
            let rest = name.strip_prefix(module.name());
            rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with("_bg."))
        });
        // Scripts of dependencies lie in a folder of their own.
        if bound || name == "snippets" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes the manifest of `js/` with the version of the crate.
fn manifest() -> Result<()> {
    let source = paths::at_root("js/package.json");
    let text = fs::read_to_string(&source)
        .with_context(|| format!("cannot read `{}`", source.display()))?;
    let mut manifest: serde_json::Value =
        serde_json::from_str(&text).context("js/package.json is not JSON")?;
    let fields = manifest
        .as_object_mut()
        .context("js/package.json is not an object")?;
    fields.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    let text = serde_json::to_string_pretty(&manifest)? + "\n";
    Ok(fs::write(pkg().join("package.json"), text)?)
}
