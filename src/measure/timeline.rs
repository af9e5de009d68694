//! What was seen of one exchange, and the times that follow from it.
//!
//! Every time is in milliseconds on one clock. A benchmark's figure keeps the benchmark's own
//! definition, so that figures of the same name and another meaning stand side by side.
//!
//! | field                 | definition                                                        |
//! |-----------------------|-------------------------------------------------------------------|
//! | `ttft.any_chunk`      | request to the first event with choices, text or not (vLLM)       |
//! | `ttft.first_text`     | request to the first event with text (LLMPerf)                    |
//! | `itl.events`          | every gap between events with choices (vLLM)                      |
//! | `itl.mean_after_first`| (E2E - `any_chunk`) / (tokens - 1) (genai-perf; vLLM's TPOT)       |
//! | `itl.with_first`      | E2E / events with text, the first wait included (LLMPerf)         |
//! | `e2e_ms`              | request to the last event with choices                            |
//!
//! A time that did not happen is absent, never 0.

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The terminal marker came, or the whole body of a buffered call parsed.
    Complete,
    /// A clean end without the marker.
    Incomplete,
    /// A status other than 2xx, a cut body or a reset.
    Failed,
}

/// One event with choices, as the client parsed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedEvent {
    /// When it was parsed, in milliseconds.
    pub at_ms: f64,
    /// Tokens it carries; 0 for a role alone.
    pub tokens: usize,
    /// Bytes of text it carries.
    pub text_bytes: usize,
}

/// The moments of one exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// When the request left, in milliseconds.
    pub request_ms: f64,
    /// Events with choices, in order; a trailing usage event is none of them.
    pub events: Vec<TimedEvent>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Time to first token under each definition, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the module's table defines the fields")]
pub struct FirstToken {
    pub any_chunk: f64,
    pub first_text: Option<f64>,
}

/// Time between tokens under each definition, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the module's table defines the fields")]
pub struct BetweenTokens {
    pub events: Vec<f64>,
    pub mean_after_first: Option<f64>,
    pub with_first: Option<f64>,
}

/// The figures of one complete exchange.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the module's table defines the fields")]
pub struct Figures {
    pub ttft: FirstToken,
    pub itl: BetweenTokens,
    pub e2e_ms: f64,
}

impl Timeline {
    /// The figures, or `None` for an exchange that is not complete or had no event: neither
    /// counts as a timing result.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        if self.outcome != Outcome::Complete {
            return None;
        }
        let any_chunk = self.events.first()?.at_ms - self.request_ms;
        let e2e_ms = self.events.last()?.at_ms - self.request_ms;
        let texts = self.events.iter().filter(|event| event.text_bytes > 0);
        let first_text = texts
            .clone()
            .next()
            .map(|event| event.at_ms - self.request_ms);
        let tokens = self
            .events
            .iter()
            .fold(0_usize, |sum, event| sum.saturating_add(event.tokens));
        let after_first = tokens.checked_sub(1).filter(|count| *count > 0);
        let text_events = Some(texts.count()).filter(|count| *count > 0);
        Some(Figures {
            ttft: FirstToken {
                any_chunk,
                first_text,
            },
            itl: BetweenTokens {
                events: self
                    .events
                    .windows(2)
                    .map(|pair| pair[1].at_ms - pair[0].at_ms)
                    .collect(),
                mean_after_first: after_first.map(|count| (e2e_ms - any_chunk) / count as f64),
                with_first: text_events.map(|count| e2e_ms / count as f64),
            },
            e2e_ms,
        })
    }
}

/// The value below which `share` (0 to 1) of the samples lie, interpolated between neighbours;
/// `None` without samples, for a sample that is no number, or a share outside 0 to 1.
#[must_use]
pub fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    if samples.iter().any(|value| value.is_nan()) || !(0.0..=1.0).contains(&share) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * sorted.len().checked_sub(1)? as f64;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place lies within the samples"
    )]
    #[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(tokens: usize, first_ms: f64, gap_ms: f64) -> Timeline {
        let event = |n: usize| TimedEvent {
            at_ms: 7.0 + first_ms + n as f64 * gap_ms,
            tokens: 1,
            text_bytes: 5,
        };
        Timeline {
            request_ms: 7.0,
            events: (0..tokens).map(event).collect(),
            outcome: Outcome::Complete,
        }
    }

    #[test]
    fn a_reply_takes_its_first_token_and_the_other_intervals() {
        for (tokens, first, gap, total) in [
            (300, 500.0, 30.0, 9470.0),
            (400, 700.0, 25.0, 10_675.0),
            (120, 33.0, 33.0, 3960.0),
        ] {
            let figures = steady(tokens, first, gap).figures().unwrap();
            assert!((figures.e2e_ms - total).abs() < 1e-6);
            assert_eq!(figures.ttft.first_text, Some(first));
            assert!((figures.itl.mean_after_first.unwrap() - gap).abs() < 1e-6);
            assert_eq!(figures.itl.events.len(), tokens - 1);
        }
    }

    #[test]
    fn a_role_alone_is_a_first_chunk_and_no_first_text() {
        let mut timeline = steady(3, 100.0, 30.0);
        timeline.events.insert(
            0,
            TimedEvent {
                at_ms: 9.0,
                tokens: 0,
                text_bytes: 0,
            },
        );
        let figures = timeline.figures().unwrap();
        assert_eq!(
            figures.ttft,
            FirstToken {
                any_chunk: 2.0,
                first_text: Some(100.0)
            }
        );
        assert_eq!(figures.itl.mean_after_first, Some((160.0 - 2.0) / 2.0));
        assert_eq!(figures.itl.with_first, Some(160.0 / 3.0));
    }

    #[test]
    fn an_exchange_that_is_not_complete_has_no_figures() {
        for outcome in [Outcome::Incomplete, Outcome::Failed] {
            let timeline = Timeline {
                outcome,
                ..steady(5, 10.0, 10.0)
            };
            assert_eq!(timeline.figures(), None);
        }
        assert_eq!(steady(0, 0.0, 0.0).figures(), None);
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&samples, 0.5), Some(2.5));
        assert_eq!(percentile(&samples, 0.0), Some(1.0));
        assert_eq!(percentile(&samples, 1.0), Some(4.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[f64::NAN], 0.5), None);
        assert_eq!(percentile(&samples, 1.5), None);
    }
}
