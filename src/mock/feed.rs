//! Tokens to the groups that are written together.

use super::scenario::{self, Count, Ms};
use super::source::Token;
use crate::stream::{Delivery, Options, Piece, Step};

impl Piece for Token {
    fn text(&self) -> &str {
        &self.text
    }

    fn set_text(&mut self, text: String) {
        self.text = text;
    }
}

/// Holds tokens until they leave. A mock checks nothing, so what is left of a delivery are its
/// chunks.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    delivery: Delivery<Token>,
    span: usize,
}

impl Feed {
    pub(super) fn new(settings: &scenario::Delivery) -> Self {
        let hold_back_tokens = settings.hold_back_tokens.map_or(0, Count::len);
        let batch_tokens = settings.batch_tokens.map(|count| count.len().max(1));
        let batch_ms = settings.batch_ms.map(Ms::get);
        // A window lets go by itself.
        let batch = batch_tokens.filter(|_| batch_ms.is_none()).unwrap_or(1);
        Self {
            delivery: Delivery::new(Options {
                batch_tokens,
                batch_ms,
                hold_back_tokens,
                whole: settings.whole,
                checked: false,
            }),
            span: if settings.whole {
                usize::MAX
            } else {
                hold_back_tokens.saturating_add(batch)
            },
        }
    }

    /// Takes a token; gives the groups that leave now.
    pub(super) fn push(&mut self, now_ms: f64, token: Token) -> Vec<Vec<Token>> {
        self.delivery.push(token);
        self.chunks(now_ms)
    }

    /// When what is held leaves though the group is not full.
    pub(super) fn deadline_ms(&self) -> Option<f64> {
        self.delivery.due_ms()
    }

    /// The group whose time has come.
    pub(super) fn due(&mut self, now_ms: f64) -> Vec<Vec<Token>> {
        self.chunks(now_ms)
    }

    /// The end: all that is left.
    pub(super) fn finish(&mut self, now_ms: f64) -> Vec<Vec<Token>> {
        self.delivery.finish();
        self.chunks(now_ms)
    }

    /// How many tokens may be held for ever while no more come.
    pub(super) fn span(&self) -> usize {
        self.span
    }

    fn chunks(&mut self, now_ms: f64) -> Vec<Vec<Token>> {
        let steps = std::iter::from_fn(|| self.delivery.step(now_ms));
        steps
            .filter_map(|step| match step {
                Step::Chunk(tokens) => Some(tokens),
                Step::Check | Step::End { .. } => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten tokens, one each 33 ms from 33 on; when each group leaves, and how large it is.
    fn groups(json: &str) -> Vec<(f64, usize)> {
        let mut feed = Feed::new(&serde_json::from_str(json).expect("it is valid"));
        let mut groups = Vec::new();
        let mut add = |at_ms: f64, chunks: Vec<Vec<Token>>| {
            groups.extend(chunks.iter().map(|tokens| (at_ms, tokens.len())));
        };
        for n in 1..=10 {
            let now_ms = f64::from(n) * 33.0;
            while let Some(at_ms) = feed.deadline_ms().filter(|at| *at <= now_ms) {
                add(at_ms, feed.due(at_ms));
            }
            add(now_ms, feed.push(now_ms, Token::default()));
        }
        add(330.0, feed.finish(330.0));
        groups
    }

    #[test]
    fn groups_leave_when_full_when_their_time_has_come_and_at_the_end() {
        assert_eq!(groups("{}").len(), 10);
        assert_eq!(
            groups(r#"{"batchTokens":4}"#),
            [(132.0, 4), (264.0, 4), (330.0, 2)]
        );
        assert_eq!(groups(r#"{"whole":true}"#), [(330.0, 10)]);
        let held = groups(r#"{"holdBackTokens":3}"#);
        assert_eq!(held[0], (132.0, 1));
        assert_eq!(held[6..], [(330.0, 1); 4]);
        // The first token at 33 opens a window of 50; the next one opens at 99.
        let window = groups(r#"{"batchMs":50}"#);
        assert_eq!(window[..3], [(83.0, 2), (149.0, 2), (215.0, 2)]);
        let both = groups(r#"{"batchTokens":2,"batchMs":20}"#);
        assert_eq!(both[..2], [(53.0, 1), (86.0, 1)]);
    }
}
