//! The stopwatch of a generation: one clock, named moments, one set of definitions.

mod clock;
mod stats;
mod timeline;

pub use clock::{Clock, ManualClock};
pub use stats::{FinishReason, Recorder, Stats};
pub use timeline::{BetweenTokens, Figures, FirstToken, Outcome, TimedEvent, Timeline, percentile};
