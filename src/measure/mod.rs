//! The stopwatch of a generation: one clock, named moments, one set of definitions.

mod clock;
mod stats;

pub use clock::{Clock, ManualClock};
pub use stats::{FinishReason, Recorder, Stats};
