//! What was seen of one exchange.
//!
//! Every time is in milliseconds on one clock. A time that did not happen is absent, never 0.

/// How an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Outcome {
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("open", Self::Open),
        ("complete", Self::Complete),
        ("incomplete", Self::Incomplete),
        ("failed", Self::Failed),
    ];
}

/// What says that a reply is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// `[DONE]`.
    Marker,
    /// A finish reason of the OpenAI dialect, and a clean end behind it.
    FinishReason,
    /// One JSON body with a 2xx status.
    Body,
}

impl Completion {
    pub(super) const ALL: [(&'static str, Self); 3] = [
        ("marker", Self::Marker),
        ("finish-reason", Self::FinishReason),
        ("body", Self::Body),
    ];
}

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no response, or its body broke.
    Reset,
    /// The status is not 2xx.
    Status,
    /// An error event, or an event that is none of the dialect.
    Event,
    /// The body ended within an event or a JSON value.
    Truncated,
}

impl Failure {
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("reset", Self::Reset),
        ("status", Self::Status),
        ("event", Self::Event),
        ("truncated", Self::Truncated),
    ];
}

/// How the moment of the first rendered text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendered {
    /// The browser reported the paint of an element.
    ElementTiming,
    /// The second animation frame after the text was there.
    AnimationFrames,
}

impl Rendered {
    pub(super) const ALL: [(&'static str, Self); 2] = [
        ("element-timing", Self::ElementTiming),
        ("animation-frames", Self::AnimationFrames),
    ];
}

/// Bytes that one read of the body gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// When, in milliseconds.
    pub at_ms: f64,
    /// How many.
    pub bytes: usize,
}

/// One event, as the client parsed it. A body without events is one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimedEvent {
    /// When it was parsed, in milliseconds.
    pub at_ms: f64,
    /// Bytes of its data.
    pub bytes: usize,
    /// Tokens it carries: 0 for a role or usage alone, 1 for any text of a stream, which does
    /// not tell, and what the server counted for a whole body.
    pub tokens: usize,
    /// Bytes of text it carries.
    pub text_bytes: usize,
    /// Whether it has choices; a trailing usage event has none.
    pub has_choices: bool,
}

/// The moments of one exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// When the request left, in milliseconds.
    pub request_ms: f64,
    /// Status and headers were there; no client sees a byte of a response earlier.
    pub headers_ms: Option<f64>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Whether the content type is that of an event stream.
    pub is_stream: bool,
    /// Whether a compressing hop shows in the headers; unknown where they cannot be read.
    pub compresses: Option<bool>,
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
