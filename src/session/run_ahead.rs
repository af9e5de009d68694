//! Steps that are submitted before the tokens of earlier ones are read.
//!
//! On a GPU, reading takes a while that says nothing of the work: the next step takes its
//! token from where the last one left it, on the device, and the host reads later. Steps past
//! an end that the host finds out are thrown away.

use std::collections::VecDeque;

use crate::backend::TokenSlot;

/// The most that may be lost to a stop: as long as a prefill chunk may take.
const MOST_MS: f64 = 100.0;

/// The most steps in flight: a backend keeps this many tokens that nobody has read.
const MOST_STEPS: f64 = 8.0;

/// Share of a new measurement in the average.
const NEW: f64 = 0.2;

/// Tokens of one generation that were sampled and not read.
#[derive(Debug, Default)]
pub(super) struct RunAhead {
    /// Whose they are.
    generation: u64,
    slots: VecDeque<TokenSlot>,
    /// Average time from token to token while steps were in flight.
    step_ms: Option<f64>,
    /// The last token read: whose, and when.
    last_read: Option<(u64, f64)>,
}

impl RunAhead {
    /// Whether tokens of this generation are on their way.
    pub(super) fn serves(&self, generation: u64) -> bool {
        self.generation == generation && !self.slots.is_empty()
    }

    /// Notes a submitted step.
    pub(super) fn push(&mut self, generation: u64, slot: TokenSlot) {
        self.generation = generation;
        self.slots.push_back(slot);
    }

    /// The oldest token, which is to be read next.
    pub(super) fn pop(&mut self) -> Option<TokenSlot> {
        self.slots.pop_front()
    }

    /// The tokens on their way, oldest first.
    pub(super) fn slots(&mut self) -> &[TokenSlot] {
        self.slots.make_contiguous()
    }

    /// Forgets tokens that nobody will read.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }

    /// Steps that should be in flight where a read takes `read_ms` longer than the work.
    pub(super) fn depth(&self, read_ms: f64) -> usize {
        let Some(step_ms) = self.step_ms.filter(|&ms| ms > 0.0) else {
            return 1;
        };
        let hiding = (read_ms / step_ms).ceil();
        let bounded = (MOST_MS / step_ms).floor() - 1.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to a small positive number"
        )]
        let ahead = hiding.min(bounded).clamp(0.0, MOST_STEPS - 1.0) as usize;
        1 + ahead
    }

    /// Notes that a token was read.
    pub(super) fn read(&mut self, generation: u64, now_ms: f64) {
        let before = self.last_read.replace((generation, now_ms));
        if let Some((_, before)) = before.filter(|&(other, _)| other == generation) {
            let ms = now_ms - before;
            self.step_ms = Some(match self.step_ms {
                Some(average) => average + NEW * (ms - average),
                None => ms,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(step_ms: f64) -> RunAhead {
        let mut run_ahead = RunAhead::default();
        for step in 0..50 {
            run_ahead.read(1, f64::from(step) * step_ms);
        }
        run_ahead
    }

    #[test]
    fn depth_hides_the_read_within_the_time_that_a_stop_may_cost() {
        assert_eq!(RunAhead::default().depth(10.0), 1);
        // A read of 3 ms behind steps of 1 ms.
        assert_eq!(paced(1.0).depth(3.0), 4);
        assert_eq!(paced(1.0).depth(0.0), 1);
        assert_eq!(paced(10.0).depth(3.0), 2);
        // Two steps of 60 ms would take longer than a stop may.
        assert_eq!(paced(60.0).depth(100.0), 1);
        assert_eq!(paced(200.0).depth(3.0), 1);
        assert_eq!(paced(20.0).depth(100.0), 5);
        assert_eq!(paced(0.1).depth(100.0), 8);
    }
}
