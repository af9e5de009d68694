//! Time comes in from outside, so that tests can hold it still.

use std::cell::Cell;

/// A monotonic clock.
pub trait Clock {
    /// Milliseconds since an origin of the clock's own.
    fn now_ms(&self) -> f64;
}

/// A clock that moves only when told.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: Cell<f64>,
}

impl ManualClock {
    /// Moves time forward.
    pub fn advance_ms(&self, ms: f64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> f64 {
        self.now_ms.get()
    }
}
