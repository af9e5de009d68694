//! A server that is not there: what a production path does to a stream of tokens, seeded and
//! replayable to the event.
//!
//! ```text
//! request ─► transit ─► admission (bucket · shed · pools · queue) ─► prefill ─► tokens
//!                            429                                                 │ pace, stalls,
//!                                                                                │ busy steps
//! reader ◄─ outbox ◄─ transit ◄─ hops (proxy … narrow) ◄─ faults ◄─ body ◄─ delivery
//!            limits                                                  └─► replay store
//! ```
//!
//! Nothing here waits or looks at a clock: [`MockServer`] is a state machine over times that it
//! is given, so a test runs an hour in a millisecond, and the same scenario, seed and requests
//! give the same trace. A page, a worker or Node drives it with real timers.

mod admission;
mod error;
mod feed;
pub mod formulas;
mod hop;
mod load_run;
mod prefix;
mod random;
mod read_json;
pub mod scenario;
mod server;
mod source;
mod trace;
mod wire;

pub use error::MockError;
pub use load_run::{LoadRun, Outcome, Stretch};
pub use scenario::Scenario;
pub use server::{Head, Kept, MockServer, Request, Taken};
pub use trace::{Stats, TraceEvent, Waits, What};
