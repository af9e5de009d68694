//! The compiler for wasm32, shared by the build and by clippy.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Every dependency rebuilds when these change.
const FEATURES: &str = "-C target-feature=+simd128";

/// What a standard library for threads is built with, and all that is linked to it.
pub(crate) const THREADS_FEATURES: &str =
    "-C target-feature=+simd128,+relaxed-simd,+atomics,+bulk-memory,+mutable-globals";

/// A memory that workers share, and what gives each its own stack and thread-local storage.
const THREADS_LINK: [&str; 8] = [
    "--shared-memory",
    "--import-memory",
    "--max-memory=4294967296",
    "--export=__wasm_init_tls",
    "--export=__tls_size",
    "--export=__tls_align",
    "--export=__tls_base",
    "--export=__heap_base",
];

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
        self.with_environment(self.plain_cargo())
    }

    /// `cargo` for modules with threads, whose standard library is in this sysroot.
    pub(crate) fn threads_cargo(&self, sysroot: &Path) -> Command {
        let mut command = self.plain_cargo();
        let link = THREADS_LINK.map(|argument| format!(" -C link-arg={argument}"));
        let flags = format!("{THREADS_FEATURES}{}", link.concat());
        command.env(
            "RUSTFLAGS",
            format!("--sysroot {} {flags}", sysroot.display()),
        );
        // wasm-bindgen keeps what is a thread's own in a way that is not stable.
        command.env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_DIR", threads_target_dir());
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }

    /// This compiler's `cargo`, in the checkout.
    pub(crate) fn plain_cargo(&self) -> Command {
        let mut command = match self {
            Self::Rustup => Command::new("cargo"),
            Self::Debian { bin, .. } => {
                let mut command = Command::new(bin.join("cargo"));
                self.choose_compiler(&mut command);
                command
            }
        };
        command.current_dir(paths::root());
        command
    }

    /// This compiler itself.
    pub(crate) fn rustc(&self) -> Command {
        match self {
            Self::Rustup => Command::new("rustc"),
            Self::Debian { bin, .. } => {
                let mut command = Command::new(bin.join("rustc"));
                clear_rustup(&mut command);
                command
            }
        }
    }

    /// `cargo clippy` with the environment of a wasm32 build, up to its own arguments.
    pub(crate) fn clippy(&self) -> Command {
        let mut command = match self {
            Self::Rustup => Command::new("cargo"),
            // Called by its path: cargo itself would look for rustup's clippy first.
            Self::Debian { bin, .. } => Command::new(bin.join("cargo-clippy")),
        };
        command.arg("clippy").current_dir(paths::root());
        self.choose_compiler(&mut command);
        self.with_environment(command)
    }

    fn choose_compiler(&self, command: &mut Command) {
        if let Self::Debian { bin, .. } = self {
            clear_rustup(command);
            command.env("CARGO", bin.join("cargo"));
            command.env("RUSTC", bin.join("rustc"));
        }
    }

    fn with_environment(&self, mut command: Command) -> Command {
        let flags = match self {
            Self::Rustup => FEATURES.to_owned(),
            Self::Debian { sysroot, .. } => {
                format!("--sysroot {} {FEATURES}", sysroot.display())
            }
        };
        command.env("RUSTFLAGS", flags);
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

    /// The module with threads that a build with this profile leaves.
    pub(crate) fn threads_artifact(profile: &str) -> PathBuf {
        threads_target_dir()
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

/// Every dependency differs from those of the other modules.
fn threads_target_dir() -> PathBuf {
    paths::at_root("target/wasm-threads")
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
