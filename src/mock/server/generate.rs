//! A reply from its seat to its end.

use super::job::Phase;
use super::{Action, MockServer};
use crate::mock::feed::Feed;
use crate::mock::hop::Item;
use crate::mock::scenario::{Omission, Pace, RoleChunk};
use crate::mock::source::{Next, Source, Token};
use crate::mock::trace::What;
use crate::openai::Usage;

impl MockServer {
    /// `key` has a seat: its prompt is computed, or computed again.
    pub(super) fn seated(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.phase = Phase::Prefill;
        job.reserved = job.positions().saturating_add(1);
        let turn = job.turn;
        let waited_ms = self.now_ms - job.arrived_ms;
        let tokens = job.positions();
        let found = || self.prefixes.cached(self.now_ms, &job.context);
        let cached = *job.cached_tokens.get_or_insert_with(found);
        self.stats.queue_wait.add(waited_ms);
        let pool = self.admission.pool_of(key).to_owned();
        self.trace
            .add(self.now_ms, key, What::Seated { pool, waited_ms });
        self.trace
            .add(self.now_ms, key, What::Prefill { tokens, cached });
        let prefill = &self.scenario.prefill;
        let cold_ms = prefill.cold_start_ms.get();
        let awake_ms = *self.awake_ms.get_or_insert(self.now_ms + cold_ms);
        #[expect(clippy::cast_precision_loss, reason = "a prompt is below 2^53 tokens")]
        let (length, cached) = (tokens as f64, cached as f64);
        let took_ms = prefill.queue_ms.get()
            + prefill.ms_per_token.get() * (length - cached)
            + prefill.ms_per_squared_token.get() * (length * length - cached * cached);
        let start_ms = self.now_ms.max(awake_ms);
        self.plan(start_ms + took_ms, Action::PrefillDone { job: key, turn });
    }

    /// Seats whoever waits and may have one.
    pub(super) fn seat_waiting(&mut self) {
        while let Some(key) = self.admission.seat_waiting() {
            self.seated(key);
        }
    }

    pub(super) fn prefilled(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.phase = Phase::Decoding;
        self.prefixes.keep(self.now_ms, &job.context);
        self.plan_token(key);
    }

    /// Plans the next token of `key`, or its end.
    pub(super) fn plan_token(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if job.source.is_empty() || job.is_full() {
            self.finish_choice(key);
            return;
        }
        let is_busy = matches!(self.scenario.pace, Pace::Busy { .. });
        match job.source.delay_ms(&self.scenario.pace) {
            Some(delay_ms) => {
                let turn = job.turn;
                self.plan(self.now_ms + delay_ms, Action::Token { job: key, turn });
            }
            None if is_busy => self.join_step(key),
            None => {}
        }
    }

    /// Whether the reader is close enough behind for another token.
    pub(super) fn may_make(&self, key: u64) -> bool {
        let Some(job) = self.jobs.get(&key) else {
            return false;
        };
        let limits = &self.scenario.slow_client;
        if job.kept.is_some() || !job.body.streams() || limits.ignores_backpressure {
            return true;
        }
        let Some(open) = job
            .readers
            .first()
            .and_then(|key| self.connections.get(key))
        else {
            return true;
        };
        let away = open.taken_tokens.saturating_add(open.held_tokens());
        let ahead = job.produced.saturating_sub(away);
        let span = u64::try_from(job.feed.span()).unwrap_or(u64::MAX);
        ahead < limits.high_water_tokens.get().max(span)
    }

    /// The time of a token has come.
    pub(super) fn token_due(&mut self, key: u64) {
        if self.fails_now(key) {
            self.trace
                .add(self.now_ms, key, What::Fault { kind: "within" });
            self.fail(key, "mock_failure", "The scenario says so.");
            return;
        }
        if !self.may_make(key) {
            if let Some(job) = self.jobs.get_mut(&key) {
                job.phase = Phase::Paused;
                self.trace.add(self.now_ms, key, What::Paused);
            }
            return;
        }
        if !self.grow_cache(key) {
            return;
        }
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        match job.source.next() {
            Next::Later => job.phase = Phase::Awaiting,
            Next::End => self.finish_choice(key),
            Next::Token(token) => {
                self.made(key, token);
                self.plan_token(key);
            }
        }
    }

    /// The reader took something: a generator that waited for it goes on.
    pub(super) fn go_on(&mut self, key: u64) {
        let is_paused = self
            .jobs
            .get(&key)
            .is_some_and(|job| job.phase == Phase::Paused);
        if !is_paused || !self.may_make(key) {
            return;
        }
        self.trace.add(self.now_ms, key, What::Resumed);
        let is_busy = matches!(self.scenario.pace, Pace::Busy { .. });
        if let Some(job) = self.jobs.get_mut(&key) {
            job.phase = Phase::Decoding;
            let turn = job.turn;
            if is_busy {
                self.join_step(key);
            } else {
                // The token that was held up is due now; the next ones keep their delays.
                self.plan(self.now_ms, Action::Token { job: key, turn });
            }
        }
    }

    /// A token came in from outside, or the end.
    pub(super) fn fed(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if job.phase == Phase::Awaiting {
            job.phase = Phase::Decoding;
            self.plan_token(key);
        }
    }

    fn fails_now(&self, key: u64) -> bool {
        let fault = self.scenario.faults.fail_at.as_ref();
        let job = self.jobs.get(&key);
        match (fault, job) {
            (Some(fault), Some(job)) => job.faulty && job.produced == fault.token.get(),
            _ => false,
        }
    }

