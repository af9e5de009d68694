//! What a generation's times and counts mean.
//!
//! | field                       | definition                                               |
//! |-----------------------------|----------------------------------------------------------|
//! | `queue_ms`                  | call to first work                                       |
//! | `prefill_ms`                | first work to first sampled token                        |
//! | `ttft_ms`                   | call to first sampled token                              |
//! | `first_text_ms`             | call to first token with text                            |
//! | `decode_ms`                 | first to last token                                      |
//! | `prefill_tokens_per_second` | (prompt - cached tokens) / `prefill_ms`                  |
//! | `decode_tokens_per_second`  | (tokens - 1) / `decode_ms`                               |
//! | `itl_ms`                    | every gap between neighbouring tokens                    |
//!
//! A time that did not happen (no token, no text) is absent, never 0.

use serde::Serialize;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// An end token or a stop string.
    Stop,
    /// `maxTokens` or the context's end.
    Length,
    /// As [`Stop`](Self::Stop), of an answer that calls tools.
    ToolCalls,
    /// The caller stopped it.
    Cancelled,
    /// A failure.
    Error,
}

/// Times in milliseconds and counts of one generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the module's table defines the fields")]
pub struct Stats {
    pub finish_reason: FinishReason,
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub completion_tokens: usize,
    pub decode_steps: usize,
    pub queue_ms: Option<f64>,
    pub prefill_ms: Option<f64>,
    pub ttft_ms: Option<f64>,
    pub first_text_ms: Option<f64>,
    pub decode_ms: Option<f64>,
    pub prefill_tokens_per_second: Option<f64>,
    pub decode_tokens_per_second: Option<f64>,
    pub itl_ms: Vec<f64>,
}

/// Collects the moments of one generation.
#[derive(Clone, Debug)]
pub struct Recorder {
    called_ms: f64,
    work_ms: Option<f64>,
    first_text_ms: Option<f64>,
    token_ms: Vec<f64>,
    prompt_tokens: usize,
    cached_tokens: usize,
    decode_steps: usize,
}

impl Recorder {
    /// Starts the watch: the call itself.
    #[must_use]
    pub fn new(called_ms: f64, prompt_tokens: usize) -> Self {
        Self {
            called_ms,
            work_ms: None,
            first_text_ms: None,
            token_ms: Vec::new(),
            prompt_tokens,
            cached_tokens: 0,
            decode_steps: 0,
        }
    }

    /// The first work on the generation, with what the cache already held; later calls are
    /// ignored.
    pub fn work_starts(&mut self, now_ms: f64, cached_tokens: usize) {
        if self.work_ms.is_none() {
            self.work_ms = Some(now_ms);
            self.cached_tokens = cached_tokens;
        }
    }

    /// A pass that added one row after the prompt.
    pub fn decode_step(&mut self) {
        self.decode_steps += 1;
    }

    /// A token was sampled.
    pub fn token(&mut self, now_ms: f64, has_text: bool) {
        self.token_ms.push(now_ms);
        if has_text && self.first_text_ms.is_none() {
            self.first_text_ms = Some(now_ms);
        }
    }

    /// Tokens so far.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.token_ms.len()
    }

    /// Reads the watch.
    #[must_use]
    pub fn stats(&self, finish_reason: FinishReason) -> Stats {
        let first = self.token_ms.first().copied();
        let last = self.token_ms.last().copied();
        let since_call = |moment: f64| moment - self.called_ms;
        let between = |from: Option<f64>, to: Option<f64>| Some(to? - from?);
        let prefill_ms = between(self.work_ms, first);
        let decode_ms = between(first, last);
        let computed = self.prompt_tokens.saturating_sub(self.cached_tokens);
        Stats {
            finish_reason,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            completion_tokens: self.token_ms.len(),
            decode_steps: self.decode_steps,
            queue_ms: self.work_ms.map(since_call),
            prefill_ms,
            ttft_ms: first.map(since_call),
            first_text_ms: self.first_text_ms.map(since_call),
            decode_ms,
            prefill_tokens_per_second: rate(computed, prefill_ms),
            decode_tokens_per_second: rate(self.token_ms.len().saturating_sub(1), decode_ms),
            itl_ms: self
                .token_ms
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .collect(),
        }
    }
}

/// Count per second; absent where nothing was counted or no time passed.
#[expect(
    clippy::cast_precision_loss,
    reason = "token counts are far below 2^53"
)]
fn rate(count: usize, ms: Option<f64>) -> Option<f64> {
    ms.filter(|&ms| ms > 0.0 && count > 0)
        .map(|ms| count as f64 * 1000.0 / ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_their_definitions() {
        let mut recorder = Recorder::new(100.0, 12);
        recorder.work_starts(110.0, 2);
        recorder.work_starts(115.0, 9);
        recorder.token(160.0, false);
        recorder.token(200.0, true);
        recorder.token(260.0, true);
        let stats = recorder.stats(FinishReason::Stop);
        assert_eq!(stats.queue_ms, Some(10.0));
        assert_eq!(stats.prefill_ms, Some(50.0));
        assert_eq!(stats.ttft_ms, Some(60.0));
        assert_eq!(stats.first_text_ms, Some(100.0));
        assert_eq!(stats.decode_ms, Some(100.0));
        assert_eq!(stats.prefill_tokens_per_second, Some(200.0));
        assert_eq!(stats.decode_tokens_per_second, Some(20.0));
        assert_eq!(stats.itl_ms, [40.0, 60.0]);
        assert_eq!((stats.cached_tokens, stats.completion_tokens), (2, 3));
    }

    #[test]
    fn times_that_did_not_happen_are_absent() {
        let stats = Recorder::new(5.0, 3).stats(FinishReason::Cancelled);
        assert_eq!(
            (stats.queue_ms, stats.ttft_ms, stats.decode_ms),
            (None, None, None)
        );
        assert_eq!(stats.decode_tokens_per_second, None);
        let mut one = Recorder::new(0.0, 1);
        one.work_starts(0.0, 0);
        one.token(4.0, true);
        assert_eq!(
            one.stats(FinishReason::Length).decode_tokens_per_second,
            None
        );
    }
}
