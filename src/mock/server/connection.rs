//! One reader's end.

use std::collections::VecDeque;

use super::{Head, Request};
use crate::mock::hop::Stage;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Reset,
}

/// A request under way and what has arrived for its reader.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Number of the reply.
    pub(super) number: u64,
    /// Still on its way to the server.
    pub(super) request: Option<Request>,
    /// The generator it reads from; gone once the server is done with the connection.
    pub(super) job: Option<u64>,
    pub(super) stages: Vec<Stage>,
    pub(super) head: Head,
    pub(super) head_arrived: bool,
    /// Whether an error can be said as an event.
    pub(super) has_events: bool,
    pub(super) outbox: VecDeque<(Vec<u8>, u64)>,
    pub(super) queued_bytes: u64,
    pub(super) end: Option<End>,
    pub(super) taken_tokens: u64,
    pub(super) last_take_ms: f64,
    pub(super) last_write_ms: f64,
    /// Changes whenever the outbox is empty: an armed limit of silence means nothing then.
    pub(super) silence_epoch: u64,
}

impl Connection {
    pub(super) fn new(number: u64, now_ms: f64, request: Request) -> Self {
        Self {
            number,
            request: Some(request),
            job: None,
            stages: Vec::new(),
            head: Head::default(),
            head_arrived: false,
            has_events: false,
            outbox: VecDeque::new(),
            queued_bytes: 0,
            end: None,
            taken_tokens: 0,
            last_take_ms: now_ms,
            last_write_ms: now_ms,
            silence_epoch: 0,
        }
    }

    /// Tokens that hops hold: they have left the server.
    pub(super) fn held_tokens(&self) -> u64 {
        self.stages.iter().map(Stage::held_tokens).sum()
    }
}
