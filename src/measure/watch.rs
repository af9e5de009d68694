//! From the bytes of a response to its timeline.

use serde_json::Value;

use super::timeline::{Completion, Failure, Marks, Outcome, Read, Rendered, TimedEvent, Timeline};
use crate::sse::{DEFAULT_MAX_BUFFER_BYTES, Item, Parser};

/// What a response says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Headers<'a> {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case, and values.
    pub pairs: &'a [(String, String)],
    /// Whether these are all of them; a page sees only some of another origin's.
    pub all: bool,
}

impl Headers<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(key, _)| key == name);
        found.map(|(_, value)| value.to_ascii_lowercase())
    }

    fn marks(&self) -> Option<Marks> {
        let has = |name| self.get(name).is_some();
        let server = self.get("server").unwrap_or_default();
        let is_one_of = |names: &[&str]| names.iter().any(|name| server.contains(name));
        let varies = self
            .get("vary")
            .is_some_and(|vary| vary.contains("accept-encoding"));
        let encodes = self
            .get("content-encoding")
            .is_some_and(|coding| coding != "identity");
        self.all.then(|| Marks {
            compression: varies || encodes,
            proxy: has("via") || is_one_of(&PROXIES),
            cdn: CDN_HEADERS.into_iter().any(has) || is_one_of(&CDNS),
        })
    }
}

/// Reverse proxies by their name in `server`.
const PROXIES: [&str; 6] = ["nginx", "openresty", "envoy", "traefik", "haproxy", "istio"];
/// Delivery networks likewise.
const CDNS: [&str; 4] = ["cloudflare", "cloudfront", "akamai", "fastly"];
/// What caches add.
const CDN_HEADERS: [&str; 6] = [
    "age",
    "x-cache",
    "cf-ray",
    "x-amz-cf-id",
    "x-served-by",
    "cdn-cache",
];

/// The stopwatch of one exchange. Times never go back.
#[derive(Clone, Debug)]
pub struct Watch {
    timeline: Timeline,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Events {
        parser: Box<Parser>,
        /// The last bytes: whether an event is unfinished.
        tail: Vec<u8>,
        finish_reason: bool,
    },
    /// One JSON value.
    Whole(Vec<u8>),
    /// Text without frames: each read is an event.
    Plain {
        /// Bytes of a character that is not complete.
        rest: Vec<u8>,
    },
}

impl Body {
    const NONE: Self = Self::Plain { rest: Vec::new() };
}

impl Watch {
    /// Starts with the request.
    #[must_use]
    pub fn new(request_ms: f64) -> Self {
        Self {
            timeline: Timeline {
                request_ms,
                ..Timeline::default()
            },
            body: Body::NONE,
        }
    }

