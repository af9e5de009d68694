//! `tokenbrook/sse`.

use std::mem;
use std::rc::Rc;

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Error;
use crate::sse::{self, Event, Item, Parser};
use crate::wasm::convert::throw;

/// What [`EventParser::next`] found.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// Nothing is complete: push more.
    None = 0,
    /// `takeData`, `takeEvent` and `takeId` hold it.
    Event = 1,
    /// `takeData` holds it.
    Comment = 2,
    /// `retryMs` holds it.
    Retry = 3,
}

/// A parser with the bytes that it has not read yet: one item is parsed for each
/// [`next`](Self::next).
#[wasm_bindgen]
pub struct EventParser {
    parser: Parser,
    input: Vec<u8>,
    /// Bytes of `input` that are read.
    at: usize,
    data: String,
    event: Option<String>,
    /// The id last told to JavaScript, which keeps it: decoding it again for every event would
    /// cost as much as the id is long.
    told_id: Rc<str>,
    id: Rc<str>,
    retry_ms: u64,
}

#[wasm_bindgen]
impl EventParser {
    /// A parser that keeps at most `max_buffer_bytes` of an unfinished event.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(max_buffer_bytes: Option<f64>, comments: bool) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the face passes positive numbers; beyond the address space `as` saturates"
        )]
        let limit = max_buffer_bytes.map_or(sse::DEFAULT_MAX_BUFFER_BYTES, |bytes| bytes as usize);
        let none: Rc<str> = Rc::from("");
        Self {
            parser: Parser::new(limit, comments),
            input: Vec::new(),
            at: 0,
            data: String::new(),
            event: None,
            told_id: Rc::clone(&none),
            id: none,
            retry_ms: 0,
        }
    }

    /// Takes bytes; nothing is parsed yet.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if self.rest() == 0 {
            self.input = bytes;
        } else {
            self.input.drain(..self.at);
            self.input.extend_from_slice(&bytes);
        }
        self.at = 0;
    }

    /// Bytes that are not parsed.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn rest(&self) -> usize {
        self.input.len() - self.at
    }

    /// Parses up to the next item.
    ///
    /// # Errors
    /// Throws `server-error` for an event beyond the limit, again at every later call.
    #[expect(
        clippy::should_implement_trait,
        reason = "it can fail, and more can be pushed"
    )]
    pub fn next(&mut self) -> Result<ItemKind, JsValue> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let (read, item) = self.parser.read(rest).map_err(|error| {
            (self.input, self.at) = (Vec::new(), 0);
            throw(&Error::from(error))
        })?;
        self.at += read;
        if self.rest() == 0 {
            (self.input, self.at) = (Vec::new(), 0);
        }
        Ok(match item {
            None => ItemKind::None,
            Some(Item::Event(message)) => {
                self.data = message.data;
                self.event = Some(message.event).filter(|event| event != "message");
                self.id = message.id;
                ItemKind::Event
            }
            Some(Item::Comment(text)) => {
                self.data = text;
                ItemKind::Comment
            }
            Some(Item::Retry(ms)) => {
                self.retry_ms = ms;
                ItemKind::Retry
            }
        })
    }

    /// The data of the event, or the comment.
    #[wasm_bindgen(js_name = takeData)]
    pub fn take_data(&mut self) -> String {
        mem::take(&mut self.data)
    }

    /// The type of the event; absent for `message`.
    #[wasm_bindgen(js_name = takeEvent)]
    pub fn take_event(&mut self) -> Option<String> {
        self.event.take()
    }

    /// The id of the event; absent if it is the one given last, which is empty at first.
    #[wasm_bindgen(js_name = takeId)]
    pub fn take_id(&mut self) -> Option<String> {
        let are_empty = self.id.is_empty() && self.told_id.is_empty();
        if are_empty || Rc::ptr_eq(&self.id, &self.told_id) {
            return None;
        }
        self.told_id = Rc::clone(&self.id);
        Some(self.id.to_string())
    }

    /// Milliseconds to wait before a reconnection.
    #[wasm_bindgen(getter, js_name = retryMs)]
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "nobody waits for 2^53 ms")]
    pub fn retry_ms(&self) -> f64 {
        self.retry_ms as f64
    }

    /// What a reconnection sends.
    #[wasm_bindgen(getter, js_name = lastEventId)]
    #[must_use]
    pub fn last_event_id(&self) -> String {
        self.parser.last_event_id().to_string()
    }

    /// The stream is over: drops what is not complete or not parsed.
    pub fn end(&mut self) {
        self.parser.end();
        (self.input, self.at) = (Vec::new(), 0);
    }
}

/// One block of an event stream; absent fields are not written.
///
/// # Errors
/// Throws `invalid-option` where `event` or `id` is more than one line, or `id` holds U+0000.
#[wasm_bindgen(js_name = encodeEvent)]
pub fn encode_event(
    comment: Option<String>,
    event: Option<String>,
    id: Option<String>,
    retry_ms: Option<f64>,
    data: Option<String>,
) -> Result<String, JsValue> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the face passes whole numbers from 0; `as` saturates otherwise"
    )]
    let retry_ms = retry_ms.map(|ms| ms as u64);
    let event = Event {
        comment: comment.as_deref(),
        event: event.as_deref(),
        id: id.as_deref(),
        retry_ms,
        data: data.as_deref(),
    };
    let mut out = String::new();
    sse::encode_event(&event, &mut out).map_err(|error| throw(&Error::from(error)))?;
    Ok(out)
}
