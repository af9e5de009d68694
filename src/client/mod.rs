//! How a client of providers that it neither wrote nor can restart decides: when to ask again,
//! whom, and what to tell whom it works for.
//!
//! ```text
//! Call ─► rung 1 ─► (wait, again) ─► rung 2 ─► … ─► cached reply ─► failure
//!           │  ▲
//!           ▼  │ open or closed
//!         Breaker ◄─ outcomes ─► Meters ─► alerts
//! ```
//!
//! Pure state machines: times, random numbers and outcomes come in from outside.

mod backoff;
mod breaker;
mod ladder;
mod meters;
mod reply;

pub use backoff::{Backoff, retry_after_ms};
pub use breaker::{Breaker, BreakerLimits};
pub use ladder::{Action, Call, Failure, Ladder, Rung};
pub use meters::{Alert, Limits, Meters, Sample, Summary};
pub use reply::{Heard, Reply, Usage};
