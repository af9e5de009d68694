//! What several test binaries share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

#[cfg(feature = "compat")]
pub(crate) mod compat;
pub(crate) mod fixtures;
pub(crate) mod gguf_builder;
pub(crate) mod gguf_files;
pub(crate) mod model;
pub(crate) mod quantize;
pub(crate) mod tiny_llama;

use std::path::PathBuf;

/// The default model's file: `TOKENBROOK_MODEL`, else where `cargo xtask setup` puts it.
///
/// Panics where it is missing, so that a test without it fails rather than passes.
pub(crate) fn default_model() -> PathBuf {
    model("TOKENBROOK_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Gemma 3 270M: `TOKENBROOK_GEMMA`, else where `cargo xtask setup` puts it; panics likewise.
pub(crate) fn gemma_model() -> PathBuf {
    model("TOKENBROOK_GEMMA", "gemma-3-270m.Q4_K_M.gguf")
}

fn model(variable: &str, name: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(
        || {
            let home =
                std::env::var_os("HOME").unwrap_or_else(|| panic!("HOME is set, or {variable} is"));
            let models = PathBuf::from(home).join(".cache/tokenbrook/models");
            models.join(name)
        },
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "a model is not at {}: run `cargo xtask setup`, or set {variable}",
        path.display()
    );
    path
}

/// Seeded random numbers: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// A number from -1 to 1.
    pub(crate) fn float(&mut self) -> f32 {
        let bits = u16::try_from(self.next() >> 48).expect("16 bits");
        f32::from(bits) / 32_768.0 - 1.0
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[7]).collect()
    }
}
