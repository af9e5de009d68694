//! The work on a generation, piece by piece.

use super::error::SessionError;
use super::{Generation, Progress, Session};
use crate::backend::{
    Backend, Outputs, Recording, SampleParams, SequenceStep, Slot, Step, TokenSlot, TokenSource,
};

impl<B: Backend> Session<B> {
    /// Does one bounded piece of a generation's work.
    ///
    /// # Errors
    /// The backend's. Tokens already returned stay valid, and so does the cache.
    pub async fn advance(&mut self, generation: &mut Generation) -> Result<Progress, SessionError> {
        if generation.is_finished() {
            return Ok(Progress::Finished);
        }
        if !self.run_ahead.serves(generation.number()) {
            self.stop_running_ahead();
            if let Some(progress) = self.first_step(generation).await? {
                return Ok(progress);
            }
        }
        let done = match self.run_ahead_of(generation).await {
            Ok(()) => self.next_token(generation).await,
            Err(error) => Err(error),
        };
        if done.is_err() || generation.is_finished() {
            self.stop_running_ahead();
        }
        done
    }

    /// Computes what the cache lacks before a token can be sampled: a chunk of it, or all, and
    /// then the token too.
    async fn first_step(
        &mut self,
        generation: &mut Generation,
    ) -> Result<Option<Progress>, SessionError> {
        let kept = self.kv.align(generation.ids(), &mut self.backend);
        generation.work_starts(self.clock.now_ms(), kept);
        let total = generation.ids().len();
        let pending = total - kept;
        let rows = if pending == 1 {
            1
        } else {
            self.pacer.rows().min(pending)
        };
        let started_ms = self.clock.now_ms();
        let new = generation.ids()[kept..kept + rows].to_vec();
        if rows < pending {
            self.pass(TokenSource::Ids(&new), Outputs::Nothing, None)
                .await?;
            self.pacer.record(rows, self.clock.now_ms() - started_ms);
            let done = kept + rows;
            return Ok(Some(Progress::Prefilled { done, total }));
        }
        let params = generation.sample_params(0, &[])?;
        let slot = self
            .pass(TokenSource::Ids(&new), Outputs::LastRow, Some(&params))
            .await?;
        self.keep(generation.number(), slot)?;
        // A backend that only queues its work would tell nothing of its speed here.
        if pending > 1 && self.backend.read_ms() == 0.0 {
            self.pacer.record(rows, self.clock.now_ms() - started_ms);
        }
        Ok(None)
    }

    /// Submits steps until as many are in flight as hide the time of reading.
    async fn run_ahead_of(&mut self, generation: &mut Generation) -> Result<(), SessionError> {
        let read_ms = self.backend.read_ms();
        let depth = self.run_ahead.depth(read_ms).min(generation.most_ahead());
        loop {
            let in_flight = self.run_ahead.slots().to_vec();
            let room = self.kv.capacity() - self.kv.len();
            let Some(&last) = in_flight
                .last()
                .filter(|_| in_flight.len() < depth && room > 0)
            else {
                return Ok(());
            };
            let params = generation.sample_params(in_flight.len(), &in_flight)?;
            let slot = self
                .pass(TokenSource::Sampled(last), Outputs::LastRow, Some(&params))
                .await?;
            self.keep(generation.number(), slot)?;
        }
    }

    /// Reads the oldest token.
    async fn next_token(&mut self, generation: &mut Generation) -> Result<Progress, SessionError> {
        let slot = self.run_ahead.pop().ok_or(NO_TOKEN)?;
        let sampled = self.backend.read_token(slot).await?;
        self.kv.read(sampled.id);
        let now_ms = self.clock.now_ms();
        self.run_ahead.read(generation.number(), now_ms);
        let token = generation.accept(&sampled, &self.tokenizer, now_ms)?;
        Ok(Progress::Token(token))
    }

    /// Gives up the steps in flight.
    pub(super) fn stop_running_ahead(&mut self) {
        self.run_ahead.clear();
        self.kv.drop_unread(&mut self.backend);
    }

    fn keep(&mut self, generation: u64, slot: Option<TokenSlot>) -> Result<(), SessionError> {
        self.run_ahead.push(generation, slot.ok_or(NO_TOKEN)?);
        Ok(())
    }

    /// One pass at the cache's end.
    pub(super) async fn pass(
        &mut self,
        tokens: TokenSource<'_>,
        outputs: Outputs,
        sample: Option<&SampleParams<'_>>,
    ) -> Result<Option<TokenSlot>, SessionError> {
        self.begin(tokens, outputs)?;
        let slot = match sample {
            Some(params) => Some(self.backend.sample(Slot::Logits, params)?),
            None => None,
        };
        self.backend.submit().await?;
        match tokens {
            TokenSource::Ids(ids) => self.kv.append(ids),
            TokenSource::Sampled(_) => self.kv.append_unread(),
        }
        Ok(slot)
    }

    /// Begins a pass at the cache's end, and records it where that is asked for.
    pub(super) fn begin(
        &mut self,
        tokens: TokenSource<'_>,
        outputs: Outputs,
    ) -> Result<(), SessionError> {
        let rows = match tokens {
            TokenSource::Ids(ids) => ids.len(),
            TokenSource::Sampled(_) => 1,
        };
        self.kv.reserve(rows, &mut self.backend)?;
        let sequence = SequenceStep {
            rows,
            position: self.kv.len(),
            blocks: self.kv.blocks(),
            window_blocks: self.kv.window_blocks(),
        };
        let step = Step {
            tokens,
            sequences: &[sequence],
            outputs,
        };
        if self.backend.begin(&step)? == Recording::Needed {
            self.plan.record(&mut self.backend, outputs)?;
        }
        Ok(())
    }
}

const NO_TOKEN: SessionError = SessionError::Internal("a sampling pass returned no token");
