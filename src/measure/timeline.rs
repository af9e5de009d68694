//! What was seen of one exchange.
//!
//! Every time is in milliseconds on one clock. A time that did not happen is absent, never 0.

use serde::{Deserialize, Serialize};

/// How an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is still under way.
    #[default]
    Open,
    /// The terminal marker came, or the whole body of a buffered call parsed.
    Complete,
    /// A clean end without the marker.
    Incomplete,
    /// A status other than 2xx, an error event, a body cut within an event, or a reset.
    Failed,
}

/// What says that a reply is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// `[DONE]`.
    Marker,
    /// A finish reason of the OpenAI dialect, and a clean end behind it.
    FinishReason,
    /// One JSON body with a 2xx status.
    Body,
}

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// There was no response, or its body broke.
    Reset,
    /// The status is not 2xx.
    Status,
    /// An error event, or an event that is none of the dialect.
    Event,
    /// The body ended within an event or a JSON value.
    Truncated,
    /// The caller stopped it.
    Aborted,
}

/// How the moment of the first rendered text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rendered {
    /// The browser reported the paint of an element.
    ElementTiming,
    /// The second animation frame after the text was there.
    AnimationFrames,
}

/// Bytes that one read of the body gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    /// When, in milliseconds.
    pub at_ms: f64,
    /// How many.
    pub bytes: usize,
    /// Whether an event was unfinished behind them.
    #[serde(default)]
    pub within_event: bool,
}

/// One event, as the client parsed it. A body without events is one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimedEvent {
    /// When it was parsed, in milliseconds.
    pub at_ms: f64,
    /// Bytes of its data.
    pub bytes: usize,
    /// Tokens it carries: 0 for a role or usage alone, 1 for any text of a stream, which does
    /// not tell, and what the server counted for a whole body.
    pub tokens: usize,
    /// Bytes of text it carries, arguments of tools and all choices included.
    pub text_bytes: usize,
    /// What a reader is shown of it: the content of the first choice.
    pub text: String,
    /// Whether it has choices; a trailing usage event has none.
    pub has_choices: bool,
}

/// Hops that leave something in the headers. Who leaves nothing may be there even so, but for
/// compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Marks {
    /// `content-encoding`, or `vary` with `accept-encoding`.
    pub compression: bool,
    /// `via`, or the name of one in `server`.
    pub proxy: bool,
    /// `age`, `x-cache` and the like.
    pub cdn: bool,
}

/// What follows from a timeline at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Firsts {
    /// The first byte at the client, headers included.
    pub first_byte_ms: Option<f64>,
    /// The first event with text was parsed.
    pub first_text_ms: Option<f64>,
    /// The last event with text was parsed.
    pub last_text_ms: Option<f64>,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Tokens of the reply: the server's count, or else one for each event with text.
    pub tokens: usize,
    /// What a reader is shown.
    pub text: String,
}

/// The moments of one exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeline {
    /// When the request left, in milliseconds.
    pub request_ms: f64,
    /// Status and headers were there; no client sees a byte of a response earlier.
    pub headers_ms: Option<f64>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Whether the content type is that of an event stream.
    pub is_stream: bool,
    /// What the headers show of the path; unknown where they cannot be read.
    pub marks: Option<Marks>,
    /// The generator's own stamp of its first token.
    pub first_token_ms: Option<f64>,
    /// The generator's own stamp of its end.
    pub generation_end_ms: Option<f64>,
    /// Reads of the body, in order.
    pub reads: Vec<Read>,
    /// Events with data, in order, but for the marker.
    pub events: Vec<TimedEvent>,
    /// The first text was painted.
    pub first_rendered_ms: Option<f64>,
    /// How that was found.
    pub rendered_by: Option<Rendered>,
    /// The body was at its end, or broke.
    pub closed_ms: Option<f64>,
    /// Tokens of the reply as the server counted them.
    pub output_tokens: Option<usize>,
    /// How it ended.
    pub outcome: Outcome,
    /// What says that it is whole.
    pub completion: Option<Completion>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

impl Timeline {
    /// All of the below together.
    #[must_use]
    pub fn firsts(&self) -> Firsts {
        Firsts {
            first_byte_ms: self.first_byte_ms(),
            first_text_ms: self.first_text_ms(),
            last_text_ms: self.last_text_ms(),
            body_bytes: self.body_bytes(),
            tokens: self.tokens(),
            text: self.events.iter().map(|event| &*event.text).collect(),
        }
    }

    /// The first byte at the client, headers included.
    #[must_use]
    pub fn first_byte_ms(&self) -> Option<f64> {
        let body = self.reads.first().map(|read| read.at_ms);
        self.headers_ms.or(body)
    }

    /// The first event with text was parsed.
    #[must_use]
    pub fn first_text_ms(&self) -> Option<f64> {
        self.texts().next().map(|event| event.at_ms)
    }

    /// The last event with text was parsed.
    #[must_use]
    pub fn last_text_ms(&self) -> Option<f64> {
        self.texts().next_back().map(|event| event.at_ms)
    }

    /// Bytes of the body.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        let bytes = self.reads.iter().map(|read| read.bytes);
        bytes.fold(0, usize::saturating_add)
    }

    /// Tokens of the reply: the server's count, or else one for each event with text.
    #[must_use]
    pub fn tokens(&self) -> usize {
        let counted = self.events.iter().map(|event| event.tokens);
        let counted = counted.fold(0, usize::saturating_add);
        self.output_tokens.unwrap_or(counted)
    }

    /// Events with text.
    pub(super) fn texts(&self) -> impl DoubleEndedIterator<Item = &TimedEvent> + Clone {
        self.events.iter().filter(|event| event.text_bytes > 0)
    }

    /// Gaps between events with text.
    pub(super) fn text_gaps(&self) -> Vec<f64> {
        let times: Vec<f64> = self.texts().map(|event| event.at_ms).collect();
        gaps(&times)
    }
}

/// What lies between neighbours.
pub(super) fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
