//! A switch that stops asking a provider which fails or is slow, for a while.

use std::collections::VecDeque;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerLimits {
    /// Latest calls that are looked at.
    pub window: usize,
    /// Calls that have to be there before it opens.
    pub least: usize,
    /// The share of failures that opens it, from 0 to 1.
    pub error_share: f64,
    /// The 95th percentile of the time to first text that opens it, in milliseconds.
    pub p95_ms: f64,
    /// How long it stays open before one call tries again, in milliseconds.
    pub rest_ms: f64,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            window: 20,
            least: 5,
            error_share: 0.5,
            p95_ms: f64::INFINITY,
            rest_ms: 30_000.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    /// Until then nobody is let through.
    Open {
        until_ms: f64,
    },
    /// One call is on its way to find out.
    Trying,
}

/// One provider's switch.
#[derive(Clone, Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    state: State,
    /// Time to first text; nothing for a failure.
    calls: VecDeque<Option<f64>>,
}

impl Breaker {
    /// Closed: calls pass.
    #[must_use]
    pub fn new(limits: BreakerLimits) -> Self {
        Self {
            limits,
            state: State::Closed,
            calls: VecDeque::new(),
        }
    }

    /// Whether calls are kept away at this time.
    #[must_use]
    pub fn is_open(&self, now_ms: f64) -> bool {
        match self.state {
            State::Closed => false,
            State::Open { until_ms } => now_ms < until_ms,
            State::Trying => true,
        }
    }

    /// Whether a call may pass now; the first after a rest is the one that tries, and its
    /// [`record`](Self::record) decides.
    pub fn admit(&mut self, now_ms: f64) -> bool {
        if self.is_open(now_ms) {
            return false;
        }
        if self.state != State::Closed {
            self.state = State::Trying;
        }
        true
    }

    /// A call that was let through is over: the time to its first text, or nothing where it
    /// failed.
    pub fn record(&mut self, now_ms: f64, first_text_ms: Option<f64>) {
        if self.state == State::Trying {
            self.calls.clear();
            let is_good = first_text_ms.is_some_and(|ms| ms <= self.limits.p95_ms);
            self.state = if is_good {
                State::Closed
            } else {
                self.resting(now_ms)
            };
            return;
        }
        self.calls.push_back(first_text_ms);
        if self.calls.len() > self.limits.window {
            self.calls.pop_front();
        }
        if self.state == State::Closed && self.is_bad() {
            self.state = self.resting(now_ms);
        }
    }

    /// A call that was let through ended without saying anything of the provider.
    pub fn forget(&mut self, now_ms: f64) {
        if self.state == State::Trying {
            self.state = State::Open { until_ms: now_ms };
        }
    }

    fn resting(&self, now_ms: f64) -> State {
        State::Open {
            until_ms: now_ms + self.limits.rest_ms,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a window holds few calls")]
    fn is_bad(&self) -> bool {
        if self.calls.len() < self.limits.least {
            return false;
        }
        let mut times: Vec<f64> = self.calls.iter().filter_map(|call| *call).collect();
        let failed = self.calls.len() - times.len();
        let share = failed as f64 / self.calls.len() as f64;
        share >= self.limits.error_share
            || super::meters::percentile(&mut times, 0.95)
                .is_some_and(|p95| p95 > self.limits.p95_ms)
    }
}
