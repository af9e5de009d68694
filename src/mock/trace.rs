//! What happened, and how much of it.

use std::collections::VecDeque;

use serde::Serialize;

/// Something that happened to a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEvent {
    /// When, on the clock that the server is driven with.
    pub at_ms: f64,
    /// Number of the reply, from 0; readers that join a kept reply share it.
    pub reply: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum What {
    /// A request came in.
    Request {
        /// In capitals.
        method: String,
        /// Without query.
        path: String,
    },
    /// It was refused, or answered with an error.
    Refused {
        /// HTTP status.
        status: u16,
    },
    /// No seat is free.
    Queued,
    /// It has a seat.
    Seated {
        /// Which kind.
        pool: String,
        /// Since it came in.
        waited_ms: f64,
    },
    /// The prompt is being computed.
    Prefill {
        /// Its length.
        tokens: u64,
        /// Those of them that the prefix cache has.
        cached: u64,
    },
    /// The generator's stamp of a token.
    Token {
        /// From 0.
        index: u64,
    },
    /// The generator waits for the reader.
    Paused,
    /// It goes on.
    Resumed,
    /// Its cache was taken for an older reply.
    Preempted,
    /// The server wrote bytes.
    Wrote {
        /// How many.
        bytes: usize,
        /// Tokens that end in them.
        tokens: u64,
    },
    /// Bytes came to the reader's end of the path.
    Arrived {
        /// How many.
        bytes: usize,
    },
    /// The reader took them.
    Read {
        /// How many.
        bytes: usize,
    },
    /// A comment line kept the connection alive.
    KeptAlive,
    /// Bytes or an error that the scenario asked for.
    Fault {
        /// Which one.
        kind: &'static str,
    },
    /// The generator is done.
    Finished {
        /// As the dialect has it.
        reason: &'static str,
    },
    /// The reader left.
    Left,
    /// A reader came back.
    Joined {
        /// First event that it has not seen, from 0.
        from: u64,
    },
    /// The generator was stopped.
    Cancelled {
        /// Why.
        why: &'static str,
    },
    /// A kept reply was forgotten.
    Forgotten,
}

/// Most events that are kept: the oldest go first.
const MAX_EVENTS: usize = 200_000;

/// Events in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    events: VecDeque<TraceEvent>,
    dropped: u64,
}

impl Trace {
    pub(super) fn add(&mut self, at_ms: f64, reply: u64, what: What) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(TraceEvent { at_ms, reply, what });
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.events.iter()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// All that came in.
    pub requests: u64,
    /// Answered with an error before the first byte, refusals included.
    pub refused: u64,
    /// Of these, 429.
    pub rate_limited: u64,
    /// Replies whose text is complete.
    pub finished: u64,
    /// Replies that ended in an error that the scenario asked for.
    pub failed: u64,
    /// Generators that were stopped: the reader left, or was too slow.
    pub cancelled: u64,
    /// Tokens made.
    pub produced: u64,
    /// Tokens written to readers; a kept reply counts for each reader.
    pub sent: u64,
    /// Bytes of bodies that readers took.
    pub read_bytes: u64,
    /// Bytes that wait to be read now.
    pub queued_bytes: u64,
    /// Generators at work or waiting now.
    pub active: usize,
    /// Connections open now.
    pub connections: usize,
    /// Kept replies now.
    pub kept: usize,
    /// Seats in use now.
    pub seats_used: usize,
    /// Seats there are now; absent where there is no limit.
    pub seats: Option<usize>,
    /// Requests that wait for a seat now.
    pub waiting: usize,
    /// KV bytes reserved now.
    pub kv_bytes: u64,
    /// Time to a seat, of all that got one.
    pub queue_wait: Waits,
    /// Events that the trace no longer has.
    pub trace_dropped: u64,
}

/// A sum of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// All together.
    pub total_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Waits {
    pub(super) fn add(&mut self, ms: f64) {
        self.count += 1;
        self.total_ms += ms;
        self.max_ms = self.max_ms.max(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_keeps_the_newest_events_and_counts_the_rest() {
        let mut trace = Trace::default();
        for at in 0..=MAX_EVENTS {
            trace.add(0.0, at as u64, What::Queued);
        }
        assert_eq!((trace.events().count(), trace.dropped()), (MAX_EVENTS, 1));
        assert_eq!(trace.events().next().map(|event| event.reply), Some(1));
    }

    #[test]
    fn events_are_flat_objects() {
        let event = TraceEvent {
            at_ms: 1.5,
            reply: 3,
            what: What::Wrote {
                bytes: 10,
                tokens: 1,
            },
        };
        assert_eq!(
            serde_json::to_string(&event).expect("it is plain"),
            r#"{"atMs":1.5,"reply":3,"event":"wrote","bytes":10,"tokens":1}"#
        );
    }
}