    fn made(&mut self, key: u64, token: Token) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let index = job.produced;
        job.made += 1;
        job.produced += 1;
        self.stats.produced += 1;
        let groups = job.feed.push(self.now_ms, token);
        let deadline_ms = job.feed.deadline_ms();
        self.trace.add(self.now_ms, key, What::Token { index });
        if let Some(at_ms) = deadline_ms {
            self.plan(at_ms, Action::Window(key));
        }
        self.deliver(key, &groups);
    }

    pub(super) fn window_due(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let groups = job.feed.due(self.now_ms);
        self.deliver(key, &groups);
    }

    fn deliver(&mut self, key: u64, groups: &[Vec<Token>]) {
        let role = self.scenario.faults.role_chunk;
        for group in groups {
            let Some(job) = self.jobs.get_mut(&key) else {
                return;
            };
            if !std::mem::replace(&mut job.begun, true) && role != RoleChunk::Never {
                job.body.begin();
            }
            job.body.tokens(group);
            self.flush(key, group.len() as u64);
        }
    }

    fn finish_choice(&mut self, key: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let rest = job.feed.finish(self.now_ms);
        self.deliver(key, &rest);
        let omit = self.scenario.faults.omit;
        let role = self.scenario.faults.role_chunk;
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if !std::mem::replace(&mut job.begun, true) && role != RoleChunk::Never {
            job.body.begin();
        }
        let reason = if !job.source.is_empty() {
            "length"
        } else if job.has_calls {
            "tool-calls"
        } else {
            "stop"
        };
        let count = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let (prompt_tokens, cached_tokens) = if job.is_first_choice {
            (job.prompt_tokens, job.cached_tokens.unwrap_or(0))
        } else {
            (0, 0)
        };
        let usage = Usage {
            prompt_tokens: count(prompt_tokens),
            cached_tokens: count(cached_tokens),
            completion_tokens: count(job.made),
        };
        job.choices_left = job.choices_left.saturating_sub(1);
        let omit = omit.filter(|_| job.faulty);
        job.body.finish(reason, usage, omit);
        if job.choices_left > 0 {
            job.is_first_choice = false;
            job.begun = false;
            job.made = 0;
            job.source = Source::new(&self.scenario, key, &job.prompt, job.swapped);
            job.feed = Feed::new(&self.scenario.delivery);
            self.flush(key, 0);
            self.plan_token(key);
        } else {
            self.end_job(key, reason, omit);
        }
    }

    /// The body is complete.
    fn end_job(&mut self, key: u64, reason: &'static str, omit: Option<Omission>) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.phase = Phase::Ended;
        self.stats.finished += 1;
        self.trace.add(self.now_ms, key, What::Finished { reason });
        if std::mem::take(&mut job.head_waits) {
            for connection in job.readers.clone() {
                self.send(connection, Item::Head);
            }
        }
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if job.body.streams() {
            self.flush_end(key, omit);
        } else {
            let mut bytes = job.body.whole();
            if omit.is_some() {
                // A whole body lacks its last character: it is no JSON any more.
                bytes.pop();
            }
            let tokens = std::mem::take(&mut job.unwritten);
            self.write(key, bytes, tokens);
        }
        self.close(key, Item::End);
    }

    /// The generator fails. A body that has begun ends with an error event, or breaks.
    pub(super) fn fail(&mut self, key: u64, code: &str, message: &str) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if job.phase == Phase::Ended {
            return;
        }
        job.phase = Phase::Ended;
        self.stats.failed += 1;
        self.trace
            .add(self.now_ms, key, What::Finished { reason: "error" });
        if job.head_waits {
            let readers = job.readers.clone();
            for connection in readers {
                self.answer_failure(connection, code, message);
            }
            self.let_go(key);
            return;
        }
        let item = if job.body.fail(code, message) {
            Item::End
        } else {
            Item::Reset
        };
        self.flush_end(key, None);
        self.close(key, item);
    }

    /// Nobody reads it, or the reader is too slow: the seat and the cache are free at once.
    pub(super) fn stop(&mut self, key: u64, why: &'static str) {
        let Some(job) = self.jobs.get(&key) else {
            return;
        };
        let is_ended = job.phase == Phase::Ended;
        if is_ended {
            // A kept reply that is complete waits for its own time.
            return;
        }
        self.stats.cancelled += 1;
        self.trace.add(self.now_ms, key, What::Cancelled { why });
        self.let_go(key);
    }

    /// Forgets a generator and frees what it held.
    fn let_go(&mut self, key: u64) {
        self.release(key);
        self.jobs.remove(&key);
    }

    /// Frees seat and cache.
    pub(super) fn release(&mut self, key: u64) {
        let Some(job) = self.jobs.get(&key) else {
            return;
        };
        #[expect(clippy::cast_precision_loss, reason = "tokens are below 2^53")]
        let used = job.prompt_tokens.saturating_add(job.produced) as f64;
        self.leave_step(key);
        self.admission.leave(self.now_ms, key, used);
        self.seat_waiting();
    }

    /// Ends all connections of a reply, which is forgotten unless it is kept.
    fn close(&mut self, key: u64, item: Item) {
        let Some(job) = self.jobs.get(&key) else {
            return;
        };
        let readers = job.readers.clone();
        let is_kept = job.kept.is_some();
        for connection in readers {
            self.send(connection, item.clone());
        }
        self.release(key);
        match self.scenario.resume {
            Some(resume) if is_kept => {
                self.plan(self.now_ms + resume.ttl_ms.get(), Action::Forget(key));
            }
            _ => {
                self.jobs.remove(&key);
            }
        }
    }

    pub(super) fn forget(&mut self, key: u64) {
        if self.jobs.remove(&key).is_some() {
            self.trace.add(self.now_ms, key, What::Forgotten);
        }
    }
}
