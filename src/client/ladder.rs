//! Whom to ask next.

use super::backoff::Backoff;
use super::breaker::{Breaker, BreakerLimits};

/// One provider of a ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rung {
    /// How long it has for a first text, all tries and waits together, in milliseconds.
    pub deadline_ms: Option<f64>,
}

/// Why a try gave no text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// An HTTP status other than success.
    Refused {
        /// The status.
        status: u16,
        /// What its `Retry-After` asks for.
        retry_after_ms: Option<f64>,
    },
    /// No response; whether the request arrived is not known.
    Unreachable,
    /// A response that broke before its first text.
    Broken,
    /// The deadline of the rung.
    Late,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Ask this rung after the wait.
    Try {
        /// From 0.
        rung: usize,
        /// How long to wait before, in milliseconds.
        wait_ms: f64,
        /// What is left of the rung's deadline after the wait.
        deadline_ms: Option<f64>,
    },
    /// The refusal is about the request: it is the answer.
    Answer,
    /// No rung is left: a reply of earlier, or a failure.
    Fall,
}

/// The rungs of a client, shared by its calls.
#[derive(Clone, Debug)]
pub struct Ladder {
    rungs: Vec<(Rung, Breaker)>,
    backoff: Backoff,
}

/// One call on its way down.
#[derive(Clone, Debug)]
pub struct Call {
    rung: usize,
    /// Tries on this rung.
    tried: u32,
    rung_began_ms: f64,
    try_began_ms: f64,
    /// Asking twice does nothing that asking once does not.
    repeatable: bool,
}

impl Call {
    /// The rung that is asked.
    #[must_use]
    pub fn rung(&self) -> usize {
        self.rung
    }
}

impl Ladder {
    /// A ladder with all its breakers closed.
    #[must_use]
    pub fn new(rungs: Vec<Rung>, backoff: Backoff, breaker: BreakerLimits) -> Self {
        let rungs = rungs.into_iter();
        Self {
            rungs: rungs.map(|rung| (rung, Breaker::new(breaker))).collect(),
            backoff,
        }
    }

    /// Starts a call at the first rung that takes calls.
    pub fn begin(&mut self, now_ms: f64, repeatable: bool) -> (Call, Action) {
        let mut call = Call {
            rung: 0,
            tried: 0,
            rung_began_ms: now_ms,
            try_began_ms: now_ms,
            repeatable,
        };
        let action = self.enter(&mut call, 0, now_ms);
        (call, action)
    }

    /// A try has failed; `random` is from 0 to 1.
    ///
    /// A request that may have done something is asked again of the same rung only where the
    /// refusal says that nothing was done: 429 and 503.
    pub fn failed(
        &mut self,
        call: &mut Call,
        now_ms: f64,
        failure: Failure,
        random: f64,
    ) -> Action {
        let Some((rung, breaker)) = self.rungs.get_mut(call.rung) else {
            return Action::Fall;
        };
        if is_about_the_request(failure) {
            breaker.forget(now_ms);
            return Action::Answer;
        }
        breaker.record(now_ms, None);
        let retry_after_ms = match failure {
            Failure::Refused { retry_after_ms, .. } => retry_after_ms,
            _ => None,
        };
        let wait = self.backoff.wait_ms(call.tried, retry_after_ms, random);
        if let Some(wait_ms) = wait.filter(|_| may_repeat(failure, call.repeatable)) {
            let used_ms = now_ms - call.rung_began_ms + wait_ms;
            let left_ms = rung.deadline_ms.map(|deadline_ms| deadline_ms - used_ms);
            let in_time = left_ms.is_none_or(|left_ms| left_ms > 0.0);
            if in_time && breaker.admit(now_ms + wait_ms) {
                call.tried += 1;
                call.try_began_ms = now_ms + wait_ms;
                return Action::Try {
                    rung: call.rung,
                    wait_ms,
                    deadline_ms: left_ms,
                };
            }
        }
        self.enter(call, call.rung + 1, now_ms)
    }

    /// The call has its first text; gives how long after its try began, which leaves out
    /// failed tries and waits: those have meters of their own.
    pub fn answered(&mut self, call: &Call, now_ms: f64) -> f64 {
        let first_text_ms = now_ms - call.try_began_ms;
        if let Some((_, breaker)) = self.rungs.get_mut(call.rung) {
            breaker.record(now_ms, Some(first_text_ms));
        }
        first_text_ms
    }

    /// Nobody wants the answer any more.
    pub fn abandoned(&mut self, call: &Call, now_ms: f64) {
        if let Some((_, breaker)) = self.rungs.get_mut(call.rung) {
            breaker.forget(now_ms);
        }
    }

    /// Whether a rung takes no calls.
    #[must_use]
    pub fn is_open(&self, rung: usize, now_ms: f64) -> bool {
        self.rungs
            .get(rung)
            .is_some_and(|(_, breaker)| breaker.is_open(now_ms))
    }

    fn enter(&mut self, call: &mut Call, from: usize, now_ms: f64) -> Action {
        for (at, (rung, breaker)) in self.rungs.iter_mut().enumerate().skip(from) {
            if breaker.admit(now_ms) {
                (call.rung, call.tried) = (at, 1);
                (call.rung_began_ms, call.try_began_ms) = (now_ms, now_ms);
                return Action::Try {
                    rung: at,
                    wait_ms: 0.0,
                    deadline_ms: rung.deadline_ms,
                };
            }
        }
        Action::Fall
    }
}

/// Refusals that no other provider would lift.
fn is_about_the_request(failure: Failure) -> bool {
    let Failure::Refused { status, .. } = failure else {
        return false;
    };
    // Key, address, time and rate are between client and provider.
    (400..500).contains(&status) && ![401, 403, 404, 405, 408, 410, 425, 429].contains(&status)
}

fn may_repeat(failure: Failure, repeatable: bool) -> bool {
    match failure {
        Failure::Refused { status, .. } => match status {
            429 | 503 => true,
            408 | 425 | 500..=599 => repeatable,
            _ => false,
        },
        Failure::Unreachable | Failure::Broken => repeatable,
        Failure::Late => false,
    }
}
