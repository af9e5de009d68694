//! One answer in the making.

use serde::Serialize;

use super::constraint::Constraint;
use super::error::SessionError;
use super::options::GenerateOptions;
use super::penalties::Usage;
use super::random::uniform;
use super::stop::StopMatcher;
use super::tool_calls::{Parsed, ToolCallDelta, ToolParser};
use crate::backend::{Adjustments, SampleParams, Sampled, TokenLogprob, TokenSlot};
use crate::measure::{FinishReason, Recorder, Stats};
use crate::tokenizer::{Detokenizer, Tokenizer};

/// A sampled token and the text that became certain with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Id in the model's vocabulary.
    pub id: u32,
    /// New text: empty while a UTF-8 character is incomplete, while a stop string or a tool call
    /// may have begun, and for control tokens.
    pub text: String,
    /// Position in the answer, from 0.
    pub index: usize,
    /// Parts of tool calls that became certain with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
    /// When it was sampled, on the session's clock.
    pub at_ms: f64,
    /// What it is made of, where log-probabilities are asked for; control tokens are no bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// Natural logarithm of its probability under the raw logits, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f64>,
    /// The likeliest tokens under the raw logits, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<Vec<TopLogprob>>,
}

/// A token that could have come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopLogprob {
    /// Id in the model's vocabulary.
    pub id: u32,
    /// Its text by itself; U+FFFD stands for parts of characters.
    pub text: String,
    /// What it is made of; control tokens are no bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

impl TopLogprob {
    fn new(token: &TokenLogprob, tokenizer: &Tokenizer) -> Self {
        Self {
            id: token.id,
            text: tokenizer.decode(&[token.id]),
            bytes: bytes_of(token.id, tokenizer),
            logprob: token.logprob,
        }
    }
}

