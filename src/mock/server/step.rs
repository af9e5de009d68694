//! One server's memory: steps that all running replies share, and caches that grow.

use super::job::Phase;
use super::{Action, MockServer};
use crate::mock::scenario::Pace;
use crate::mock::trace::What;

/// The step that runs now and who takes part.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyStep {
    number: u64,
    running: bool,
    /// Those that get a token when it ends.
    members: Vec<u64>,
    /// Those that came while it ran.
    joining: Vec<u64>,
}

impl BusyStep {
    pub(super) fn is_running(&self, number: u64) -> bool {
        self.running && self.number == number
    }
}

impl MockServer {
    /// `key` gets a token at the end of the next step.
    pub(super) fn join_step(&mut self, key: u64) {
        self.step.joining.push(key);
        if !self.step.running {
            self.start_step();
        }
    }

    pub(super) fn leave_step(&mut self, key: u64) {
        self.step.members.retain(|member| *member != key);
        self.step.joining.retain(|member| *member != key);
    }

    fn start_step(&mut self) {
        let members = std::mem::take(&mut self.step.joining);
        let jobs = &self.jobs;
        let is_decoding = |key: &u64| {
            jobs.get(key)
                .is_some_and(|job| job.phase == Phase::Decoding)
        };
        self.step.members = members.into_iter().filter(is_decoding).collect();
        self.step.running = !self.step.members.is_empty();
        if self.step.running {
            self.step.number += 1;
            let number = self.step.number;
            self.plan(self.now_ms + self.step_ms(), Action::Step(number));
        }
    }

    /// `max(floor, (weights + Σ caches) ÷ bandwidth)`.
    fn step_ms(&self) -> f64 {
        let Pace::Busy {
            weights_bytes,
            bytes_per_second,
            floor_ms,
        } = &self.scenario.pace
        else {
            return 0.0;
        };
        let capacity = self.scenario.capacity.as_ref();
        let per_token = capacity.map_or(0, |capacity| capacity.kv_bytes_per_token.get());
        let members = self.step.members.iter();
        let positions = members.filter_map(|key| Some(self.jobs.get(key)?.positions()));
        let tokens = positions.fold(0, u64::saturating_add);
        #[expect(clippy::cast_precision_loss, reason = "bytes are below 2^53")]
        let caches = tokens.saturating_mul(per_token) as f64;
        let read_ms = (weights_bytes.float() + caches) / bytes_per_second.get() * 1000.0;
        read_ms.max(floor_ms.get())
    }

    /// A step ends: everyone in it gets a token, then the next one starts.
    pub(super) fn step_done(&mut self) {
        let members = std::mem::take(&mut self.step.members);
        for key in members {
            let job = self.jobs.get(&key);
            if job.is_some_and(|job| job.phase == Phase::Decoding) {
                self.token_due(key);
            }
        }
        self.step.running = false;
        self.start_step();
    }

    /// Makes room for one more position. Where memory has run out, the newest reply gives up
    /// its cache; false where that is `key` itself.
    pub(super) fn grow_cache(&mut self, key: u64) -> bool {
        let Some(capacity) = self.scenario.capacity.as_ref() else {
            return true;
        };
        if !capacity.overcommit {
            return true;
        }
        let bytes = capacity.kv_bytes_per_token.get();
        let job = self.jobs.get(&key);
        if job.is_none_or(|job| job.reserved > job.positions()) {
            return true;
        }
        let mut has_room = true;
        while !self.admission.grow(key, bytes) {
            let holds_seat = |phase: Phase| !matches!(phase, Phase::Queued | Phase::Ended);
            let jobs = self.jobs.iter();
            let newest = jobs
                .filter(|(_, job)| holds_seat(job.phase))
                .max_by(|(a, x), (b, y)| x.arrived_ms.total_cmp(&y.arrived_ms).then(a.cmp(b)))
                .map(|(key, _)| *key);
            let Some(newest) = newest else { break };
            // Alone it has all the memory there is, and runs beyond it rather than for ever in
            // vain.
            if newest == key && self.admission.usage().0 <= 1 {
                break;
            }
            self.preempt(newest);
            if newest == key {
                has_room = false;
                break;
            }
        }
        if let Some(job) = self.jobs.get_mut(&key).filter(|_| has_room) {
            job.reserved = job.positions().saturating_add(1);
        }
        // Only now: who was stopped must not take back what it gave.
        self.seat_waiting();
        has_room
    }

    fn preempt(&mut self, key: u64) {
        self.leave_step(key);
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.phase = Phase::Queued;
        job.turn += 1;
        self.trace.add(self.now_ms, key, What::Preempted);
        if let Some(ask) = self.admission.evict(key)
            && let Some(job) = self.jobs.get(&key)
        {
            let grown = self.ask(job);
            self.admission.wait_first(crate::mock::admission::Ask {
                tokens: ask.tokens,
                ..grown
            });
        }
    }
}
