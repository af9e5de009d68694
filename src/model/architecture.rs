//! What distinguishes one architecture from another, as data.

use crate::backend::RopeKind;
use crate::backend::ops::Activation;

/// Traits of an architecture that its metadata does not spell out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// `general.architecture`, also the prefix of its metadata keys.
    pub name: &'static str,
    /// Which elements of a head form a rotary pair in its GGUF files.
    pub rope_kind: RopeKind,
    /// Activation of the feed-forward gate.
    pub activation: Activation,
}

/// Every architecture that [`forward`](super::forward) runs.
const ARCHITECTURES: &[Architecture] = &[Architecture {
    name: "llama",
    rope_kind: RopeKind::Interleaved,
    activation: Activation::Silu,
}];

impl Architecture {
    /// Looks an architecture up by its GGUF name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        ARCHITECTURES.iter().find(|a| a.name == name).copied()
    }

    /// Names of all architectures, comma-separated.
    #[must_use]
    pub fn supported() -> String {
        let names: Vec<_> = ARCHITECTURES.iter().map(|a| a.name).collect();
        names.join(", ")
    }
}
