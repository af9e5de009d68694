//! What several test files share.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod model;

use std::path::PathBuf;

/// The default model's file: `TOKENBROOK_MODEL`, or where `cargo xtask setup` puts it.
pub fn default_model() -> PathBuf {
    let path = std::env::var_os("TOKENBROOK_MODEL").map_or_else(
        || {
            let home = std::env::var_os("HOME").expect("HOME is set");
            PathBuf::from(home).join(".cache/tokenbrook/models/SmolLM2-135M-Instruct.Q4_1.gguf")
        },
        PathBuf::from,
    );
    assert!(path.is_file(), "{} is missing: run `cargo xtask setup`", path.display());
    path
}