    /// What was seen so far.
    #[must_use]
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Status and headers are there.
    pub fn headers(&mut self, at_ms: f64, headers: Headers<'_>) {
        let kind = headers.get("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let seen = &mut self.timeline;
        seen.headers_ms = Some(at_ms);
        seen.status = Some(headers.status);
        seen.marks = headers.marks();
        seen.is_stream = kind == "text/event-stream";
        self.body = if seen.is_stream {
            Body::Events {
                parser: Box::new(Parser::new(DEFAULT_MAX_BUFFER_BYTES, false)),
                tail: Vec::new(),
                finish_reason: false,
            }
        } else if kind == "application/json" || kind.ends_with("+json") {
            Body::Whole(Vec::new())
        } else {
            Body::NONE
        };
        if !(200..300).contains(&headers.status) {
            self.fail(Failure::Status);
        }
    }

    /// A read of the body gave bytes.
    pub fn read(&mut self, at_ms: f64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let mut within_event = false;
        match &mut self.body {
            Body::Events { tail, .. } => {
                tail.extend_from_slice(&bytes[length.saturating_sub(4)..]);
                tail.drain(..tail.len().saturating_sub(4));
                within_event = !is_between_events(tail);
                self.parse(at_ms, bytes);
            }
            Body::Whole(whole) => whole.extend_from_slice(bytes),
            Body::Plain { rest } => {
                let text = decode(rest, bytes);
                self.timeline.events.push(TimedEvent {
                    at_ms,
                    bytes: length,
                    tokens: 1,
                    text_bytes: length,
                    text,
                    has_choices: true,
                });
            }
        }
        self.timeline.reads.push(Read {
            at_ms,
            bytes: length,
            within_event,
        });
    }

    /// The body is at its end, or, if not `clean`, broke; or there was no response at all.
    pub fn close(&mut self, at_ms: f64, clean: bool) {
        if self.timeline.closed_ms.is_some() {
            return;
        }
        self.timeline.closed_ms = Some(at_ms);
        if self.timeline.outcome != Outcome::Open {
            return;
        }
        if !clean {
            self.fail(Failure::Reset);
            return;
        }
        match std::mem::replace(&mut self.body, Body::NONE) {
            Body::Events { tail, .. } if !is_between_events(&tail) => self.fail(Failure::Truncated),
            Body::Events {
                finish_reason: true,
                ..
            } => self.complete(Completion::FinishReason),
            Body::Whole(whole) => self.whole(at_ms, &whole),
            Body::Events { .. } | Body::Plain { .. } => self.timeline.outcome = Outcome::Incomplete,
        }
    }

    /// The caller stopped it.
    pub fn abort(&mut self, at_ms: f64) {
        if self.timeline.outcome == Outcome::Open {
            self.fail(Failure::Aborted);
        }
        self.close(at_ms, false);
    }

    /// The first text was painted.
    pub fn rendered(&mut self, at_ms: f64, by: Rendered) {
        self.timeline.first_rendered_ms = Some(at_ms);
        self.timeline.rendered_by = Some(by);
    }

    /// The generator's own stamps, on the clock of the exchange.
    pub fn generator(&mut self, first_token_ms: Option<f64>, end_ms: Option<f64>) {
        self.timeline.first_token_ms = first_token_ms;
        self.timeline.generation_end_ms = end_ms;
    }

    fn parse(&mut self, at_ms: f64, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Body::Events { parser, .. } = &mut self.body else {
                return;
            };
            let Ok((taken, item)) = parser.read(rest) else {
                self.fail(Failure::Event);
                return;
            };
            rest = rest.get(taken..).unwrap_or_default();
            match item {
                Some(Item::Event(message)) => self.event(at_ms, &message.event, &message.data),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn event(&mut self, at_ms: f64, name: &str, data: &str) {
        // Behind the marker, and behind an error, nothing counts.
        if self.timeline.outcome != Outcome::Open {
            return;
        }
        if data.trim_end() == "[DONE]" {
            self.complete(Completion::Marker);
            return;
        }
        let value = serde_json::from_str(data).unwrap_or(Value::Null);
        let is_error = value.get("error").is_some_and(|error| !error.is_null());
        if name == "error" || is_error || value.is_null() {
            self.fail(Failure::Event);
            return;
        }
        let said = Said::of(&value);
        if let Body::Events { finish_reason, .. } = &mut self.body {
            *finish_reason |= said.is_finished;
        }
        self.timeline.output_tokens = said.tokens.or(self.timeline.output_tokens);
        self.timeline.events.push(TimedEvent {
            at_ms,
            bytes: data.len(),
            tokens: usize::from(said.text_bytes > 0),
            text_bytes: said.text_bytes,
            text: said.text,
            has_choices: said.has_choices,
        });
    }

    fn whole(&mut self, at_ms: f64, body: &[u8]) {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if value.is_null() {
            self.fail(Failure::Truncated);
            return;
        }
        let said = Said::of(&value);
        self.timeline.output_tokens = said.tokens;
        self.timeline.events.push(TimedEvent {
            at_ms,
            bytes: body.len(),
            tokens: said.tokens.unwrap_or(usize::from(said.text_bytes > 0)),
            text_bytes: said.text_bytes,
            text: said.text,
            has_choices: true,
        });
        self.complete(Completion::Body);
    }

    fn complete(&mut self, by: Completion) {
        self.timeline.outcome = Outcome::Complete;
        self.timeline.completion = Some(by);
    }

    fn fail(&mut self, why: Failure) {
        self.timeline.outcome = Outcome::Failed;
        self.timeline.failure = self.timeline.failure.or(Some(why));
    }
}

/// Whether the stream's last bytes end an event: an empty line, or nothing at all.
fn is_between_events(tail: &[u8]) -> bool {
    let ends = |end: &[u8]| tail.ends_with(end);
    tail.is_empty() || ends(b"\n\n") || ends(b"\r\r") || ends(b"\r\n\r\n")
}

/// The whole characters of `rest` and `bytes`; `rest` keeps what may go on.
fn decode(rest: &mut Vec<u8>, bytes: &[u8]) -> String {
    rest.extend_from_slice(bytes);
    let whole = match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => rest.len(),
    };
    let kept = rest.split_off(whole);
    let text = String::from_utf8_lossy(rest).into_owned();
    *rest = kept;
    text
}

/// What a chunk or a whole reply says.
struct Said {
    text_bytes: usize,
    text: String,
    has_choices: bool,
    is_finished: bool,
    tokens: Option<usize>,
}

impl Said {
    fn of(value: &Value) -> Self {
        let choices = value.get("choices").and_then(Value::as_array);
        let choices = choices.map(Vec::as_slice).unwrap_or_default();
        let tokens = value.pointer("/usage/completion_tokens");
        let tokens = tokens.and_then(Value::as_u64);
        // Text alone, or in an object, is the plain dialect of a lab.
        let plain = value.as_str().or_else(|| value.get("text")?.as_str());
        let text = choices.iter().map(text_bytes);
        let shown = plain.or_else(|| content(choices.first()?));
        Self {
            text_bytes: text.fold(plain.map_or(0, str::len), usize::saturating_add),
            text: shown.unwrap_or_default().to_owned(),
            has_choices: plain.is_some() || !choices.is_empty(),
            is_finished: choices
                .iter()
                .any(|choice| choice.get("finish_reason").is_some_and(Value::is_string)),
            tokens: tokens.and_then(|tokens| usize::try_from(tokens).ok()),
        }
    }
}

fn content(choice: &Value) -> Option<&str> {
    let part = choice.get("delta").or_else(|| choice.get("message"));
    let text = part.and_then(|part| part.get("content"));
    text.or_else(|| choice.get("text"))?.as_str()
}

/// Bytes of text of a choice, arguments of tools included.
fn text_bytes(choice: &Value) -> usize {
    let length = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, str::len);
    let part = choice.get("delta").or_else(|| choice.get("message"));
    let of = |name| length(part.and_then(|part| part.get(name)));
    let calls = part.and_then(|part| part.get("tool_calls")?.as_array());
    let calls = calls.into_iter().flatten();
    let arguments = calls.map(|call| length(call.pointer("/function/arguments")));
    let own = length(choice.get("text")) + of("content") + of("reasoning_content");
    arguments.fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: (u16, &str) = (200, "text/event-stream; charset=utf-8");

    fn watch((status, kind): (u16, &str), body: &[&str], clean: bool) -> Timeline {
        let mut watch = Watch::new(100.0);
        let pairs = &[("content-type".to_owned(), kind.to_owned())];
        let all = true;
        watch.headers(110.0, Headers { status, pairs, all });
        for (at, part) in (12..).zip(body) {
            watch.read(f64::from(at) * 10.0, part.as_bytes());
        }
        watch.close(500.0, clean);
        watch.timeline().clone()
    }

    fn ends_as(body: &[&str], clean: bool) -> (Outcome, Option<Completion>, Option<Failure>) {
        let seen = watch(STREAM, body, clean);
        (seen.outcome, seen.completion, seen.failure)
    }

    #[test]
    fn a_stream_is_complete_by_its_marker_or_a_finish_reason_and_a_clean_end() {
        let finish = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let finish = format!("{finish}\n\n");
        let by = |completion| (Outcome::Complete, Some(completion), None);
        let marker = ["data: \"a\"\n\n", "data: [DONE]\n\n"];
        assert_eq!(ends_as(&marker, true), by(Completion::Marker));
        assert_eq!(ends_as(&marker, false), by(Completion::Marker));
        assert_eq!(ends_as(&[&finish], true), by(Completion::FinishReason));
        assert_eq!(
            ends_as(&["data: \"a\"\r\n\r\n"], true).0,
            Outcome::Incomplete
        );
        for (body, clean, why) in [
            (&["data: \"a\"\n\n"][..], false, Failure::Reset),
            (&[finish.as_str()][..], false, Failure::Reset),
            (&["data: \"a\"\n"][..], true, Failure::Truncated),
            (
                &["data: {\"error\":{\"message\":\"x\"}}\n\n"][..],
                true,
                Failure::Event,
            ),
            (
                &["event: error\ndata: \"x\"\n\n", "data: [DONE]\n\n"][..],
                true,
                Failure::Event,
            ),
            (&["data: no JSON\n\n"][..], true, Failure::Event),
        ] {
            assert_eq!(
                ends_as(body, clean),
                (Outcome::Failed, None, Some(why)),
                "{body:?}"
            );
        }
    }

    #[test]
    fn a_whole_body_is_one_event_at_its_end() {
        let json = (200, "application/json");
        let body = [
            r#"{"choices":[{"message":{"content":"hé"},"finish_reason":"stop"}],"#,
            r#""usage":{"completion_tokens":7}}"#,
        ];
        let seen = watch(json, &body, true);
        assert_eq!(
            (seen.outcome, seen.completion),
            (Outcome::Complete, Some(Completion::Body))
        );
        assert_eq!((seen.first_text_ms(), seen.tokens()), (Some(500.0), 7));
        assert_eq!((seen.events.len(), seen.events[0].text_bytes), (1, 3));
        assert_eq!(seen.body_bytes(), body.concat().len());
        let cut = watch(json, &body[..1], true);
        assert_eq!(cut.failure, Some(Failure::Truncated));
        let refused = watch((429, json.1), &["{}"], true);
        assert_eq!(
            (refused.outcome, refused.failure),
            (Outcome::Failed, Some(Failure::Status))
        );
        let lab = watch(json, &[r#"{"text":"two words "}"#], true);
        assert_eq!(lab.events[0].text_bytes, 10);
    }

    #[test]
    fn the_firsts_are_four_different_moments() {
        let body = [
            ": comment\n\n",
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"conte",
            "nt\":\"one\"}}]}\n\n\
             data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"x\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
        ];
        let seen = watch(STREAM, &body, true);
        assert_eq!(seen.first_byte_ms(), Some(110.0));
        assert_eq!(seen.events.len(), 4);
        assert_eq!(seen.events[0].at_ms, 130.0);
        assert_eq!(
            (seen.first_text_ms(), seen.last_text_ms()),
            (Some(150.0), Some(150.0))
        );
        assert_eq!(seen.output_tokens, Some(2));
        assert!(!seen.events[3].has_choices);
        assert_eq!(seen.closed_ms, Some(500.0));
        assert_eq!(seen.firsts().text, "one");
        let within: Vec<_> = seen.reads.iter().map(|read| read.within_event).collect();
        assert_eq!(within, [false, false, true, false, false]);
        let seen = watch((200, "text/plain"), &["one ", "two "], true);
        assert_eq!((seen.events.len(), seen.outcome), (2, Outcome::Incomplete));
    }

    #[test]
    fn marks_of_hops_are_read_from_headers_that_can_be_read() {
        let marks = |pairs: &[(&str, &str)], all: bool| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let mut watch = Watch::new(0.0);
            let (status, pairs) = (200, &*pairs);
            watch.headers(1.0, Headers { status, pairs, all });
            let marks = watch.timeline().marks?;
            Some([marks.compression, marks.proxy, marks.cdn])
        };
        assert_eq!(marks(&[("server", "uvicorn")], true), Some([false; 3]));
        let nginx = [("server", "nginx/1.26"), ("content-encoding", "gzip")];
        assert_eq!(marks(&nginx, true), Some([true, true, false]));
        let cdn = [("age", "0"), ("vary", "Origin, Accept-Encoding")];
        assert_eq!(marks(&cdn, true), Some([true, false, true]));
        assert_eq!(
            marks(&[("content-encoding", "identity")], true),
            Some([false; 3])
        );
        assert_eq!(marks(&cdn, false), None);
    }

    #[test]
    fn plain_text_keeps_its_characters_whole() {
        let mut watch = Watch::new(0.0);
        watch.headers(0.0, Headers::default());
        for byte in "aé€😀".as_bytes() {
            watch.read(1.0, &[*byte]);
        }
        assert_eq!(watch.timeline().firsts().text, "aé€😀");
    }
}
