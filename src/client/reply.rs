//! What a stream of the OpenAI dialect says, over as many connections as it takes.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::Value;

/// What one event means to a reader.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Something new, with this text of its first choice, which may be none.
    News {
        /// The text.
        text: String,
    },
    /// It was heard before the connection broke.
    Again,
    /// `[DONE]`.
    Done,
    /// The server reports a failure, or says what is no part of the dialect.
    Failed {
        /// The server's own sentence, or ours; never the payload.
        message: String,
    },
}

/// Counts of a reply, as far as the server tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "they are the fields of the dialect")]
pub struct Usage {
    pub prompt_tokens: f64,
    pub cached_tokens: f64,
    pub completion_tokens: f64,
}

/// One reply that is being read.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    seen: HashSet<Rc<str>>,
    last_id: Option<Rc<str>>,
    /// The last id that was new, and the events without an id of their own after it.
    newest: Option<Rc<str>>,
    since_newest: usize,
    /// Events without an id that a new connection tells again.
    again: usize,
    done: bool,
    failed: bool,
    finish_reason: Option<String>,
    has_text: bool,
    usage: Usage,
}

impl Reply {
    /// Reads the next event: its type, its data, and the stream's last id, which a stream
    /// shares between the events that have none of their own.
    pub fn hear(&mut self, event: &str, data: &str, id: &Rc<str>) -> Heard {
        let is_own = match &self.last_id {
            Some(last) => !Rc::ptr_eq(last, id),
            None => !id.is_empty(),
        };
        if is_own {
            self.last_id = Some(Rc::clone(id));
            // An empty id is a reset, not a name.
            if !id.is_empty() && !self.seen.insert(Rc::clone(id)) {
                let is_newest = self.newest.as_ref() == Some(id);
                self.again = if is_newest {
                    self.since_newest
                } else {
                    usize::MAX
                };
                return Heard::Again;
            }
            self.newest = Some(Rc::clone(id));
            (self.since_newest, self.again) = (0, 0);
        } else if self.again > 0 {
            self.again -= 1;
            return Heard::Again;
        } else {
            self.since_newest += 1;
        }
        let heard = self.read(event, data);
        match &heard {
            Heard::Done => self.done = true,
            Heard::Failed { .. } => self.failed = true,
            Heard::News { text } => self.has_text |= !text.is_empty(),
            Heard::Again => {}
        }
        heard
    }

    /// The stream's last id, for an event that has none of its own.
    #[must_use]
    pub fn last_id(&self) -> Rc<str> {
        self.last_id.clone().unwrap_or_else(|| Rc::from(""))
    }

    /// The connection ended. Gives what a new one sends as `Last-Event-ID`, if the server has
    /// given ids and the reply is not over.
    pub fn reconnect(&mut self) -> Option<String> {
        let newest = self.newest.as_ref().filter(|id| !id.is_empty())?;
        if self.is_complete() || self.failed {
            return None;
        }
        self.again = self.since_newest;
        Some(newest.to_string())
    }

    /// Whether the terminal marker has come, or a finish reason, which some servers end with.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.failed && (self.done || self.finish_reason.is_some())
    }

    /// Whether there was text, or a part of a tool call.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.has_text
    }

    /// Whether `[DONE]` has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Counts so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// A whole reply in place of a stream; false where it is none.
    pub fn hear_whole(&mut self, body: &str) -> bool {
        let Ok(Value::Object(_)) = serde_json::from_str(body) else {
            return false;
        };
        let is_reply = matches!(self.read("message", body), Heard::News { .. });
        self.failed = !is_reply;
        self.done = is_reply;
        is_reply
    }

    fn read(&mut self, event: &str, data: &str) -> Heard {
        if data.trim_end() == "[DONE]" {
            return Heard::Done;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            let message = "the server sent a chunk that is no JSON".to_owned();
            return Heard::Failed { message };
        };
        let error = chunk.get("error").filter(|error| !error.is_null());
        if event == "error" || error.is_some() {
            let error = error.unwrap_or(&chunk);
            let said = error.get("message").or(Some(error)).and_then(Value::as_str);
            let message = said.unwrap_or("the server failed and gave no reason");
            return Heard::Failed {
                message: message.to_owned(),
            };
        }
        self.count(&chunk);
        let mut text = chunk.as_str().unwrap_or_default().to_owned();
        for choice in chunk
            .get("choices")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
                self.finish_reason = Some(reason.to_owned());
            }
            let calls = choice
                .pointer("/delta/tool_calls")
                .and_then(Value::as_array);
            self.has_text |= calls.is_some_and(|calls| !calls.is_empty());
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
            if index == 0 {
                text.push_str(text_of(choice));
            }
        }
        Heard::News { text }
    }

    fn count(&mut self, chunk: &Value) {
        let number = |path: &str| chunk.pointer(path).and_then(Value::as_f64);
        let usage = &mut self.usage;
        for (place, path) in [
            (&mut usage.prompt_tokens, "/usage/prompt_tokens"),
            (&mut usage.completion_tokens, "/usage/completion_tokens"),
            (
                &mut usage.cached_tokens,
                "/usage/prompt_tokens_details/cached_tokens",
            ),
        ] {
            if let Some(count) = number(path) {
                *place = count;
            }
        }
    }
}

/// The text of a choice in each of its shapes.
fn text_of(choice: &Value) -> &str {
    let shapes = ["/delta/content", "/message/content", "/text"];
    let mut texts = shapes
        .iter()
        .filter_map(|path| choice.pointer(path)?.as_str());
    texts.next().unwrap_or_default()
}
