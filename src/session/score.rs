//! Teacher-forced scoring: what the model would have said at every position of a given text.

use serde::Serialize;

use super::error::SessionError;
use super::{MAX_SCORED_ROWS, Session};
use crate::backend::{Backend, Outputs, TokenSource, arg_max, log_sum_exp};

/// Scores by position: position `i` predicts id `i + 1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreResult {
    /// Ids that were scored.
    pub ids: Vec<u32>,
    /// The likeliest next id.
    pub top1: Vec<u32>,
    /// Natural logarithm of its probability.
    pub top1_logprob: Vec<f64>,
    /// Natural logarithm of the probability of the id that does come next.
    pub next_logprob: Vec<f64>,
}

/// What one piece of scoring led to.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreProgress {
    /// Positions done and in all.
    Scored {
        /// Positions done.
        done: usize,
        /// Positions in all.
        total: usize,
    },
    /// All of them.
    Finished(ScoreResult),
}

/// Scoring in progress.
#[derive(Debug)]
pub struct ScoreJob {
    result: ScoreResult,
}

impl<B: Backend> Session<B> {
    /// Starts scoring ids; no work is done before [`score`](Self::score).
    ///
    /// # Errors
    /// [`SessionError::EmptyPrompt`], [`SessionError::ContextFull`], [`SessionError::TokenId`].
    pub fn score_job(&self, ids: Vec<u32>) -> Result<ScoreJob, SessionError> {
        self.check_ids(&ids)?;
        Ok(ScoreJob {
            result: ScoreResult {
                ids,
                ..ScoreResult::default()
            },
        })
    }

    /// Scores one chunk of positions. Jobs and generations may take turns: a job that lost
    /// the cache prefills what it had.
    ///
    /// # Errors
    /// The backend's.
    pub async fn score(&mut self, job: &mut ScoreJob) -> Result<ScoreProgress, SessionError> {
        // The last id has no successor, so its logits are not needed.
        let total = job.result.ids.len() - 1;
        let scored = job.result.top1.len();
        if scored == total {
            return Ok(ScoreProgress::Finished(std::mem::take(&mut job.result)));
        }
        let started_ms = self.clock.now_ms();
        self.stop_running_ahead();
        let kept = self.kv.align(&job.result.ids[..=scored], &mut self.backend);
        let paced = self.pacer.rows();
        let (rows, outputs) = if kept < scored {
            (paced.min(scored - kept), Outputs::Nothing)
        } else {
            (
                paced.min(MAX_SCORED_ROWS).min(total - scored),
                Outputs::AllRows,
            )
        };
        let new = job.result.ids[kept..kept + rows].to_vec();
        self.pass(TokenSource::Ids(&new), outputs, None).await?;
        if outputs == Outputs::AllRows {
            let vocab_size = self.facts.vocab_size;
            let logits = self.backend.read_logits().await?;
            for row in logits.chunks_exact(vocab_size) {
                job.result.push(row)?;
            }
        }
        self.pacer.record(rows, self.clock.now_ms() - started_ms);
        Ok(ScoreProgress::Scored {
            done: job.result.top1.len(),
            total,
        })
    }
}

impl ScoreResult {
    /// Adds the next position's logits `[V]`.
    fn push(&mut self, logits: &[f32]) -> Result<(), SessionError> {
        let next = self.ids[self.top1.len() + 1] as usize;
        let best = arg_max(logits)?;
        let total = log_sum_exp(logits, logits[best]);
        self.top1
            .push(u32::try_from(best).map_err(|_| SessionError::Internal("vocabulary"))?);
        self.top1_logprob.push(f64::from(logits[best]) - total);
        self.next_logprob.push(f64::from(logits[next]) - total);
        Ok(())
    }
}
