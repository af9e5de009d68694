//! Rust's standard library for wasm32: rustup's where rustup reaches its server, else
//! built once from Debian's sources into a private sysroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::apt;
use crate::paths::{self, Scratch};
use crate::process;
use crate::wasm::{TARGET, THREADS_FEATURES, Wasm, has_core};

const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"];
const DEBIAN_BIN: &str = "/usr/bin";
/// The component is about 25 MB.
const RUSTUP_TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) fn ready() -> Result<Wasm> {
    if rustup_has_target() {
        return Ok(Wasm::Rustup);
    }
    if apt::installed(&PACKAGES) {
        return debian();
    }
    if paths::find_program("rustup").is_some() {
        eprintln!("setup: rustup target add {TARGET}");
        if rustup_adds(&["target", "add", TARGET]) && rustup_has_target() {
            return Ok(Wasm::Rustup);
        }
        eprintln!("setup: rustup could not install it; trying Debian's compiler");
    }
    apt::install(
        &PACKAGES,
        "the wasm32 standard library (`rustup target add` failed)",
    )?;
    debian()
}

/// A compiler, and its sysroot with a standard library for threads. No toolchain brings one: it
/// is built from the sources that rustup, or Debian, has.
pub(crate) fn with_threads(wasm: &Wasm) -> Result<(Wasm, PathBuf)> {
    let mut compiler = wasm.clone();
    if matches!(compiler, Wasm::Rustup) && !rustup_has_sources() {
        eprintln!("setup: rustup component add rust-src");
        if !(rustup_adds(&["component", "add", "rust-src"]) && rustup_has_sources()) {
            eprintln!("setup: rustup could not install it; trying Debian's compiler");
            apt::install(&PACKAGES, "the sources of the standard library")?;
            compiler = debian()?;
        }
    }
    let sysroot = built(&compiler, THREADS_FEATURES, "threads")?;
    Ok((compiler, sysroot))
}

fn rustup_has_sources() -> bool {
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]));
    sysroot.is_ok_and(|sysroot| {
        let sources = Path::new(&sysroot).join("lib/rustlib/src/rust/library");
        sources.join("Cargo.lock").exists()
    })
}

fn rustup_has_target() -> bool {
    process::output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))
        .is_ok_and(|dir| has_core(Path::new(&dir)))
}

/// Whether rustup succeeds in the time that it is given.
fn rustup_adds(what: &[&str]) -> bool {
    let mut command = Command::new("rustup");
    command
        .args(what)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
        .spawn()
        .is_ok_and(|child| succeeds_within(child, RUSTUP_TIMEOUT))
}

fn succeeds_within(mut child: Child, limit: Duration) -> bool {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if start.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(None) | Err(_) => {
                // Already gone is as good as stopped.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Debian's compiler with our sysroot.
fn debian() -> Result<Wasm> {
    let bin = PathBuf::from(DEBIAN_BIN);
    let sysroot = PathBuf::new();
    let compiler = Wasm::Debian {
        bin: bin.clone(),
        sysroot,
    };
    let sysroot = built(&compiler, "-C target-feature=+simd128", "simd128")?;
    Ok(Wasm::Debian { bin, sysroot })
}

/// The sysroot of this compiler with these features, which is built when there is none yet.
fn built(compiler: &Wasm, features: &str, name: &str) -> Result<PathBuf> {
    let version = process::output(compiler.rustc().arg("--version"))?;
    let sysroot = paths::cache()?.join("sysroot").join(key(&version, name));
    if !has_core(&library_folder(&sysroot)) {
        eprintln!("setup: building the wasm32 standard library of {version} (a minute or two)");
        build(compiler, features, &sysroot)?;
    }
    link_linker(&sysroot)?;
    Ok(sysroot)
}

/// A folder name for a compiler's version line and what its library is for.
fn key(version: &str, library: &str) -> String {
    let mut name = String::new();
    for part in version.split(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        if !part.is_empty() {
            name.push_str(part);
            name.push('-');
        }
    }
    name + library
}

fn library_folder(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

/// Builds std with an empty crate and gathers the libraries that cargo left.
fn build(compiler: &Wasm, features: &str, sysroot: &Path) -> Result<()> {
    let scratch = Scratch::beside(sysroot)?;
    let krate = scratch.path().join("empty");
    fs::create_dir_all(krate.join("src"))?;
    let manifest = "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    fs::write(krate.join("Cargo.toml"), format!("{manifest}[workspace]\n"))?;
    fs::write(krate.join("src/lib.rs"), "")?;

    let mut command = compiler.plain_cargo();
    command
        .current_dir(&krate)
        .env("CARGO_TARGET_DIR", krate.join("target"))
        // Building std is not stable; the flag opens it on a release compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        // Without bitcode, fat LTO fails later.
        .env("RUSTFLAGS", format!("{features} -C embed-bitcode=yes"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .arg("-Zbuild-std=std,panic_abort");
    process::run(&mut command)?;

    let made = scratch.path().join("sysroot");
    gather(
        &krate.join("target").join(TARGET).join("release/deps"),
        &library_folder(&made),
    )?;
    match fs::rename(&made, sysroot) {
        Ok(()) => Ok(()),
        // Another clone was quicker with the same compiler.
        Err(_) if has_core(&library_folder(sysroot)) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot make `{}`", sysroot.display())),
    }
}

fn gather(deps: &Path, library: &Path) -> Result<()> {
    fs::create_dir_all(library)?;
    for entry in fs::read_dir(deps)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libempty-") {
            fs::copy(entry.path(), library.join(&name))?;
        }
    }
    if !has_core(library) {
        bail!(
            "the build of the standard library left no libcore in `{}`",
            deps.display()
        );
    }
    Ok(())
}

/// Debian's compiler brings no linker for wasm; rustup's serves, through a link that is
/// renewed when a toolchain moved.
fn link_linker(sysroot: &Path) -> Result<()> {
    let host = env!("XTASK_HOST");
    let folder = sysroot.join("lib/rustlib").join(host);
    let bin = folder.join("bin");
    if bin.join("rust-lld").exists() {
        return Ok(());
    }
    let rustup = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let theirs = Path::new(&rustup)
        .join("lib/rustlib")
        .join(host)
        .join("bin");
    if !theirs.join("rust-lld").exists() {
        bail!(
            "there is no rust-lld in `{}`: install Rust with rustup",
            theirs.display()
        );
    }
    fs::create_dir_all(&folder)?;
    let fresh = folder.join(format!("bin-{}", std::process::id()));
    symlink(&theirs, &fresh)?;
    fs::rename(&fresh, &bin).with_context(|| format!("cannot link `{}`", bin.display()))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> Result<()> {
    std::os::unix::fs::symlink(target, link)
        .with_context(|| format!("cannot link `{}`", link.display()))
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _link: &Path) -> Result<()> {
    bail!("install the wasm32 target with `rustup target add {TARGET}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_one_plain_folder_name_for_a_version_line() {
        let line = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)";
        let want = "rustc-1.96.0-ac68faa20-2026-05-25-built-from-a-source-tarball-simd128";
        assert_eq!(key(line, "simd128"), want);
        assert!(!key("rustc ../../x", "threads").contains('/'));
    }

    #[test]
    fn succeeds_within_gives_up_on_a_program_that_hangs() {
        let child = Command::new("sleep").arg("30").spawn().unwrap();
        let start = Instant::now();
        assert!(!succeeds_within(child, Duration::from_millis(200)));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
