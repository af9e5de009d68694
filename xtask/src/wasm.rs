//! The compiler for wasm32, shared by the build and by clippy.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Every dependency rebuilds when these change.
const FEATURES: &str = "-C target-feature=+simd128";

/// The arguments that leave out the engine: cargo's and clippy's.
pub(crate) const STREAMING: [&str; 3] = ["--no-default-features", "--features", "streaming"];

/// A compiler that has a standard library for wasm32.
#[derive(Clone, Debug)]
pub(crate) enum Wasm {
    /// rustup's, with its own wasm32 target installed.
    Rustup,
    /// Debian's compiler, with a standard library of our making in a private sysroot.
    Debian { bin: PathBuf, sysroot: PathBuf },
}

impl Wasm {
    /// `cargo` with the environment of a wasm32 build.
    pub(crate) fn cargo(&self) -> Command {
        match self {
            Self::Rustup => self.with_environment(Command::new("cargo")),
            Self::Debian { bin, .. } => self.with_environment(Command::new(bin.join("cargo"))),
        }
    }

    /// `cargo clippy` with the environment of a wasm32 build, up to its own arguments.
    pub(crate) fn clippy(&self) -> Command {
        let mut command = match self {
            Self::Rustup => Command::new("cargo"),
            // Called by its path: cargo itself would look for rustup's clippy first.
            Self::Debian { bin, .. } => Command::new(bin.join("cargo-clippy")),
        };
        command.arg("clippy");
        self.with_environment(command)
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command.current_dir(paths::root());
        match self {
            Self::Rustup => {
                command.env("RUSTFLAGS", FEATURES);
            }
            Self::Debian { bin, sysroot } => {
                clear_rustup(&mut command);
                command.env("CARGO", bin.join("cargo"));
                command.env("RUSTC", bin.join("rustc"));
                command.env(
                    "RUSTFLAGS",
                    format!("--sysroot {} {FEATURES}", sysroot.display()),
                );
            }
        }
        // Its own folder: the flags differ from the host's, and so would every dependency.
        command.env("CARGO_TARGET_DIR", target_dir());
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }

    /// The module that a build with this profile leaves.
    pub(crate) fn artifact(profile: &str) -> PathBuf {
        target_dir()
            .join(TARGET)
            .join(profile)
            .join("tokenbrook.wasm")
    }

    /// The module of a build with a place of its own: cargo gives modules of all features one
    /// name.
    pub(crate) fn own_artifact(name: &str, profile: &str) -> PathBuf {
        target_dir()
            .join(name)
            .join(profile)
            .join("tokenbrook.wasm")
    }
}

fn target_dir() -> PathBuf {
    paths::at_root("target/wasm")
}

/// Removes what rustup and an outer cargo set for their own toolchain.
pub(crate) fn clear_rustup(command: &mut Command) {
    for name in [
        "RUSTUP_TOOLCHAIN",
        "RUSTC",
        "RUSTDOC",
        "LD_LIBRARY_PATH",
        "RUSTC_WRAPPER",
    ] {
        command.env_remove(name);
    }
}

/// Whether that library folder of a sysroot holds a standard library.
pub(crate) fn has_core(target_libdir: &Path) -> bool {
    std::fs::read_dir(target_libdir).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
    })
}
