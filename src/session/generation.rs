//! One answer in the making.

use serde::Serialize;

use super::options::GenerateOptions;
use super::random::uniform;
use super::stop::StopMatcher;
use crate::backend::{SampleParams, Sampled};
use crate::measure::{FinishReason, Recorder, Stats};
use crate::tokenizer::{Detokenizer, Tokenizer};

/// A sampled token and the text that became certain with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Id in the model's vocabulary.
    pub id: u32,
    /// New text: empty while a UTF-8 character is incomplete, while a stop string may have
    /// begun, and for control tokens.
    pub text: String,
    /// Position in the answer, from 0.
    pub index: usize,
    /// When it was sampled, on the session's clock.
    pub at_ms: f64,
}

/// What one piece of work led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A prefill chunk is done; positions cached so far and in all.
    Prefilled {
        /// Cached positions.
        done: usize,
        /// Positions before the next token can be sampled.
        total: usize,
    },
    /// A token.
    Token(Token),
    /// Nothing is left to do.
    Finished,
}

/// An answer: its ids, its sampler's state, its text's loose ends, its stopwatch.
#[derive(Debug)]
pub struct Generation {
    ids: Vec<u32>,
    prompt_tokens: usize,
    max_tokens: usize,
    options: GenerateOptions,
    seed: u64,
    detokenizer: Detokenizer,
    stop: StopMatcher,
    recorder: Recorder,
    finished: Option<FinishReason>,
}

impl Generation {
    /// Starts after a prompt that fits the context.
    pub(super) fn new(
        prompt: Vec<u32>,
        options: GenerateOptions,
        context_length: usize,
        now_ms: f64,
    ) -> Self {
        // The last position's token needs no room in the cache: nothing follows it.
        let room = context_length.saturating_sub(prompt.len()) + 1;
        Self {
            max_tokens: options.max_tokens.unwrap_or(room).min(room),
            seed: options.seed.unwrap_or(0),
            detokenizer: Detokenizer::default(),
            stop: StopMatcher::new(options.stop.clone()),
            recorder: Recorder::new(now_ms, prompt.len()),
            finished: None,
            prompt_tokens: prompt.len(),
            ids: prompt,
            options,
        }
    }

    /// Prompt and answer so far.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The prompt alone.
    #[must_use]
    pub fn prompt_ids(&self) -> &[u32] {
        &self.ids[..self.prompt_tokens]
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished.is_some()
    }

    /// Times and counts; an unfinished answer is reported with `reason`.
    #[must_use]
    pub fn stats(&self, reason: FinishReason) -> Stats {
        self.recorder.stats(self.finished.unwrap_or(reason))
    }

    pub(super) fn work_starts(&mut self, now_ms: f64, cached_tokens: usize) {
        self.recorder.work_starts(now_ms, cached_tokens);
    }

    pub(super) fn sample_params(&self) -> SampleParams {
        SampleParams {
            temperature: self.options.temperature,
            top_k: self.options.top_k,
            top_p: self.options.top_p,
            min_p: self.options.min_p,
            uniform: uniform(self.seed, self.recorder.tokens() as u64),
        }
    }

    /// Takes a sampled token.
    pub(super) fn accept(
        &mut self,
        sampled: &Sampled,
        tokenizer: &Tokenizer,
        now_ms: f64,
    ) -> Token {
        let (id, index) = (sampled.id, self.recorder.tokens());
        if index > 0 {
            self.recorder.decode_step();
        }
        self.ids.push(id);
        let is_end = !self.options.ignore_eos && tokenizer.end_ids().contains(&id);
        let bytes = if tokenizer.is_control(id) {
            None
        } else {
            tokenizer.token_bytes(id)
        };
        let mut piece = self.detokenizer.push(bytes.unwrap_or_default());
        if is_end {
            // The model chose to end here: bytes that are still incomplete are invalid.
            piece.push_str(&self.detokenizer.finish());
        }
        let mut matched = self.stop.push(&piece);
        self.finished = if matched.stopped || is_end {
            Some(FinishReason::Stop)
        } else if index + 1 >= self.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        };
        if self.finished.is_some() && !matched.stopped {
            matched.text.push_str(&self.stop.finish());
        }
        self.recorder.token(now_ms, !matched.text.is_empty());
        Token {
            id,
            text: matched.text,
            index,
            at_ms: now_ms,
        }
    }
}
