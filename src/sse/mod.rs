//! Server-sent events as the HTML standard defines them: the parser and the encoder.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>
#![deny(clippy::arithmetic_side_effects)]

mod encode;
mod parse;

pub use encode::{EncodeError, Event, encode_event};
pub use parse::{DEFAULT_MAX_BUFFER_BYTES, Item, Message, Parser, TooLarge};