/// A token's bytes, unless it is a control token.
fn bytes_of(id: u32, tokenizer: &Tokenizer) -> Option<Vec<u8>> {
    let bytes = tokenizer
        .token_bytes(id)
        .filter(|_| !tokenizer.is_control(id));
    bytes.map(<[u8]>::to_vec)
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

/// Tokens made ahead of a reader who names no other number.
const DEFAULT_LOOKAHEAD: usize = 8;

/// An answer: its ids, its sampler's state, its text's loose ends, its stopwatch.
#[derive(Debug)]
pub struct Generation {
    /// Tells it from the others of its session.
    number: u64,
    /// Tokens that may be sampled before the next one is read, that one included.
    lookahead: usize,
    ids: Vec<u32>,
    prompt_tokens: usize,
    max_tokens: usize,
    options: GenerateOptions,
    seed: u64,
    /// Kept only where a penalty asks for it.
    usage: Option<Usage>,
    constraint: Option<Constraint>,
    detokenizer: Detokenizer,
    stop: StopMatcher,
    /// Kept only where the answer may call tools.
    tools: Option<ToolParser>,
    recorder: Recorder,
    finished: Option<FinishReason>,
}

impl Generation {
    /// Starts after a prompt that fits the context.
    pub(super) fn new(
        number: u64,
        prompt: Vec<u32>,
        options: GenerateOptions,
        constraint: Option<Constraint>,
        tools: Option<ToolParser>,
        context_length: usize,
        now_ms: f64,
    ) -> Self {
        // The last position's token needs no room in the cache: nothing follows it.
        let room = context_length.saturating_sub(prompt.len()) + 1;
        Self {
            number,
            lookahead: DEFAULT_LOOKAHEAD,
            max_tokens: options.max_tokens.unwrap_or(room).min(room),
            seed: options.seed.unwrap_or(0),
            usage: options.has_penalties().then(|| Usage::of_prompt(&prompt)),
            constraint,
            tools,
            detokenizer: Detokenizer::default(),
            stop: StopMatcher::new(options.stop.clone()),
            recorder: Recorder::new(now_ms, prompt.len()),
            finished: None,
            prompt_tokens: prompt.len(),
            ids: prompt,
            options,
        }
    }

    /// How many tokens may be sampled before the next one is read, that one included; at least
    /// one is.
    pub fn set_lookahead(&mut self, tokens: usize) {
        self.lookahead = tokens.max(1);
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Steps that may be in flight now: a mask needs the token before it, and nothing comes
    /// after the last token.
    pub(super) fn most_ahead(&self) -> usize {
        if self.constraint.is_some() {
            return 1;
        }
        let left = self.max_tokens.saturating_sub(self.recorder.tokens());
        self.lookahead.min(left).max(1)
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

    /// How to choose the token after `ahead` others that are yet to be read, in `pending`.
    pub(super) fn sample_params<'a>(
        &'a mut self,
        ahead: usize,
        pending: &'a [TokenSlot],
    ) -> Result<SampleParams<'a>, SessionError> {
        let mask = match &mut self.constraint {
            Some(constraint) => Some(constraint.mask()?),
            None => None,
        };
        let adjust = Adjustments {
            repetition_penalty: self.options.repetition_penalty,
            frequency_penalty: self.options.frequency_penalty,
            presence_penalty: self.options.presence_penalty,
            used: self.usage.as_ref().map_or(&[], Usage::as_slice),
            biases: &self.options.logit_bias,
            mask,
        };
        Ok(SampleParams {
            adjust,
            temperature: self.options.temperature,
            top_k: self.options.top_k,
            top_p: self.options.top_p,
            min_p: self.options.min_p,
            uniform: uniform(self.seed, (self.recorder.tokens() + ahead) as u64),
            logprobs: self.options.logprobs,
            // Only penalties ask.
            pending: if self.usage.is_some() { pending } else { &[] },
        })
    }

    /// Takes a sampled token.
    pub(super) fn accept(
        &mut self,
        sampled: &Sampled,
        tokenizer: &Tokenizer,
        now_ms: f64,
    ) -> Result<Token, SessionError> {
        let (id, index) = (sampled.id, self.recorder.tokens());
        let is_complete = match &mut self.constraint {
            Some(constraint) => constraint.accept(id)?,
            None => false,
        };
        if index > 0 {
            self.recorder.decode_step();
        }
        self.ids.push(id);
        if let Some(usage) = &mut self.usage {
            usage.push(id);
        }
        let is_end = !self.options.ignore_eos && self.ends(id, tokenizer);
        let bytes = tokenizer.token_bytes(id).filter(|bytes| {
            let tools = self.tools.as_ref();
            !tokenizer.is_control(id) || tools.is_some_and(|tools| tools.is_marker(bytes))
        });
        let mut piece = self.detokenizer.push(bytes.unwrap_or_default());
        if is_end {
            // The model chose to end here: bytes that are still incomplete are invalid.
            piece.push_str(&self.detokenizer.finish());
        }
        let mut matched = self.stop.push(&piece);
        self.finished = if matched.stopped || is_end || is_complete {
            Some(FinishReason::Stop)
        } else if index + 1 >= self.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        };
        if self.finished.is_some() && !matched.stopped {
            matched.text.push_str(&self.stop.finish());
        }
        let shown = self.separate_calls(matched.text);
        self.recorder.token(now_ms, !shown.text.is_empty());
        let logprobs = sampled.logprobs.as_ref();
        Ok(Token {
            id,
            text: shown.text,
            tool_calls: shown.calls,
            index,
            at_ms: now_ms,
            bytes: logprobs.and_then(|_| bytes_of(id, tokenizer)),
            logprob: logprobs.map(|logprobs| logprobs.chosen),
            top_logprobs: logprobs.map(|logprobs| {
                let top = logprobs.top.iter();
                top.map(|token| TopLogprob::new(token, tokenizer)).collect()
            }),
        })
    }

    /// Whether an answer ends with a token.
    fn ends(&self, id: u32, tokenizer: &Tokenizer) -> bool {
        let ends_calls = || {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            tokenizer.is_control(id) && self.tools.as_ref().is_some_and(|tools| tools.is_end(bytes))
        };
        tokenizer.end_ids().contains(&id) || ends_calls()
    }

    /// Takes tool calls out of the answer's text.
    fn separate_calls(&mut self, text: String) -> Parsed {
        let Some(tools) = &mut self.tools else {
            return Parsed {
                text,
                calls: Vec::new(),
            };
        };
        let mut shown = tools.push(&text);
        if self.finished.is_some() {
            let rest = tools.finish();
            shown.text.push_str(&rest.text);
            shown.calls.extend(rest.calls);
            if tools.complete() > 0 && self.finished == Some(FinishReason::Stop) {
                self.finished = Some(FinishReason::ToolCalls);
            }
        }
        shown
    }
}
