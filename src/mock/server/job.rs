//! A reply in the making.

use super::Head;
use crate::mock::feed::Feed;
use crate::mock::scenario::Tier;
use crate::mock::source::Source;
use crate::mock::wire::Body;

/// Where a generator stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a seat.
    Queued,
    /// Computes its prompt.
    Prefill,
    /// Makes tokens.
    Decoding,
    /// Would, but the reader is behind.
    Paused,
    /// Waits for a token from outside.
    Awaiting,
    /// Its text is complete.
    Ended,
}

/// One generator and what it has written.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Number of the reply.
    pub(super) number: u64,
    /// Its name in event ids.
    pub(super) reply: String,
    pub(super) arrived_ms: f64,
    pub(super) tier: Tier,
    pub(super) prompt: String,
    pub(super) prompt_tokens: u64,
    /// All of the prompt, where its beginning may be in the prefix cache.
    pub(super) context: String,
    /// Tokens of the prompt that were there; unknown until it has a seat.
    pub(super) cached_tokens: Option<u64>,
    /// Whether the scenario's other model answers.
    pub(super) swapped: bool,
    pub(super) max_tokens: Option<u64>,
    /// Answers that are still to be made, this one included.
    pub(super) choices_left: usize,
    pub(super) is_first_choice: bool,
    pub(super) source: Source,
    pub(super) body: Body,
    pub(super) begun: bool,
    pub(super) feed: Feed,
    pub(super) phase: Phase,
    /// Tokens of this answer, and of all.
    pub(super) made: u64,
    pub(super) produced: u64,
    /// Tokens that left the feed without a byte of their own; the next write has them.
    pub(super) unwritten: u64,
    /// Positions that its seat has memory for, where memory is given as it is used.
    pub(super) reserved: u64,
    /// Changes when it loses its seat: what was planned before means nothing then.
    pub(super) turn: u64,
    pub(super) has_calls: bool,
    /// Whether the scenario's faults hit it.
    pub(super) faulty: bool,
    pub(super) head: Head,
    /// A body that will be an error instead: its head has to wait.
    pub(super) head_waits: bool,
    /// Kept for readers that come back: every event, and how many tokens end in it.
    pub(super) kept: Option<Vec<(Vec<u8>, u64)>>,
    /// What it takes to make it again after a restart.
    pub(super) origin: Option<super::Request>,
    /// Changes with each reader that comes, so that an old grace time means nothing.
    pub(super) readers_epoch: u64,
    pub(super) readers: Vec<u64>,
}

impl Job {
    /// Positions in its cache.
    pub(super) fn positions(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.made)
    }

    /// Whether the answer is as long as it may be.
    pub(super) fn is_full(&self) -> bool {
        self.max_tokens.is_some_and(|max| self.made >= max)
    }
}
