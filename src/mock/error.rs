//! What a mock server cannot be asked.

/// A refusal of the mock itself; what it *answers* are never errors of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MockError {
    /// A scenario that cannot be played.
    #[error("the scenario is refused at {place:?}: {why}")]
    Scenario {
        /// Path of fields, such as `hops[1]`; empty for the whole.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A kept reply that cannot be continued.
    #[error("the kept reply cannot be restored: {why}")]
    Restore {
        /// What is wrong with it.
        why: String,
    },
}
