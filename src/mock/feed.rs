//! Tokens to the groups that are written together.

use super::scenario::Delivery;
use super::source::Token;

/// Holds tokens until they leave.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    held: Vec<Token>,
    /// Tokens at the end of `held` that may not leave yet.
    hold_back: usize,
    batch: Option<usize>,
    window_ms: Option<f64>,
    whole: bool,
    /// Since when the first token that may leave has been there.
    since_ms: Option<f64>,
}

impl Feed {
    pub(super) fn new(delivery: &Delivery) -> Self {
        let batch = delivery.batch_tokens.map(|count| count.len().max(1));
        let window_ms = delivery.batch_ms.map(super::scenario::Ms::get);
        Self {
            held: Vec::new(),
            hold_back: delivery.hold_back_tokens.map_or(0, super::scenario::Count::len),
            // A window alone waits for its time, however many tokens come.
            batch: batch.or(window_ms.is_none().then_some(1)),
            window_ms,
            whole: delivery.whole,
            since_ms: None,
        }
    }

    /// Takes a token; gives the group that leaves now.
    pub(super) fn push(&mut self, now_ms: f64, token: Token) -> Vec<Token> {
        self.held.push(token);
        let ready = self.ready();
        if ready > 0 {
            self.since_ms.get_or_insert(now_ms);
        }
        match self.batch {
            Some(batch) if ready >= batch => self.take(ready),
            _ => Vec::new(),
        }
    }

    /// When what is held leaves though the group is not full.
    pub(super) fn deadline_ms(&self) -> Option<f64> {
        Some(self.since_ms? + self.window_ms?)
    }

    /// The group whose time has come.
    pub(super) fn due(&mut self, now_ms: f64) -> Vec<Token> {
        match self.deadline_ms() {
            Some(deadline_ms) if deadline_ms <= now_ms => self.take(self.ready()),
            _ => Vec::new(),
        }
    }

    /// The end: all that is left.
    pub(super) fn finish(&mut self) -> Vec<Token> {
        self.take(self.held.len())
    }

    /// How many tokens may be held for ever while no more come.
    pub(super) fn span(&self) -> usize {
        if self.whole {
            return usize::MAX;
        }
        let batch = if self.window_ms.is_some() { None } else { self.batch };
        self.hold_back.saturating_add(batch.unwrap_or(1))
    }

    fn ready(&self) -> usize {
        if self.whole {
            return 0;
        }
        self.held.len().saturating_sub(self.hold_back)
    }

    fn take(&mut self, count: usize) -> Vec<Token> {
        self.since_ms = None;
        self.held.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten tokens, one each 33 ms from 33 on; when each group leaves, and how large it is.
    fn groups(json: &str) -> Vec<(f64, usize)> {
        let mut feed = Feed::new(&serde_json::from_str(json).expect("it is valid"));
        let mut groups = Vec::new();
        for n in 1..=10 {
            let now_ms = f64::from(n) * 33.0;
            while let Some(at_ms) = feed.deadline_ms().filter(|at| *at <= now_ms) {
                groups.push((at_ms, feed.due(at_ms).len()));
            }
            groups.push((now_ms, feed.push(now_ms, Token::default()).len()));
        }
        groups.push((330.0, feed.finish().len()));
        groups.retain(|(_, tokens)| *tokens > 0);
        groups
    }

    #[test]
    fn groups_leave_when_full_when_their_time_has_come_and_at_the_end() {
        assert_eq!(groups("{}").len(), 10);
        assert_eq!(groups(r#"{"batchTokens":4}"#), [(132.0, 4), (264.0, 4), (330.0, 2)]);
        assert_eq!(groups(r#"{"whole":true}"#), [(330.0, 10)]);
        let held = groups(r#"{"holdBackTokens":3}"#);
        assert_eq!(held[0], (132.0, 1));
        assert_eq!(held.last(), Some(&(330.0, 3)));
        // The first token at 33 opens a window of 50; the next one opens at 99.
        let window = groups(r#"{"batchMs":50}"#);
        assert_eq!(window[..3], [(83.0, 2), (149.0, 2), (215.0, 2)]);
        let both = groups(r#"{"batchTokens":2,"batchMs":20}"#);
        assert_eq!(both[..2], [(53.0, 1), (86.0, 1)]);
    }
}
