//! Server-sent events as the HTML standard defines them: the encoder.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>
#![deny(clippy::arithmetic_side_effects)]

mod encode;

pub use encode::{EncodeError, Event, encode_event};
