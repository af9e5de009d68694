//! Bodies: what each endpoint writes for tokens, an end, an error.

use serde_json::json;

use super::scenario::Omission;
use super::source::Token;
use crate::openai::{CompletionWriter, DialectError, Usage};
use crate::sse::{Event, encode_event};

/// How a reply is written.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// The OpenAI dialect, whole or as a stream.
    Dialect {
        writer: Box<CompletionWriter>,
        is_stream: bool,
    },
    /// `{"text":"…"}`.
    Wait(String),
    /// `data: "word "` events.
    Stream(Vec<u8>),
    /// The text as it is.
    Plain(Vec<u8>),
}

impl Body {
    /// Whether parts leave before the whole is there.
    pub(super) fn streams(&self) -> bool {
        match self {
            Self::Dialect { is_stream, .. } => *is_stream,
            Self::Wait(_) => false,
            Self::Stream(_) | Self::Plain(_) => true,
        }
    }

    /// Whether the body is made of events.
    pub(super) fn has_events(&self) -> bool {
        self.streams() && !matches!(self, Self::Plain(_))
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Plain(_) => "text/plain; charset=utf-8",
            _ if self.streams() => "text/event-stream; charset=utf-8",
            _ => "application/json",
        }
    }

    /// Starts an answer; the dialect's streams open with the role.
    pub(super) fn begin(&mut self) {
        if let Self::Dialect { writer, .. } = self {
            writer.begin();
        }
    }

    /// Adds tokens that are delivered together: one event.
    pub(super) fn tokens(&mut self, tokens: &[Token]) {
        let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
        match self {
            Self::Dialect { writer, .. } => {
                if !text.is_empty() {
                    writer.token(&text, None);
                }
                let calls = tokens.iter().filter_map(|token| token.call.clone());
                writer.tool_calls(calls.collect());
            }
            Self::Wait(whole) => whole.push_str(&text),
            Self::Stream(out) if !text.is_empty() => event(None, &json!(text).to_string(), out),
            Self::Stream(_) => {}
            Self::Plain(out) => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Ends an answer; after the last one, the body.
    pub(super) fn finish(&mut self, reason: &str, usage: Usage, omit: Option<Omission>) {
        match self {
            Self::Dialect { writer, is_stream } => {
                let whole = *is_stream && omit == Some(Omission::All);
                if !whole {
                    writer.finish(reason, usage);
                }
            }
            Self::Stream(out) if omit.is_none() => event(None, "[DONE]", out),
            Self::Stream(_) | Self::Wait(_) | Self::Plain(_) => {}
        }
    }

    /// Ends a body that has begun with an error event, where it is made of events. False where
    /// it is not: there the connection has to break.
    pub(super) fn fail(&mut self, code: &str, message: &str) -> bool {
        if !self.has_events() {
            return false;
        }
        match self {
            Self::Dialect { writer, .. } => writer.fail(&DialectError::Engine {
                code: code.to_owned(),
                message: message.to_owned(),
                param: None,
            }),
            Self::Stream(out) => event(Some("error"), &error_json(500, code, message), out),
            Self::Wait(_) | Self::Plain(_) => {}
        }
        true
    }

    /// What was written since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Dialect { writer, .. } => writer.take(),
            Self::Stream(out) | Self::Plain(out) => std::mem::take(out),
            Self::Wait(_) => Vec::new(),
        }
    }

    /// The whole body of a reply that is no stream, at its end.
    pub(super) fn whole(&mut self) -> Vec<u8> {
        match self {
            Self::Wait(text) => json!({ "text": text }).to_string().into_bytes(),
            _ => self.take(),
        }
    }
}

/// Appends an event; the only names are constants of one line.
fn event(name: Option<&str>, data: &str, out: &mut Vec<u8>) {
    let event = Event {
        event: name,
        data: Some(data),
        ..Event::default()
    };
    let mut text = String::new();
    let encoded = encode_event(&event, &mut text);
    debug_assert!(encoded.is_ok(), "{encoded:?}");
    out.extend_from_slice(text.as_bytes());
}

/// An event that ends a stream with an error.
pub(super) fn error_event(code: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    event(Some("error"), &error_json(500, code, message), &mut out);
    out
}

/// Bytes of several events as one piece each: they end in an empty line, and the JSON within
/// has no line end.
pub(super) fn events(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        if bytes[at - 1..=at] == *b"\n\n" {
            found.push(bytes[start..=at].to_vec());
            start = at + 1;
        }
    }
    if start < bytes.len() {
        found.push(bytes[start..].to_vec());
    }
    found
}

/// The dialect's error object for a status.
pub(super) fn error_json(status: u16, code: &str, message: &str) -> String {
    let kind = match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let error = json!({ "message": message, "type": kind, "param": null, "code": code });
    json!({ "error": error }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<Token> {
        let text =
            "A model does not write the whole answer at once. It makes it one piece at a time.";
        let words = text.split(' ');
        words
            .map(|word| Token {
                text: format!("{word} "),
                call: None,
            })
            .collect()
    }

    #[test]
    fn the_eighteen_words_are_93_bytes_whole_and_276_as_events() {
        let words = words();
        assert_eq!(words.len(), 18);
        let mut wait = Body::Wait(String::new());
        let mut stream = Body::Stream(Vec::new());
        let mut by_fours = Body::Stream(Vec::new());
        let mut plain = Body::Plain(Vec::new());
        for word in &words {
            for body in [&mut wait, &mut stream, &mut plain] {
                body.tokens(std::slice::from_ref(word));
            }
        }
        for four in words.chunks(4) {
            by_fours.tokens(four);
        }
        for body in [&mut wait, &mut stream, &mut by_fours, &mut plain] {
            body.finish("stop", Usage::default(), None);
        }
        assert_eq!(wait.whole().len(), 93);
        let streamed = stream.take();
        assert_eq!(streamed.len(), 276);
        assert!(streamed.starts_with(b"data: \"A \"\n\ndata: \"model \"\n\n"));
        assert!(streamed.ends_with(b"data: \"time. \"\n\ndata: [DONE]\n\n"));
        let found = events(&streamed);
        assert_eq!(found.len(), 19);
        assert_eq!(found.concat(), streamed);
        // Ten bytes an event, fourteen for the end.
        let text: usize = words.iter().map(|word| word.text.len()).sum();
        assert_eq!(text + 18 * 10 + 14, 276);
        assert_eq!(events(&by_fours.take()).len(), 5 + 1);
        assert_eq!(plain.take().len(), text);
    }

    #[test]
    fn omissions_leave_out_the_marker_and_errors_take_its_place() {
        let mut stream = Body::Stream(Vec::new());
        stream.tokens(&words()[..1]);
        stream.finish("stop", Usage::default(), Some(Omission::Marker));
        assert_eq!(stream.take(), b"data: \"A \"\n\n");
        assert!(stream.fail("mock_failure", "It broke."));
        let failed = String::from_utf8(stream.take()).expect("it is text");
        assert_eq!(
            failed,
            "event: error\ndata: {\"error\":{\"message\":\"It broke.\",\
             \"type\":\"server_error\",\"param\":null,\"code\":\"mock_failure\"}}\n\n"
        );
        assert!(!Body::Wait(String::new()).fail("x", "y"));
        assert!(!Body::Plain(Vec::new()).fail("x", "y"));
    }
}
