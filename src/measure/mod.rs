//! The stopwatch: of a generation, and of an exchange with whoever generates.
//!
//! ```text
//! generation ─► Recorder ─► Stats
//! bytes, moments ─► Watch ─► Timeline ─┬─► figures ─► summarize
//!                                      └─► diagnose ─► compare
//! ```
//!
//! A time that did not happen is absent, never 0.

mod clock;
mod compare;
mod diagnose;
mod evidence;
mod figures;
mod spread;
mod stats;
mod summary;
mod timeline;
mod watch;

pub use clock::{Clock, ManualClock};
pub use compare::{Comparison, compare};
pub use diagnose::{Diagnosis, Hop, Verdict, diagnose};
pub use evidence::Evidence;
pub use figures::{FIGURES, Figures};
pub use spread::{Spread, percentile};
pub use stats::{FinishReason, Recorder, Stats};
pub use summary::{BURST_GAP_MS, Summary, summarize};
pub use timeline::{
    Completion, Failure, Firsts, Marks, Outcome, Read, Rendered, TimedEvent, Timeline,
};
pub use watch::{Headers, Watch};
